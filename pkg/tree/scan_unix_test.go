//go:build unix

package tree

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

// TestScanSpecials is B43: opening a FIFO would hang.
func TestScanSpecials(t *testing.T) {
	t.Chdir(realTemp(t)) // a socket's path is short
	plantEmpty(t, ".", "a")
	for _, p := range []string{"fifo", "out"} {
		if err := syscall.Mkfifo(p, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", "sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	rules := mustRules(t, RuleOptions{Exclude: []string{"out"}, IgnoreFiles: []string{"fifo"}})
	for _, follow := range []bool{false, true} {
		s := mustScan(t, ".", ScanOptions{Rules: rules, Follow: follow})
		if got, want := problemsOf(s), []string{"fifo: " + ErrSpecial.Error() + ": fifo", "sock: " + ErrSpecial.Error() + ": socket"}; !slices.Equal(got, want) {
			t.Errorf("problems %q, want %q", got, want)
		}
		for _, p := range s.Problems {
			if !p.Skip || !errors.Is(p.Err, ErrSpecial) {
				t.Errorf("%q is not skipped by rule", p.Path)
			}
		}
		if e := entryAt(t, s, "fifo"); e.Type != Special || e.Special != "fifo" {
			t.Errorf("entry %+v", e)
		}
	}
	s := mustScan(t, "fifo", ScanOptions{})
	if s.Root.Type != Special || len(s.Problems) != 1 {
		t.Errorf("a FIFO as root gives %+v", s)
	}
}

func TestScanInodes(t *testing.T) {
	root := realTemp(t)
	plant(t, root, map[string]string{"a": "x", "d/": "", "c": "y"})
	if err := os.Link(filepath.Join(root, "a"), filepath.Join(root, "d/b")); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{"a": 0o710, "c": 0o600, "d": 0o700} {
		if err := os.Chmod(filepath.Join(root, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Chmod(filepath.Join(root, "d"), 0o1750); err != nil {
		t.Fatal(err)
	}
	s := mustScan(t, root, ScanOptions{})
	a, b, c, d := entryAt(t, s, "a"), entryAt(t, s, "d/b"), entryAt(t, s, "c"), entryAt(t, s, "d")
	if a.Ino == 0 || a.Ino != b.Ino || a.Dev != b.Dev || a.Nlink != 2 || c.Ino == a.Ino || c.Nlink != 1 {
		t.Errorf("hard links: %+v, %+v; other %+v", a, b, c)
	}
	if a.Mode != 0o710 || c.Mode != 0o600 || d.Mode != 0o1750 {
		t.Errorf("modes %o, %o, %o", a.Mode, c.Mode, d.Mode)
	}
}

// TestScanNames is B25, B28, B29, B31 and B34 for the scan.
func TestScanNames(t *testing.T) {
	root := realTemp(t)
	names := []string{
		" a", "b ", "-rf", "--help", "-", "it's", `a"b`, "$(touch pwn)", "`id`", "a;b", "new\nline", "tab\t", `back\slash`,
		"broken[.txt", "[slug]-1.js", "a*b", "q?.md", "{x}", "...", "~", strings.Repeat("n", 255), "\xff\xfe", "\xed\xa0\x80", "C:", "a -> b",
	}
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(root, n), nil, 0o644); errors.Is(err, syscall.EILSEQ) {
			continue // macOS has no such names
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(strings.Repeat("../t/", 200)+"\xff", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	s := mustScan(t, root, ScanOptions{})
	var want []string
	for _, e := range list {
		want = append(want, e.Name())
	}
	if got := pathsOf(s); !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
	if e := entryAt(t, s, "link"); e.Link != strings.Repeat("../t/", 200)+"\xff" {
		t.Errorf("link text has %d bytes", len(e.Link))
	}
}

// TestScanUnreadable is P24: what can't be read must not look empty.
func TestScanUnreadable(t *testing.T) {
	root := realTemp(t)
	plantEmpty(t, root, "closed/x", "open/y", "z")
	closed := filepath.Join(root, "closed")
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(closed, 0o755) })
	s := mustScan(t, root, ScanOptions{})
	if os.Geteuid() == 0 { // nothing is closed to root
		if !slices.Contains(pathsOf(s), "closed/x") {
			t.Errorf("paths %q", pathsOf(s))
		}
		return
	}
	if got, want := pathsOf(s), []string{"closed", "open", "open/y", "z"}; !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
	if len(s.Problems) != 1 || s.Problems[0].Path != "closed" || !errors.Is(s.Problems[0].Err, fs.ErrPermission) || s.Problems[0].Skip {
		t.Errorf("problems %q", problemsOf(s))
	}
	if _, err := Scan(t.Context(), closed, ScanOptions{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("as root: error %v, want permission", err)
	}
}

// walkOne reads the single directory d as a scan of root would.
func walkOne(t *testing.T, root string, d *dirNode) *Snapshot {
	t.Helper()
	w := &walker{root: root, real: root}
	if err := w.read(d); err != nil {
		t.Fatal(err)
	}
	top := &dirNode{entries: []Entry{{Path: d.path, Type: Dir}}, subs: []*dirNode{d}}
	s := &Snapshot{}
	w.collect(s, top)
	return s
}

func TestScanVanishedDirectory(t *testing.T) {
	root := realTemp(t)
	plantEmpty(t, root, "file")
	if err := os.Symlink(".", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"none", "file", "link"} { // gone, or replaced
		s := walkOne(t, root, &dirNode{path: name, real: filepath.Join(root, name)})
		if len(s.Entries) != 0 || len(s.Problems) != 1 || s.Problems[0].Path != name || s.Problems[0].Skip {
			t.Errorf("%s: paths %q, problems %q", name, pathsOf(s), problemsOf(s))
		}
	}
}

func TestScanVanishedFile(t *testing.T) {
	root := realTemp(t)
	h, err := openDir(root)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	w := &walker{root: root, real: root}
	d := &dirNode{real: root, rules: mustRules(t, RuleOptions{Exclude: []string{"*.tmp"}})}
	for _, name := range []string{"gone", "gone.tmp"} {
		if err := w.look(d, h, name); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.problems) != 1 || d.problems[0].Path != "gone" || !errors.Is(d.problems[0].Err, fs.ErrNotExist) || d.excluded != 1 {
		t.Errorf("problems %v, %d excluded", d.problems, d.excluded)
	}
}

// TestFollowCycles is B35: kubernetes/kubernetes#58049.
func TestFollowCycles(t *testing.T) {
	root := realTemp(t)
	plant(t, root, map[string]string{
		"d/x": "", "d/loop": "-> ..", "d/self": "-> .", "l1": "-> l2", "l2": "-> l1", "me": "-> me", "f": "hello", "to-f": "-> d/../f",
		"to-d": "-> d", "dangling": "-> none", "abs": "-> " + root + "/d",
	})
	s := mustScan(t, root, ScanOptions{Follow: true})
	want := []string{"abs", "abs/x", "d", "d/x", "f", "to-d", "to-d/x", "to-f"}
	if got := pathsOf(s); !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
	var cycles []string
	for _, p := range s.Problems {
		if p.Skip {
			t.Errorf("%q is skipped by rule", p.Path)
		}
		if errors.Is(p.Err, ErrCycle) {
			cycles = append(cycles, p.Path)
		} else if p.Path != "dangling" || !errors.Is(p.Err, fs.ErrNotExist) {
			t.Errorf("problem %q: %v", p.Path, p.Err)
		}
	}
	if want := []string{"abs/loop", "abs/self", "d/loop", "d/self", "l1", "l2", "me", "to-d/loop", "to-d/self"}; !slices.Equal(cycles, want) {
		t.Errorf("cycles at %q, want %q", cycles, want)
	}
	if e := entryAt(t, s, "to-f"); e.Type != File || e.Size != 5 || e.Link != "" {
		t.Errorf("followed link is %+v", e)
	}
}

func TestFollowExternal(t *testing.T) {
	outside, root := realTemp(t), realTemp(t)
	plant(t, outside, map[string]string{"secret": "s", "d/y": "", "d/back": "-> " + root})
	plant(t, root, map[string]string{
		"in/x": "", "abs": "-> " + outside + "/secret", "dir": "-> " + outside + "/d", "hop": "-> abs",
		"in/up": "-> ../../" + filepath.Base(outside) + "/secret", "ok": "-> in",
	})
	// A directory whose name begins with the root's is not in it.
	sibling := root + "x"
	mustMkdir(t, sibling)
	t.Cleanup(func() { os.RemoveAll(sibling) })
	if err := os.Symlink(sibling, filepath.Join(root, "sibling")); err != nil {
		t.Fatal(err)
	}
	s := mustScan(t, root, ScanOptions{Follow: true})
	if got, want := pathsOf(s), []string{"in", "in/x", "ok", "ok/x"}; !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
	var external []string
	for _, p := range s.Problems {
		if errors.Is(p.Err, ErrExternal) && provider.KindOf(p.Err) == provider.Confined && !p.Skip && provider.HintOf(p.Err) != "" {
			external = append(external, p.Path)
		}
	}
	if want := []string{"abs", "dir", "hop", "in/up", "ok/up", "sibling"}; !slices.Equal(external, want) {
		t.Errorf("external links %q, want %q; problems %q", external, want, problemsOf(s))
	}

	s = mustScan(t, root, ScanOptions{Follow: true, AllowExternal: true})
	if got, want := pathsOf(s), []string{"abs", "dir", "dir/y", "hop", "in", "in/up", "in/x", "ok", "ok/up", "ok/x", "sibling"}; !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
	if len(s.Problems) != 1 || s.Problems[0].Path != "dir/back" || !errors.Is(s.Problems[0].Err, ErrCycle) {
		t.Errorf("problems %q", problemsOf(s))
	}
}

// TestFollowIsTarH compares what is followed with GNU tar's -h.
func TestFollowIsTarH(t *testing.T) {
	needGNUTar(t)
	root := realTemp(t)
	plant(t, root, map[string]string{
		"d/x": "1", "d/e/y": "22", "l": "-> d", "d/e/up": "-> ../x", "f": "-> d/e/y", "chain": "-> l/e", "dd/": "", "dd/l": "-> ../d/e",
	})
	s := mustScan(t, root, ScanOptions{Follow: true})
	got := pathsOf(s)
	slices.Sort(got)
	args := []string{"-C", root, "-h", "--quoting-style=literal", "-cvf", "/dev/null", "."}
	var want []string
	for p := range strings.Lines(runWith(t, root, "", "tar", args...)) {
		if p = strings.Trim(strings.TrimPrefix(p, "./"), "/\n"); p != "" {
			want = append(want, p)
		}
	}
	equalPaths(t, got, want)
}

func TestFollowExcludes(t *testing.T) {
	root := realTemp(t)
	plant(t, root, map[string]string{"d/x": "", "l": "-> d", "dangling.tmp": "-> none"})
	rules := mustRules(t, RuleOptions{Exclude: []string{"l/", "*.tmp"}})
	for follow, want := range map[bool][]string{true: {"d", "d/x"}, false: {"d", "d/x", "l"}} { // "l/" wants a directory
		s := mustScan(t, root, ScanOptions{Rules: rules, Follow: follow})
		if got := pathsOf(s); !slices.Equal(got, want) || len(s.Problems) != 0 {
			t.Errorf("follow %v: paths %q, want %q; problems %q", follow, got, want, problemsOf(s))
		}
	}
}
