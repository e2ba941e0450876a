//go:build unix

package transfer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// pathOf makes a relative path of so many bytes, whose elements have 50 at most.
func pathOf(n int) string {
	var b strings.Builder
	for b.Len() < n {
		if b.Len()%51 == 50 && b.Len() < n-1 {
			b.WriteByte('/')
		} else {
			b.WriteByte("0123456789"[b.Len()/100%10])
		}
	}
	return b.String()
}

// https://github.com/libarchive/libarchive/issues/901,
// https://github.com/Quantco/pixi-pack/issues/258 and
// https://github.com/isaacs/node-tar/issues/217: names over 100 bytes are cut.
func TestCase_B32(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		sb, host := k.fake(t, providertest.Options{}), t.TempDir()
		src, back, box := filepath.Join(host, "src"), filepath.Join(host, "back"), filepath.Join(sb.Root(), "box")
		files := map[string]string{}
		// 100, 155 and 256 are limits of the ustar header with and without its
		// prefix; names in our archives have two bytes more.
		for _, n := range []int{97, 98, 99, 100, 101, 102, 154, 155, 156, 253, 254, 255, 256, 257, 300, 511, 512, 513, 1000, 3000} {
			files[fmt.Sprintf("%d/%s", n, pathOf(n-1-len(fmt.Sprint(n))))] = fmt.Sprint(n)
			files[fmt.Sprintf("links/%d", n)] = "-> " + pathOf(n)
		}
		for _, n := range []int{99, 100, 101, 150, 255} { // one element, which the prefix does not help
			files[strings.Repeat("n", n)] = fmt.Sprint(n)
			files["d/"+strings.Repeat("d", n)+"/"] = ""
			files["l/"+strings.Repeat("l", n)] = "-> " + strings.Repeat("x", n)
		}
		files["links/4095"] = "-> " + strings.TrimSuffix(strings.Repeat("./", 2048), "/")
		writeTree(t, src, files)
		// A hard link has two long names. The first in order is the file.
		for _, n := range []int{99, 100, 101, 300} {
			must(t, os.Link(filepath.Join(src, fmt.Sprintf("%d/%s", n, pathOf(n-1-len(fmt.Sprint(n))))), filepath.Join(src, "zz"+strings.Repeat("h", n-2))[:len(src)+1+min(n, 255)]))
		}
		for _, dir := range []string{"", "twice"} {
			mustRun(t, sb, transfer.Push, src, filepath.Join(box, dir), k.options())
			compare{wholeSeconds: k.busybox}.same(t, src, filepath.Join(box, dir))
			mustRun(t, sb, transfer.Pull, filepath.Join(box, dir), filepath.Join(back, dir), k.options())
			compare{wholeSeconds: k.busybox}.same(t, src, filepath.Join(back, dir))
			must(t, os.RemoveAll(back))
			must(t, os.RemoveAll(box))
		}
	})
}

// What is too long is named, before anything is sent.
func TestCase_B32_tooLong(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		sb, host := k.fake(t, providertest.Options{}), t.TempDir()
		src := filepath.Join(host, "src")
		writeTree(t, src, map[string]string{"ok": "ok\n", pathOf(300): "long\n"})
		opt := k.options()
		opt.Limits.PathBytes = 299
		_, err := run(t, sb, transfer.Push, src, filepath.Join(sb.Root(), "box"), opt)
		wantKind(t, err, provider.TooLarge)
		if err != nil && !strings.Contains(err.Error(), pathOf(300)[:60]) {
			t.Errorf("the path is not named: %v", err)
		}
		if exists(filepath.Join(sb.Root(), "box")) {
			t.Error("something was sent")
		}
		_, err = run(t, sb, transfer.Pull, src, filepath.Join(host, "out"), opt)
		wantKind(t, err, provider.TooLarge)
		if exists(filepath.Join(host, "out")) {
			t.Error("something was pulled")
		}
	})
}

// No limit of ours, but of the sandbox's system: the path and the name of the
// staging directory are longer together than a path may be.
func TestCase_B32_limit(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		sb, host := k.fake(t, providertest.Options{}), t.TempDir()
		for _, n := range []int{4095, 4094, 4093} {
			name := pathOf(n-201) + "/" + strings.Repeat("f", 200)
			src, box := filepath.Join(host, fmt.Sprint("src", n)), filepath.Join(sb.Root(), fmt.Sprint("box", n))
			writeTree(t, src, map[string]string{"ok": "ok\n"})
			must(t, writeDeep(src, name))
			_, err := run(t, sb, transfer.Push, src, box, k.options())
			switch {
			case err == nil && n <= 4093:
				if got := readDeep(t, box, name); got != name {
					t.Errorf("the file has %d bytes", len(got))
				}
			case err == nil || !strings.Contains(err.Error(), name[:60]):
				t.Errorf("a path of %d bytes: the error does not name it: %v", n, err)
			case exists(box):
				t.Errorf("a path of %d bytes: a part of it is there", n)
			}
			noScratch(t, sb.Root())
		}
	})
}

// writeDeep writes a file whose path is too long for the system, with itself in
// it.
func writeDeep(dir, rel string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
		return err
	}
	return root.WriteFile(rel, []byte(rel), 0o644)
}

func readDeep(t testing.TB, dir, rel string) string {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	b, err := root.ReadFile(rel)
	must(t, err)
	return string(b)
}

