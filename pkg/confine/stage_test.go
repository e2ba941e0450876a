package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/tree"
)

// testTime is a time that every file system of today keeps.
var testTime = tree.Time{Sec: 1700000000, Nsec: 123456700}

// openStage opens a stage and makes sure that nothing of it stays.
func openStage(t *testing.T, dest string, place Place) *Stage {
	t.Helper()
	s, err := OpenStage(dest, place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Discard(); err != nil {
			t.Errorf("Discard: %v", err)
		}
		assertNoScratch(t, dest)
		assertNoScratch(t, filepath.Dir(dest))
	})
	return s
}

func assertNoScratch(t *testing.T, dir string) {
	t.Helper()
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tree.ScratchPrefix) {
			t.Errorf("leftover %s in %s", e.Name(), dir)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stageFile stages a file with mode 0640 and testTime.
func stageFile(t *testing.T, s *Stage, rel, content string) {
	t.Helper()
	f, err := s.Create(rel)
	check(t, err)
	_, err = f.WriteString(content)
	check(t, err)
	check(t, s.FinishFile(f, 0o640, testTime))
}

// plant writes files below dir: a name that ends in a slash is a directory, a
// content that begins with "->" a link's target.
func plant(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	check(t, os.MkdirAll(dir, 0o755))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			check(t, os.MkdirAll(p, 0o755))
			continue
		}
		check(t, os.MkdirAll(filepath.Dir(p), 0o755))
		if target, ok := strings.CutPrefix(files[name], "->"); ok {
			check(t, os.Symlink(target, p))
			continue
		}
		check(t, os.WriteFile(p, []byte(files[name]), 0o644))
	}
}

// grow returns what is below dir in the form that plant takes. Directories are
// listed only if they are empty.
func grow(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		rel = filepath.ToSlash(rel)
		switch e.Type() {
		case fs.ModeDir:
			if list, err := os.ReadDir(p); err == nil && len(list) == 0 && rel != "." {
				files[rel+"/"] = ""
			}
			return nil
		case fs.ModeSymlink:
			target, err := os.Readlink(p)
			files[rel] = "->" + target
			return err
		}
		content, err := os.ReadFile(p)
		files[rel] = string(content)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}

func assertTree(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	if got := grow(t, dir); !maps.Equal(got, want) {
		t.Errorf("%s holds\n%q\nwant\n%q", dir, got, want)
	}
}

// canary plants a tree that must be the same at the end of the test, and
// returns its path.
func canary(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "canary")
	want := map[string]string{"x": "canary", "d/x": "canary", "e/": ""}
	plant(t, dir, want)
	before, err := os.Stat(dir)
	check(t, err)
	t.Cleanup(func() {
		assertTree(t, dir, want)
		for _, name := range []string{".", "x", "d", "d/x", "e"} {
			info, err := os.Lstat(filepath.Join(dir, name))
			check(t, err)
			if want := fs.FileMode(0o644); info.Mode().IsRegular() && info.Mode() != want {
				t.Errorf("mode of %s in the canary tree is %v", name, info.Mode())
			}
		}
		after, err := os.Stat(dir)
		check(t, err)
		if after.ModTime() != before.ModTime() || after.Mode() != before.Mode() {
			t.Error("the canary directory was changed")
		}
	})
	return dir
}

func TestStagePublishesAWholeTree(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "a", "b", "out")
	s := openStage(t, dest, Beside)
	check(t, s.Mkdir(""))
	check(t, s.Mkdir("d"))
	check(t, s.Mkdir("d/e"))
	check(t, s.Mkdir("empty"))
	stageFile(t, s, "f", "one")
	stageFile(t, s, "d/e/g", "two")
	check(t, s.Symlink("../f", "d/l"))
	check(t, s.Symlink("no/such", "dangling"))
	check(t, s.Link("d/e/g", "hard"))
	for _, rel := range []string{"d/e", "d", "empty", ""} {
		check(t, s.FinishDir(rel, 0o750, testTime))
	}
	if _, err := os.Lstat(dest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the destination exists before it is published: %v", err)
	}
	check(t, s.PublishRoot())
	check(t, s.Commit())
	assertTree(t, dest, map[string]string{
		"f": "one", "d/e/g": "two", "hard": "two", "d/l": "->../f", "dangling": "->no/such", "empty/": "",
	})
	for _, rel := range []string{"", "d", "d/e", "empty", "f", "d/e/g"} {
		assertTime(t, filepath.Join(dest, rel), testTime)
	}
	g, err := os.Stat(filepath.Join(dest, "d/e/g"))
	check(t, err)
	if hard, err := os.Stat(filepath.Join(dest, "hard")); err != nil || !os.SameFile(g, hard) {
		t.Errorf("hard is not a hard link of d/e/g: %v", err)
	}
}

