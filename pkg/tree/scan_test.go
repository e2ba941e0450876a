package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

// problemsOf returns the problems as "path: error".
func problemsOf(s *Snapshot) []string {
	var list []string
	for _, p := range s.Problems {
		list = append(list, fmt.Sprintf("%s: %v", p.Path, p.Err))
	}
	return list
}

func pathsOf(s *Snapshot) []string {
	var paths []string
	for _, e := range s.Entries {
		paths = append(paths, e.Path)
	}
	return paths
}

func entryAt(t testing.TB, s *Snapshot, path string) Entry {
	t.Helper()
	i := slices.IndexFunc(s.Entries, func(e Entry) bool { return e.Path == path })
	if i < 0 {
		t.Fatalf("%q is not in the snapshot", path)
	}
	return s.Entries[i]
}

func TestScanEntries(t *testing.T) {
	root := realTemp(t)
	plant(t, root, map[string]string{"a": "hello", "a.b/x": "", "b/deep/": "", "b-": "", "l": "-> b/deep", "dangling": "-> no/where", "empty/": ""})
	when := time.Unix(-5, 123456789)
	if err := os.Chtimes(filepath.Join(root, "b-"), when, when); err != nil {
		t.Fatal(err)
	}
	s := mustScan(t, root, ScanOptions{})
	want := []string{"a", "a.b", "a.b/x", "b", "b/deep", "b-", "dangling", "empty", "l"}
	if got := pathsOf(s); !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
	if s.Root.Type != Dir || s.Root.Path != "" || len(s.Problems) != 0 {
		t.Errorf("root %+v, problems %v", s.Root, problemsOf(s))
	}
	if e := entryAt(t, s, "a"); e.Type != File || e.Size != 5 || e.Mode&0o400 == 0 {
		t.Errorf("file is %+v", e)
	}
	if e := entryAt(t, s, "b-"); e.Time != (Time{Sec: -5, Nsec: 123456789}) && e.Time != (Time{Sec: -5, Nsec: 123456700}) {
		t.Errorf("time is %+v", e.Time)
	}
	if e := entryAt(t, s, "dangling"); e.Type != Symlink || e.Link != "no/where" {
		t.Errorf("link is %+v", e)
	}
}

func TestScanIsInOrder(t *testing.T) {
	root := realTemp(t)
	for i := range 300 {
		plantEmpty(t, root, fmt.Sprintf("d%d/e%d/f%d", i%7, i%11, i), fmt.Sprintf("d%d.x/f%d", i%7, i))
	}
	s := mustScan(t, root, ScanOptions{})
	if !slices.IsSortedFunc(s.Entries, func(a, b Entry) int { return ComparePaths(a.Path, b.Path) }) {
		t.Error("entries are not in ComparePaths order")
	}
	for range 5 {
		if again := mustScan(t, root, ScanOptions{}); !reflect.DeepEqual(again, s) {
			t.Fatal("a second scan differs")
		}
	}
}

func TestScanRoots(t *testing.T) {
	dir := realTemp(t)
	plant(t, dir, map[string]string{"d/x": "1", "f": "22", "to-d": "-> d", "to-f": "-> f", "to-to-d": "-> to-d", "dangling": "-> no"})
	for _, root := range []string{"d", "d/", "to-d", "to-d/", "to-to-d"} {
		s := mustScan(t, dir+"/"+root, ScanOptions{})
		if s.Root.Type != Dir || !slices.Equal(pathsOf(s), []string{"x"}) {
			t.Errorf("root %q: type %c, paths %q", root, s.Root.Type, pathsOf(s))
		}
	}
	for _, root := range []string{"f", "to-f"} {
		s := mustScan(t, filepath.Join(dir, root), ScanOptions{})
		if s.Root.Type != File || s.Root.Size != 2 || s.Root.Path != "" || len(s.Entries) != 0 {
			t.Errorf("root %q: %+v", root, s)
		}
	}
	for _, root := range []string{"no", "dangling", "no/deeper", "foo*"} { // B05 to B07
		_, err := Scan(t.Context(), filepath.Join(dir, root), ScanOptions{})
		if !errors.Is(err, fs.ErrNotExist) || provider.KindOf(err) != provider.NotFound || !strings.Contains(err.Error(), fmt.Sprintf("%q", filepath.Join(dir, root))) {
			t.Errorf("root %q: error %v, want not found", root, err)
		}
	}
	for _, root := range []string{"f/", "f/x"} {
		if _, err := Scan(t.Context(), dir+"/"+root, ScanOptions{}); err == nil {
			t.Errorf("root %q: no error", root)
		}
	}
}

func TestScanRelativeRoot(t *testing.T) {
	t.Chdir(realTemp(t))
	plantEmpty(t, ".", "a")
	if s := mustScan(t, ".", ScanOptions{}); !slices.Equal(pathsOf(s), []string{"a"}) {
		t.Errorf("paths %q", pathsOf(s))
	}
}