// Neighbours of B32: the target lies deep itself, so that the whole path is too
// long for one call of the system, in the sandbox or on the host.
func TestCase_B32_deepTarget(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		sb, host := k.fake(t, providertest.Options{}), t.TempDir()
		src := filepath.Join(host, "src")
		files := map[string]string{"a": "a\n", pathOf(2000): "long\n"}
		writeTree(t, src, files)
		target := filepath.Join(sb.Root(), pathOf(1900))
		_, err := run(t, sb, transfer.Push, src, target, k.options())
		if err == nil {
			k.compare().same(t, src, target)
		} else if exists(filepath.Join(target, "a")) {
			t.Errorf("a part of it is there after %v", err)
		}
		noScratch(t, sb.Root())
		_, err = run(t, sb, transfer.Pull, src, filepath.Join(host, pathOf(1900)), k.options())
		if err == nil {
			k.compare().same(t, src, filepath.Join(host, pathOf(1900)))
		} else if exists(filepath.Join(host, pathOf(1900), "a")) {
			t.Errorf("a part of it is there after %v", err)
		}
		noScratch(t, host)
	})
}

// Read in the source (M7): a bulk endpoint trims blanks off names. A sandbox
// that has one gets such names by another way, under their exact names.
func TestCase_B34(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		sb, host := k.fake(t, providertest.Options{Files: true, LosePut: 1}), t.TempDir()
		src := filepath.Join(host, "src")
		files := map[string]string{}
		for _, name := range []string{" a", "b ", "a", "b", "\tc", "c\n", "\u00a0d", " ", "  ", " dir/ x ", "e.", "f. ", "\v\f", "\r"} {
			files[name] = fmt.Sprintf("%q\n", name)
		}
		writeTree(t, src, files)
		must(t, os.Symlink(" a ", filepath.Join(src, " link ")))
		box := filepath.Join(sb.Root(), " box ")
		mustRun(t, sb, transfer.Push, src, box, k.options())
		compare{wholeSeconds: k.busybox}.same(t, src, box)
		mustRun(t, sb, transfer.Pull, box, filepath.Join(host, " back "), k.options())
		compare{wholeSeconds: k.busybox}.same(t, src, filepath.Join(host, " back "))
		mustRun(t, sb, transfer.Push, filepath.Join(src, " a"), filepath.Join(box, "new", " a "), k.options())
		if got := readFile(t, filepath.Join(box, "new", " a ")); got != `" a"` {
			t.Errorf("the single file is %q", got)
		}
		mustRun(t, sb, transfer.Pull, filepath.Join(box, "b "), filepath.Join(host, " out "), k.options())
		if got := readFile(t, filepath.Join(host, " out ")); got != `"b "` {
			t.Errorf("the single file is %q", got)
		}
	})
}

// Neighbours of B31: each byte value but NUL and the slash, alone, at the start,
// in the middle and at the end of a name, of a directory's name and of a link's
// text; names that only differ in case, in how an accent is written, in a blank
// or a byte at the end; names of 255 bytes that differ in the last one.
func TestEveryByteInNames(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // other systems' file names are no plain bytes
	}
	files := map[string]string{}
	for b := 1; b < 256; b++ {
		c := string([]byte{byte(b)})
		if c == "/" {
			continue
		}
		if c != "." {
			files["alone/"+c] = fmt.Sprint("alone ", b)
			files["dirs/"+c+"/"+c+c] = fmt.Sprint("below ", b)
			files[fmt.Sprint("links/", b)] = "-> " + c
		}
		files["first/"+c+"x"] = fmt.Sprint("first ", b)
		files["middle/x"+c+"y"] = fmt.Sprint("middle ", b)
		files["last/x"+c] = fmt.Sprint("last ", b)
	}
	for i, name := range []string{
		"readme", "README", "Readme", "ReadMe", "stra\u00dfe", "STRASSE", "\u0131", "i", "\u0130", "I", "k", "\u212a",
		"caf\u00e9", "cafe\u0301", "\u00c5", "A\u030a", "\u212b", "\ufb01", "fi", "\u1e9b\u0323", "\u1e9b\u0323 ",
		"a", "a ", " a", "a\u00a0", "a.", "a\u200b", "a\ufeff", "a\n", "a\r", "a\t", "a\\n", "a\\", "a'", "a\\012",
		strings.Repeat("n", 254) + "a", strings.Repeat("n", 254) + "b", strings.Repeat("n", 254) + "\xff",
		strings.Repeat("\u00e9", 127) + "a", strings.Repeat("\n", 255), strings.Repeat("'", 255),
	} {
		files["alike/"+name] = fmt.Sprint("alike ", i)
		files["alike dirs/"+name+"/f"] = fmt.Sprint("in ", i)
	}
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, files)
		w.mustRun()
		w.k.compare().same(t, w.source, w.target)
		// All is found again, changed and deleted under exactly these names.
		if rep := w.mustRun(); rep.Files+rep.Links+rep.Changed != 0 {
			t.Errorf("again: %d files, %d links, %d changed", rep.Files, rep.Links, rep.Changed)
		}
		for _, dir := range []string{"alone", "alike", "dirs"} {
			must(t, os.RemoveAll(filepath.Join(w.source, dir)))
		}
		for name := range files {
			if strings.HasPrefix(name, "last/") || strings.HasPrefix(name, "alike dirs/") {
				must(t, os.WriteFile(filepath.Join(w.source, name), []byte("another text"), 0o644))
			}
		}
		w.opt.Policy = transfer.Mirror
		w.opt.Checksum = true
		w.mustRun()
		w.k.compare().same(t, w.source, w.target)
		w.clean()
	})
}