func assertTime(t *testing.T, path string, want tree.Time) {
	t.Helper()
	info, err := os.Lstat(path)
	check(t, err)
	if got := info.ModTime(); !got.Equal(stdTime(want)) {
		t.Errorf("time of %s is %v, want %v", path, got, stdTime(want))
	}
}

func TestStageKeepsOldTimes(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "out")
	s := openStage(t, dest, Beside)
	old := tree.Time{Sec: -86400, Nsec: 5000}
	f, err := s.Create("")
	check(t, err)
	check(t, s.FinishFile(f, 0o644, old))
	check(t, s.PublishRoot())
	check(t, s.Commit())
	if runtime.GOOS != "windows" {
		assertTime(t, dest, old)
	}
}

func TestStageNeverOpensWhatExists(t *testing.T) {
	s := openStage(t, filepath.Join(t.TempDir(), "out"), Beside)
	check(t, s.Mkdir(""))
	stageFile(t, s, "f", "one")
	check(t, s.Symlink("f", "l"))
	check(t, s.Mkdir("d"))
	for name, do := range map[string]func(rel string) error{
		"Create":  func(rel string) error { _, err := s.Create(rel); return err },
		"Mkdir":   s.Mkdir,
		"Symlink": func(rel string) error { return s.Symlink("x", rel) },
		"Link":    func(rel string) error { return s.Link("f", rel) },
	} {
		for _, rel := range []string{"f", "l", "d"} {
			if err := do(rel); !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s(%q) = %v, want fs.ErrExist", name, rel, err)
			}
		}
	}
}

func TestStageRefusesPaths(t *testing.T) {
	dest := t.TempDir()
	s := openStage(t, dest, Inside)
	ops := map[string]func(rel string) error{
		"Mkdir":        s.Mkdir,
		"Create":       func(rel string) error { _, err := s.Create(rel); return err },
		"Symlink":      func(rel string) error { return s.Symlink("x", rel) },
		"Link to":      func(rel string) error { return s.Link("x", rel) },
		"FinishDir":    func(rel string) error { return s.FinishDir(rel, 0o755, testTime) },
		"RemoveStaged": s.RemoveStaged,
		"PublishNew":   s.PublishNew,
		"PublishOver":  s.PublishOver,
		"Retire":       s.Retire,
		"Chmod":        func(rel string) error { return s.Chmod(rel, 0o777) },
		"Chtimes":      func(rel string) error { return s.Chtimes(rel, testTime) },
		"Remove":       s.Remove,
		"RemoveDir":    s.RemoveDir,
	}
	for _, rel := range []string{"..", "../x", "a/../../x", "/x", "a//b", "a\x00", s.name, s.name + "/owner", "d/" + s.name} {
		for name, do := range ops {
			if err := do(rel); provider.KindOf(err) != provider.Confined {
				t.Errorf("%s(%q) = %v, want kind Confined", name, rel, err)
			}
		}
	}
}

// TestStageWritesThroughNoLink holds the archives of CVE-2019-1002101 and
// CVE-2019-11251.
func TestStageWritesThroughNoLink(t *testing.T) {
	outside := canary(t)
	s := openStage(t, filepath.Join(t.TempDir(), "out"), Beside)
	check(t, s.Mkdir(""))
	check(t, s.Mkdir("in"))
	check(t, s.Symlink(outside, "abs"))
	check(t, s.Symlink("in", "inside"))
	check(t, s.Symlink(".", "dot"))
	for _, link := range []string{"abs", "inside", "dot"} {
		for name, do := range map[string]func(rel string) error{
			"Create":    func(rel string) error { _, err := s.Create(rel); return err },
			"Mkdir":     s.Mkdir,
			"Symlink":   func(rel string) error { return s.Symlink("..", rel) },
			"FinishDir": func(rel string) error { return s.FinishDir(rel, 0o777, testTime) },
		} {
			for _, rel := range []string{link + "/new", link + "/d/new", link + "/x"} {
				if err := do(rel); provider.KindOf(err) != provider.Confined {
					t.Errorf("%s(%q) = %v, want kind Confined", name, rel, err)
				}
			}
		}
		if err := s.Link(link, "h-"+link); !errors.Is(err, ErrNotRegular) {
			t.Errorf("hard link to a link: %v", err)
		}
		if err := s.FinishDir(link, 0o777, testTime); err == nil {
			t.Errorf("FinishDir on the link %s succeeded", link)
		}
	}
	if err := s.Link("abs/x", "h"); provider.KindOf(err) != provider.Confined {
		t.Errorf("hard link through a link: %v", err)
	}
	check(t, s.RemoveStaged("abs"))
}

