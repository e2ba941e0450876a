package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sbsync/sbsync/pkg/tree"
)

// scriptCommands are what scripts can do beyond testscript's own commands.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exit-code":  scriptExitCode,
		"tree-equal": scriptTreeEqual,
		"mkbytes":    scriptMkbytes,
		"mkfifo":     scriptMkfifo,
		"put":        scriptPut,
		"mode":       scriptMode,
		"mtime":      scriptMtime,
		"no-scratch": scriptNoScratch,
	}
}

// exit-code N program [args...]: the program ends with exactly this code.
func scriptExitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit-code N program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// mkbytes FILE SIZE [SEED]: a file of random bytes, always the same ones for a
// seed. SIZE is in bytes, or has a K or M after it.
func scriptMkbytes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: mkbytes FILE SIZE [SEED]")
	}
	digits, unit := strings.TrimRight(args[1], "KM"), 1
	switch args[1][len(digits):] {
	case "K":
		unit = 1 << 10
	case "M":
		unit = 1 << 20
	}
	n, err := strconv.Atoi(digits)
	ts.Check(err)
	var seed [32]byte
	copy(seed[:], args[len(args)-1])
	content := make([]byte, n*unit)
	rand.NewChaCha8(seed).Read(content)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), content, 0o644))
}

// mkfifo FILE...
func scriptMkfifo(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		ts.Check(makeFIFO(ts.MkAbs(name)))
	}
}

// put NAME TEXT: a file with this line in it. Both may have escapes as in a Go
// string; directories on the way are made.
func scriptPut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: put NAME TEXT")
	}
	for i, arg := range args {
		text, err := strconv.Unquote(`"` + strings.ReplaceAll(arg, `"`, `\"`) + `"`)
		if err != nil {
			ts.Fatalf("put %s: %v", arg, err)
		}
		args[i] = text
	}
	file := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(file), 0o755))
	ts.Check(os.WriteFile(file, []byte(args[1]+"\n"), 0o644))
}

// mode OCTAL FILE...: [!] each file has these permission bits.
func scriptMode(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: mode OCTAL FILE...")
	}
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	for _, name := range args[1:] {
		info, err := os.Lstat(ts.MkAbs(name))
		ts.Check(err)
		if got := posixMode(info.Mode()); (got == uint32(want)) == neg {
			ts.Fatalf("%s has mode %04o", name, got)
		}
	}
}

// mtime RFC3339 FILE...: sets the time of files, as with touch.
func scriptMtime(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: mtime RFC3339 FILE...")
	}
	at, err := time.Parse(time.RFC3339Nano, args[0])
	ts.Check(err)
	for _, name := range args[1:] {
		ts.Check(os.Chtimes(ts.MkAbs(name), at, at))
	}
}

// no-scratch DIR...: nothing that sbsync makes for a while is left below.
func scriptNoScratch(ts *testscript.TestScript, neg bool, args []string) {
	for _, dir := range args {
		err := filepath.WalkDir(ts.MkAbs(dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(d.Name(), tree.ScratchPrefix) {
				return fmt.Errorf("scratch is left: %q", path)
			}
			return err
		})
		ts.Check(err)
	}
}

// tree-equal [-no-times] [-no-dir-times] [-no-modes] A B: [!] two files or
// trees have the same names, types, modes, sizes, contents, link texts and times. The times of
// links are never compared: few systems can set them.
func scriptTreeEqual(ts *testscript.TestScript, neg bool, args []string) {
	var ignore []string
	for len(args) > 0 && strings.HasPrefix(args[0], "-no-") {
		ignore, args = append(ignore, args[0]), args[1:]
	}
	if len(args) != 2 {
		ts.Fatalf("usage: tree-equal [-no-times] [-no-dir-times] [-no-modes] A B")
	}
	if ts.Getenv("TOOLS") == "busybox" {
		ignore = append(ignore, "-no-fractions")
	}
	a, err := describeTree(ts.MkAbs(args[0]), ignore)
	ts.Check(err)
	b, err := describeTree(ts.MkAbs(args[1]), ignore)
	ts.Check(err)
	difference := firstDifference(a, b)
	if neg && difference == "" {
		ts.Fatalf("the trees are equal")
	}
	if !neg && difference != "" {
		ts.Fatalf("the trees differ:\n%s", difference)
	}
}

// describeTree has one line for each entry, in order of path.
func describeTree(root string, ignore []string) ([]string, error) {
	var lines []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line, err := describeEntry(path, info, ignore)
		rel, _ := filepath.Rel(root, path) // both come from one walk
		lines = append(lines, fmt.Sprintf("%q %s", filepath.ToSlash(rel), line))
		return err
	})
	slices.Sort(lines)
	return lines, err
}

func describeEntry(path string, info fs.FileInfo, ignore []string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", info.Mode().Type())
	link := info.Mode()&fs.ModeSymlink != 0
	if !slices.Contains(ignore, "-no-modes") && !link {
		fmt.Fprintf(&b, " %04o", posixMode(info.Mode()))
	}
	noTime := slices.Contains(ignore, "-no-times") || info.IsDir() && slices.Contains(ignore, "-no-dir-times")
	if !noTime && !link {
		t := info.ModTime().UTC()
		if slices.Contains(ignore, "-no-fractions") {
			t = t.Truncate(time.Second)
		}
		fmt.Fprintf(&b, " %s", t.Format(time.RFC3339Nano))
	}
	if link {
		text, err := os.Readlink(path)
		fmt.Fprintf(&b, " -> %q", text)
		return b.String(), err
	}
	if info.Mode().IsRegular() {
		content, err := os.ReadFile(path)
		fmt.Fprintf(&b, " %d bytes, %x", len(content), sha256.Sum256(content))
		return b.String(), err
	}
	return b.String(), nil
}

func firstDifference(a, b []string) string {
	for i := range max(len(a), len(b)) {
		var one, two string
		if i < len(a) {
			one = a[i]
		}
		if i < len(b) {
			two = b[i]
		}
		if one != two {
			return fmt.Sprintf("first:  %s\nsecond: %s", one, two)
		}
	}
	return ""
}

func posixMode(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	for special, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&special != 0 {
			bits |= bit
		}
	}
	return bits
}
