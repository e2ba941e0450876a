package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestListSmoke(t *testing.T) {
	dir := t.TempDir()
	os.MkdirAll(filepath.Join(dir, "a b", "c"), 0o755)
	os.WriteFile(filepath.Join(dir, "a b", "c", "new\nline"), []byte("hi"), 0o640)
	os.Symlink("x -> y\n//z", filepath.Join(dir, "l"))
	for _, sh := range []string{"dash", "bash", "busybox sh"} {
		for _, hide := range []string{"", "find"} {
			cmd := exec.Command("sh", "-c", sh+` -c "$1"`, "x", "set -f; TZ=UTC0; export TZ\nhave() { [ \"$1\" != '"+hide+"' ] && command -v $1 >/dev/null; }; find() { [ '"+hide+"' != find ] && command find \"$@\"; }\n"+ListFunctions+"list_tree")
			cmd.Dir = dir
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(sh, err)
			}
			l, err := Parse(out)
			if err != nil {
				t.Fatalf("%s: %v %q", sh, err, out)
			}
			t.Logf("%s %q %+v", sh, out[:5], l.Entries)
		}
	}
}