func TestStageIsPrivateUntilFinished(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // modes mean nothing there
	}
	s := openStage(t, filepath.Join(t.TempDir(), "out"), Beside)
	check(t, s.Mkdir(""))
	check(t, s.Mkdir("d"))
	f, err := s.Create("d/secret")
	check(t, err)
	defer f.Close()
	for path, want := range map[string]fs.FileMode{
		s.dir():                       0o700,
		s.Path():                      0o700,
		filepath.Join(s.Path(), "d"):  0o700,
		f.Name():                      0o600,
		filepath.Join(s.dir(), "for"): 0o600,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func TestStageInsideMakesParentsOfStagedFiles(t *testing.T) {
	dest := t.TempDir()
	plant(t, dest, map[string]string{"a/b/old": "1", "keep": "2"})
	s := openStage(t, dest, Inside)
	stageFile(t, s, "a/b/new", "3")
	stageFile(t, s, "a/b/old", "4")
	check(t, s.PublishNew("a/b/new"))
	check(t, s.PublishOver("a/b/old"))
	check(t, s.Commit())
	assertTree(t, dest, map[string]string{"a/b/old": "4", "a/b/new": "3", "keep": "2"})
}

func TestStageConcurrently(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "out")
	s := openStage(t, dest, Beside)
	check(t, s.Mkdir(""))
	want := map[string]string{}
	dirs := 3 * openDirs // more than the cache holds
	for i := range dirs {
		check(t, s.Mkdir(fmt.Sprintf("d%d", i)))
		for j := range 4 {
			want[fmt.Sprintf("d%d/%d/f", i, j)] = fmt.Sprint(i, j)
		}
	}
	var wg sync.WaitGroup
	for j := range 4 {
		wg.Go(func() {
			for i := range dirs {
				rel := fmt.Sprintf("d%d/%d", i, j)
				if err := s.Mkdir(rel); err != nil {
					t.Error(err)
					return
				}
				f, err := s.Create(rel + "/f")
				if err != nil {
					t.Error(err)
					return
				}
				f.WriteString(fmt.Sprint(i, j))
				if err := s.FinishFile(f, 0o644, testTime); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(s.inner.dirs); n > openDirs {
		t.Errorf("%d directories are open, want at most %d", n, openDirs)
	}
	check(t, s.PublishRoot())
	check(t, s.Commit())
	assertTree(t, dest, want)
}

func TestStageDeepTree(t *testing.T) {
	s := openStage(t, filepath.Join(t.TempDir(), "out"), Beside)
	check(t, s.Mkdir(""))
	rel := "d"
	for range 300 {
		check(t, s.Mkdir(rel))
		rel += "/name-of-some-length"
	}
	f, err := s.Create(rel)
	check(t, err)
	check(t, s.FinishFile(f, 0o644, testTime))
}

func TestStageDiscardIsIdempotent(t *testing.T) {
	parent := t.TempDir()
	dest := filepath.Join(parent, "x", "y", "out")
	s, err := OpenStage(dest, Beside)
	check(t, err)
	check(t, s.Mkdir(""))
	stageFile(t, s, "f", "1")
	check(t, s.Discard())
	check(t, s.Discard())
	check(t, s.Commit())
	check(t, s.Rollback())
	assertTree(t, parent, map[string]string{})
	if list, _ := os.ReadDir(parent); len(list) != 0 {
		t.Errorf("%v stays", list)
	}
	if err := s.Mkdir("d"); err == nil {
		t.Error("Mkdir works after Discard")
	}
}

func TestStageDiscardKeepsParentsThatOthersUse(t *testing.T) {
	parent := t.TempDir()
	s, err := OpenStage(filepath.Join(parent, "x", "y", "out"), Beside)
	check(t, err)
	plant(t, parent, map[string]string{"x/other": "1"})
	check(t, s.Discard())
	assertTree(t, parent, map[string]string{"x/other": "1"})
}

func TestStageRemovesWhatMayNotBeRead(t *testing.T) {
	s := openStage(t, filepath.Join(t.TempDir(), "out"), Beside)
	check(t, s.Mkdir(""))
	check(t, s.Mkdir("d"))
	check(t, s.Mkdir("d/e"))
	stageFile(t, s, "d/e/f", "1")
	check(t, s.FinishDir("d/e", 0o555, testTime))
	check(t, s.FinishDir("d", 0, testTime))
	check(t, s.RemoveStaged("d"))
	check(t, s.Mkdir("d"))
	stageFile(t, s, "d/f", "1")
	check(t, s.FinishDir("d", 0o555, testTime))
	check(t, s.FinishDir("", 0, testTime))
}

func TestOpenStageErrors(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"file": "1"})
	tests := []struct {
		dest  string
		place Place
		want  error
	}{
		{"missing", Inside, fs.ErrNotExist},
		{"file", Inside, errNotDir},
		{"file/below", Beside, nil},
	}
	for _, tt := range tests {
		_, err := OpenStage(filepath.Join(dir, tt.dest), tt.place)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("OpenStage(%q) = %v, want %v", tt.dest, err, tt.want)
		}
	}
	if _, err := OpenStage(string(filepath.Separator), Beside); !errors.Is(err, ErrInPlace) {
		t.Errorf("OpenStage of the file system's root: %v", err)
	}
	assertTree(t, dir, map[string]string{"file": "1"})
}

func TestScratchNames(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		name := scratchName()
		if !tree.IsScratch(name) || seen[name] {
			t.Fatalf("bad name %q", name)
		}
		seen[name] = true
	}
}

