//go:build unix

package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// ListFunctions print the same tree by each of their three ways and in every
// shell that is here, names and links with anything in them included.
func TestListFunctions(t *testing.T) {
	dir := t.TempDir()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.MkdirAll(filepath.Join(dir, "a b", "c"), 0o755))
	check(os.Mkdir(filepath.Join(dir, ".sbsync-abcdefghijklmnop"), 0o700))
	file := filepath.Join(dir, "a b", "c", "new\nline")
	check(os.WriteFile(file, []byte("hi"), 0o640))
	check(os.Chmod(file, 0o640))
	check(os.Chtimes(file, time.Time{}, time.Unix(1_500_000_000, 250_000_000)))
	check(os.Symlink("x -> y\n//z", filepath.Join(dir, "l")))
	want := []Entry{
		{Path: "a b", Type: Dir},
		{Path: "a b/c", Type: Dir},
		{Path: "a b/c/new\nline", Type: File, Mode: 0o640, Size: 2, Time: Time{1_500_000_000, 250_000_000}},
		{Path: "l", Type: Symlink, Link: "x -> y\n//z"},
	}

	hidden := map[string]string{
		"find's -printf": "",
		"find and stat":  `find() { case $* in *-printf*) return 1 ;; esac; command find "$@"; }`,
		"the shell":      "find() { return 1; }",
	}
	for _, shell := range [][]string{{"sh"}, {"dash"}, {"bash"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err != nil {
			continue
		}
		for way, hide := range hidden {
			have := `have() { command -v "$1" >/dev/null; }`
			if way == "the shell" {
				have = `have() { [ "$1" != find ] && command -v "$1" >/dev/null; }`
			}
			script := "set -f; TZ=UTC0 LC_ALL=C; export TZ LC_ALL\ndie() { echo \"$2\" >&2; exit $1; }\n" + have + "\n" + hide + "\n" + ListFunctions + "list_tree"
			cmd := exec.Command(shell[0], append(shell[1:len(shell):len(shell)], "-c", script)...)
			cmd.Dir, cmd.Stderr = dir, os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%q by %s: %v", shell, way, err)
			}
			l, err := Parse(out)
			if err != nil {
				t.Fatalf("%q by %s: %v\n%q", shell, way, err, out)
			}
			if l.Incomplete || l.Root.Type != Dir || l.Leftovers != 1 || len(l.Entries) != len(want) {
				t.Fatalf("%q by %s: %+v", shell, way, l)
			}
			for i, e := range l.Entries {
				w := want[i]
				if w.Type != File { // what the test has not set
					e.Mode, e.Time = 0, Time{}
				}
				e.Dev, e.Ino, e.Nlink, e.Changed = 0, 0, 0, 0
				if w.Type == Symlink || w.Type == Dir {
					e.Size = 0
				}
				if e != w {
					t.Errorf("%q by %s:\n got %+v\nwant %+v", shell, way, e, w)
				}
			}
		}
	}
}