func TestScanSkipsScratch(t *testing.T) {
	root := realTemp(t)
	plantEmpty(t, root, ".sbsync-abcdefghijklmn27/x", "d/.sbsync-aaaaaaaaaaaaaaaa", ".sbsync-notscratch", ".sbsync-ABCDEFGHIJKLMN27")
	s := mustScan(t, root, ScanOptions{})
	if got, want := pathsOf(s), []string{".sbsync-ABCDEFGHIJKLMN27", ".sbsync-notscratch", "d"}; !slices.Equal(got, want) || s.Leftovers != 2 {
		t.Errorf("paths %q, %d leftovers, want %q and 2", got, s.Leftovers, want)
	}
}

func TestScanCountsExcluded(t *testing.T) {
	root := realTemp(t)
	plantEmpty(t, root, "a.o", "d/b.o", "build/x", "build/y.o", "c", "build/.sbsync-aaaaaaaaaaaaaaaa")
	plant(t, root, map[string]string{".sbsyncignore": "*.o\nbuild/\n"})
	s := mustScan(t, root, ScanOptions{Rules: mustRules(t, RuleOptions{IgnoreFiles: []string{".sbsyncignore"}})})
	if got, want := pathsOf(s), []string{".sbsyncignore", "c", "d"}; !slices.Equal(got, want) || s.Excluded != 3 || s.Leftovers != 0 {
		t.Errorf("paths %q, %d excluded, want %q and 3", got, s.Excluded, want)
	}
}

func TestScanLimits(t *testing.T) {
	root := realTemp(t)
	plant(t, root, map[string]string{"d/big": "123456789", "d/small": "1", "out": strings.Repeat("x", 100)})
	rules := mustRules(t, RuleOptions{Exclude: []string{"out"}})
	tests := []struct {
		opt  ScanOptions
		flag string // "" if all fits
		path string
	}{
		{ScanOptions{MaxEntries: 3, MaxPath: 7, MaxFileSize: 9, MaxTotal: 10}, "", ""},
		{ScanOptions{MaxEntries: 2}, "--limit-entries", "d/small"},
		{ScanOptions{MaxPath: 6}, "--limit-path", "d/small"},
		{ScanOptions{MaxFileSize: 8}, "--limit-file", "d/big"},
		{ScanOptions{MaxTotal: 9}, "--limit-total", "d/small"},
	}
	for _, test := range tests {
		test.opt.Rules = rules
		_, err := Scan(t.Context(), root, test.opt)
		if test.flag == "" {
			if err != nil {
				t.Errorf("%+v: %v", test.opt, err)
			}
			continue
		}
		path := fmt.Sprintf("%q", root+"/"+test.path)
		if provider.KindOf(err) != provider.TooLarge || !strings.Contains(err.Error(), path) || !strings.Contains(provider.HintOf(err), test.flag) {
			t.Errorf("want %s about %s, got %v (hint %q)", test.flag, path, err, provider.HintOf(err))
		}
	}
	if _, err := Scan(t.Context(), filepath.Join(root, "out"), ScanOptions{MaxFileSize: 99}); provider.KindOf(err) != provider.TooLarge {
		t.Errorf("a root that is too big a file: %v", err)
	}
}

func TestScanEndsWithContext(t *testing.T) {
	root := realTemp(t)
	plantEmpty(t, root, "a/b/c")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Scan(ctx, root, ScanOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestScanIgnoreFileThatIsNoFile(t *testing.T) {
	root := realTemp(t)
	plant(t, root, map[string]string{"rules": "*\n", "a/.sbsyncignore": "-> ../rules", "b/.sbsyncignore/": "", "a/x": "", "b/x": ""})
	s := mustScan(t, root, ScanOptions{Rules: mustRules(t, RuleOptions{IgnoreFiles: []string{".sbsyncignore"}})})
	if s.Excluded != 0 || len(s.Entries) != 7 {
		t.Errorf("paths %q, %d excluded", pathsOf(s), s.Excluded)
	}
}

// An ignore file that can't be used must not open what it closes.
func TestScanUnusableIgnoreFile(t *testing.T) {
	root := realTemp(t)
	big := string(bytes.Repeat([]byte("x\n"), maxIgnoreFile))
	plant(t, root, map[string]string{"d/.sbsyncignore": big, "d/secret": "", "e": ""})
	opt := ScanOptions{Rules: mustRules(t, RuleOptions{IgnoreFiles: []string{".sbsyncignore"}})}
	s := mustScan(t, root, opt)
	if !slices.Equal(pathsOf(s), []string{"d", "e"}) || len(s.Problems) != 1 || s.Problems[0].Path != "d" || s.Problems[0].Skip {
		t.Errorf("paths %q, problems %q", pathsOf(s), problemsOf(s))
	}
	if _, err := Scan(t.Context(), filepath.Join(root, "d"), opt); err == nil {
		t.Error("no error when it is the root's")
	}
}