func TestStageBeatShowsLife(t *testing.T) {
	s := openStage(t, filepath.Join(t.TempDir(), "out"), Beside)
	long := time.Now().Add(-2 * time.Hour)
	owner := filepath.Join(s.dir(), ownerFile)
	check(t, os.Chtimes(owner, long, long))
	s.beat()
	if info, err := os.Stat(owner); err != nil || time.Since(info.ModTime()) > time.Hour {
		t.Errorf("owner file is from %v, %v", info.ModTime(), err)
	}
}

// TestCopyFile is what Link does on a file system without hard links.
func TestCopyFile(t *testing.T) {
	s := openStage(t, filepath.Join(t.TempDir(), "out"), Beside)
	check(t, s.Mkdir(""))
	stageFile(t, s, "a", "content")
	check(t, s.Symlink("a", "taken"))
	d, err := s.inner.open(stagedName, false)
	check(t, err)
	defer d.release()
	info, err := d.Lstat("a")
	check(t, err)
	check(t, copyFile(d, "a", d, "b", info))
	if err := copyFile(d, "a", d, "taken", info); !errors.Is(err, fs.ErrExist) {
		t.Errorf("copy over a link: %v", err)
	}
	assertTree(t, s.Path(), map[string]string{"a": "content", "b": "content", "taken": "->a"})
	assertTime(t, filepath.Join(s.Path(), "b"), testTime)
	if runtime.GOOS != "windows" {
		assertMode(t, filepath.Join(s.Path(), "b"), 0o640)
	}
}

func TestStageErrorsNameTheDestination(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "out")
	s := openStage(t, dest, Beside)
	check(t, s.Mkdir(""))
	check(t, s.Mkdir("d"))
	f, err := s.Create("d/f")
	check(t, err)
	if rel := s.relOf(f); rel != "d/f" {
		t.Errorf("relOf = %q", rel)
	}
	check(t, f.Close())
	for _, err := range []error{s.FinishFile(f, 0o644, testTime), s.Mkdir("d/f")} {
		if want := fmt.Sprintf("%q: ", filepath.Join(dest, "d", "f")); !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), tree.ScratchPrefix) {
			t.Errorf("%v does not name %s, or names the scratch directory", err, want)
		}
	}
}
