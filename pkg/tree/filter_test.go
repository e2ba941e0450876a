package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// readFrom reads files below root, and only those that were promised.
func readFrom(t testing.TB, root string, s *Snapshot, rules *Rules) func(path string) ([]byte, bool, error) {
	promised := IgnoreFilesIn(s, rules)
	return func(path string) ([]byte, bool, error) {
		if !slices.Contains(promised, path) {
			t.Errorf("%q is read but not among %q", path, promised)
		}
		data, err := os.ReadFile(filepath.Join(root, path))
		return data, err == nil, err
	}
}

// TestFilterIsScan is P23: a pull leaves out exactly what a push would.
func TestFilterIsScan(t *testing.T) {
	home := isolate(t)
	rng := rand.New(rand.NewPCG(7, 8))
	names := []string{".one", gitIgnoreName, ".two"}
	for round := range 40 {
		root := filepath.Join(home, fmt.Sprint(round))
		git := round%2 == 0
		if git {
			initRepo(t, root)
		}
		for range 20 {
			path := filepath.Join(root, safePath(rng))
			if os.MkdirAll(filepath.Dir(path), 0o755) == nil {
				os.WriteFile(path, nil, 0o644)
				if rng.IntN(3) == 0 {
					os.WriteFile(filepath.Join(filepath.Dir(path), names[rng.IntN(len(names))]), []byte(randomIgnore(rng)), 0o644)
				}
			}
		}
		if git && rng.IntN(2) == 0 {
			runGit(t, root, "add", ".")
			initRepo(t, filepath.Join(root, "nested"))
			plantEmpty(t, root, "nested/a")
		}
		opt := RuleOptions{Git: git, Root: root, IgnoreFiles: names}
		for range rng.IntN(3) {
			if p := randomPattern(rng); rng.IntN(2) == 0 {
				opt.TarExclude = append(opt.TarExclude, p)
			} else if _, err := compileExclude(p, false); err == nil {
				opt.Exclude = append(opt.Exclude, p)
			}
		}
		rules := mustRules(t, opt)
		whole, want := mustScan(t, root, ScanOptions{}), mustScan(t, root, ScanOptions{Rules: rules})
		got, err := Filter(whole, rules, readFrom(t, root, whole, rules))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(pathsOf(got), pathsOf(want)) || !reflect.DeepEqual(problemsOf(got), problemsOf(want)) || got.Excluded != want.Excluded {
			t.Fatalf("round %d, %+v:\ngot  %q, %d excluded, %q\nwant %q, %d excluded, %q", round, opt,
				pathsOf(got), got.Excluded, problemsOf(got), pathsOf(want), want.Excluded, problemsOf(want))
		}
	}
}

func snapshotOf(paths ...string) *Snapshot {
	s := &Snapshot{Root: Entry{Type: Dir}}
	for _, p := range paths {
		e := Entry{Path: p, Type: File}
		if p[len(p)-1] == '/' {
			e = Entry{Path: p[:len(p)-1], Type: Dir}
		}
		s.Entries = append(s.Entries, e)
	}
	return s
}

func TestIgnoreFilesIn(t *testing.T) {
	s := snapshotOf(".git/", ".git/HEAD", ".git/sub/", ".git/sub/.ignore", ".ignore", "a/", "a/.ignore", "a/x", "b/", "b/.git/", "b/.git/HEAD",
		"c/", "c/.git", "c/.gitignore", "out/", "out/.ignore", "tar/", "tar/.ignore")
	tests := []struct {
		opt  RuleOptions
		want []string
	}{
		{RuleOptions{}, nil},
		{RuleOptions{IgnoreFiles: []string{".ignore"}}, []string{".git/sub/.ignore", ".ignore", "a/.ignore", "out/.ignore", "tar/.ignore"}},
		{RuleOptions{IgnoreFiles: []string{".ignore"}, Exclude: []string{"out/"}, TarExclude: []string{"tar"}}, []string{".git/sub/.ignore", ".ignore", "a/.ignore"}},
		{RuleOptions{IgnoreFiles: []string{".ignore"}, Git: true, Root: realTemp(t), Exclude: []string{"a", "!a"}},
			[]string{".ignore", "a/.ignore", "b/.git/HEAD", "c/.git", "c/.gitignore", "out/.ignore", "tar/.ignore"}},
	}
	for _, test := range tests {
		if got := IgnoreFilesIn(s, mustRules(t, test.opt)); !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q, want %q", test.opt, got, test.want)
		}
	}
	if got := IgnoreFilesIn(s, nil); got != nil {
		t.Errorf("without rules: %q", got)
	}
}

func TestFilterProblems(t *testing.T) {
	s := snapshotOf("a", "closed/", "gone-dir/", "out/")
	s.Entries = append(s.Entries, Entry{Path: "pipe", Type: Special, Special: "fifo"}, Entry{Path: "pipe.o", Type: Special, Special: "fifo"})
	for _, p := range []string{"closed", "gone-dir/gone.o", "gone-dir/gone", "out", "out/x", "pipe", "pipe.o"} {
		s.Problems = append(s.Problems, Problem{Path: p, Err: fs.ErrPermission})
	}
	got, err := Filter(s, mustRules(t, RuleOptions{Exclude: []string{"*.o", "out/"}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, p := range got.Problems {
		kept = append(kept, p.Path)
	}
	if want := []string{"closed", "gone-dir/gone", "pipe"}; !slices.Equal(kept, want) {
		t.Errorf("problems at %q, want %q", kept, want)
	}
	if len(s.Problems) != 7 || len(s.Entries) != 6 {
		t.Error("the snapshot given has changed")
	}
}

func TestFilterReportsReadErrors(t *testing.T) {
	s := snapshotOf(".ignore", "x")
	rules := mustRules(t, RuleOptions{IgnoreFiles: []string{".ignore"}})
	boom := errors.New("boom")
	if _, err := Filter(s, rules, func(string) ([]byte, bool, error) { return nil, false, boom }); !errors.Is(err, boom) {
		t.Errorf("error %v, want that of read", err)
	}
	got, err := Filter(s, rules, func(string) ([]byte, bool, error) { return nil, false, nil })
	if err != nil || len(got.Entries) != 2 {
		t.Errorf("an ignore file that is gone: %v, %v", got, err)
	}
	if got, err := Filter(s, nil, nil); err != nil || len(got.Entries) != 2 {
		t.Errorf("without rules: %v, %v", got, err)
	}
}
