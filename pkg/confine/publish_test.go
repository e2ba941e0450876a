package confine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/tree"
)

func TestUpdateInPlace(t *testing.T) {
	dest := t.TempDir()
	plant(t, dest, map[string]string{
		"keep": "0", "change": "1", "gone": "2", "d/x": "3", "d/y": "4", "l": "->keep",
		"file-to-dir": "5", "dir-to-file/z": "6", "empty/": "", "e2/": "",
	})
	s := openStage(t, dest, Inside)
	stageFile(t, s, "change", "1b")
	stageFile(t, s, "d/new", "7")
	check(t, s.Symlink("change", "l"))
	check(t, s.Mkdir("file-to-dir"))
	stageFile(t, s, "file-to-dir/f", "8")
	check(t, s.FinishDir("file-to-dir", 0o755, testTime))
	stageFile(t, s, "dir-to-file", "9")
	check(t, s.Mkdir("nd"))
	check(t, s.Mkdir("nd/sub"))
	stageFile(t, s, "nd/sub/f", "10")

	check(t, s.Retire("file-to-dir"))
	check(t, s.Retire("dir-to-file"))
	check(t, s.Retire("d/y"))
	check(t, s.PublishNew("file-to-dir"))
	check(t, s.PublishNew("dir-to-file"))
	check(t, s.PublishNew("nd"))
	check(t, s.PublishNew("d/new"))
	check(t, s.PublishOver("change"))
	check(t, s.PublishOver("l"))
	check(t, s.Remove("gone"))
	check(t, s.RemoveDir("empty"))
	check(t, s.Chmod("keep", 0o600))
	check(t, s.Chmod("d", 0o700))
	check(t, s.Chtimes("keep", testTime))
	check(t, s.Chtimes("d", testTime))
	check(t, s.Chmod("", 0o711))
	check(t, s.Commit())
	check(t, os.Chtimes(dest, testTimeStd, testTimeStd))

	assertTree(t, dest, map[string]string{
		"keep": "0", "change": "1b", "d/x": "3", "d/new": "7", "l": "->change",
		"file-to-dir/f": "8", "dir-to-file": "9", "nd/sub/f": "10", "e2/": "",
	})
	assertTime(t, filepath.Join(dest, "keep"), testTime)
	assertTime(t, filepath.Join(dest, "d"), testTime)
	if runtime.GOOS != "windows" {
		assertMode(t, filepath.Join(dest, "keep"), 0o600)
		assertMode(t, filepath.Join(dest, "d"), 0o700)
		assertMode(t, dest, 0o711)
	}
}

var testTimeStd = stdTime(testTime)

func assertMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	check(t, err)
	const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	if got := info.Mode() & bits; got != want {
		t.Errorf("mode of %s is %v, want %v", path, got, want)
	}
}

func TestPublishRefuses(t *testing.T) {
	before := map[string]string{"f": "1", "d/x": "2", "l": "->d", "h": "3"}
	tests := []struct {
		name string
		do   func(s *Stage) error
		want error
	}{
		{"new over a file", func(s *Stage) error { return s.PublishNew("f") }, fs.ErrExist},
		{"new over a directory", func(s *Stage) error { return s.PublishNew("d") }, fs.ErrExist},
		{"new over a link", func(s *Stage) error { return s.PublishNew("l") }, fs.ErrExist},
		{"new in a missing directory", func(s *Stage) error { return s.PublishNew("no/x") }, fs.ErrNotExist},
		{"new that was not staged", func(s *Stage) error { return s.PublishNew("unstaged") }, fs.ErrNotExist},
		// P25: never a move into the directory.
		{"over a directory", func(s *Stage) error { return s.PublishOver("d") }, errIsDir},
		{"a directory over a file", func(s *Stage) error { return s.PublishOver("sd") }, errIsDir},
		{"over what was not staged", func(s *Stage) error { return s.PublishOver("h") }, fs.ErrNotExist},
		{"retire what is not there", func(s *Stage) error { return s.Retire("no") }, fs.ErrNotExist},
		{"remove a directory", func(s *Stage) error { return s.Remove("d") }, errIsDir},
		{"remove what is not there", func(s *Stage) error { return s.Remove("no") }, fs.ErrNotExist},
		{"remove a full directory", func(s *Stage) error { return s.RemoveDir("d") }, nil},
		{"remove a file as directory", func(s *Stage) error { return s.RemoveDir("f") }, errNotDir},
		{"remove a link as directory", func(s *Stage) error { return s.RemoveDir("l") }, errNotDir},
		{"chmod a link", func(s *Stage) error { return s.Chmod("l", 0o777) }, errIsLink},
		{"set the time of a link", func(s *Stage) error { return s.Chtimes("l", testTime) }, errIsLink},
		{"below a file", func(s *Stage) error { return s.Remove("f/x") }, errNotDir},
		{"publish the root", (*Stage).PublishRoot, nil},
		{"swap the root", func(s *Stage) error { _, err := s.SwapRoot(); return err }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dest := t.TempDir()
			plant(t, dest, before)
			s := openStage(t, dest, Inside)
			stageFile(t, s, "f", "new")
			stageFile(t, s, "d", "new")
			stageFile(t, s, "l", "new")
			stageFile(t, s, "no/x", "new")
			check(t, s.Mkdir("sd"))
			if err := tt.do(s); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error is %v, want %v", err, tt.want)
			}
			check(t, s.Discard())
			assertTree(t, dest, before)
		})
	}
}

// TestPublishThroughNoLink plants links before and while the stage works.
func TestPublishThroughNoLink(t *testing.T) {
	ops := map[string]func(s *Stage) error{
		"PublishNew":  func(s *Stage) error { return s.PublishNew("d/new") },
		"PublishOver": func(s *Stage) error { return s.PublishOver("d/x") },
		"Retire":      func(s *Stage) error { return s.Retire("d/x") },
		"Chmod":       func(s *Stage) error { return s.Chmod("d/x", 0o777) },
		"Chtimes":     func(s *Stage) error { return s.Chtimes("d/x", testTime) },
		"Remove":      func(s *Stage) error { return s.Remove("d/x") },
		"RemoveDir":   func(s *Stage) error { return s.RemoveDir("d/e") },
	}
	for name, op := range ops {
		for _, outside := range []bool{true, false} {
			for _, warm := range []bool{true, false} {
				dest := t.TempDir()
				plant(t, dest, map[string]string{"d/x": "1", "d/y": "2", "d/e/": "", "in/x": "in", "in/e/": ""})
				s := openStage(t, dest, Inside)
				stageFile(t, s, "d/new", "new")
				stageFile(t, s, "d/x", "new")
				if warm { // let the stage hold the directory open
					check(t, s.Chmod("d/y", 0o600))
				}
				target := "in"
				if outside {
					target = canary(t)
				}
				check(t, os.Rename(filepath.Join(dest, "d"), filepath.Join(dest, "moved")))
				check(t, os.Symlink(target, filepath.Join(dest, "d")))
				if err := op(s); provider.KindOf(err) != provider.Confined {
					t.Errorf("%s through a link to %s, warm %v: %v, want kind Confined", name, target, warm, err)
				}
				check(t, s.Discard())
				assertTree(t, dest, map[string]string{
					"moved/x": "1", "moved/y": "2", "moved/e/": "", "in/x": "in", "in/e/": "", "d": "->" + target,
				})
			}
		}
	}
}

// TestPublishFollowsAReplacedDirectory: a real directory that took the place of
// another is the destination from then on.
func TestPublishFollowsAReplacedDirectory(t *testing.T) {
	dest := t.TempDir()
	plant(t, dest, map[string]string{"d/x": "1"})
	s := openStage(t, dest, Inside)
	stageFile(t, s, "d/a", "a")
	stageFile(t, s, "d/b", "b")
	check(t, s.PublishNew("d/a"))
	check(t, os.Rename(filepath.Join(dest, "d"), filepath.Join(dest, "moved")))
	check(t, os.Mkdir(filepath.Join(dest, "d"), 0o755))
	check(t, s.PublishNew("d/b"))
	check(t, s.Commit())
	assertTree(t, dest, map[string]string{"moved/x": "1", "moved/a": "a", "d/b": "b"})
}

func TestRollback(t *testing.T) {
	before := map[string]string{"f": "1", "g": "->f", "d/x": "2", "d/sub/y": "3", "ftd": "4", "dtf/z": "5"}
	dest := t.TempDir()
	plant(t, dest, before)
	inode, err := os.Stat(filepath.Join(dest, "f"))
	check(t, err)
	s := openStage(t, dest, Inside)
	stageFile(t, s, "f", "new")
	check(t, s.Symlink("x", "g"))
	stageFile(t, s, "d/new", "new")
	check(t, s.Mkdir("nd"))
	stageFile(t, s, "nd/f", "new")
	check(t, s.Mkdir("ftd"))
	stageFile(t, s, "dtf", "new")
	check(t, s.Retire("d/sub/y"))
	check(t, s.Retire("d/sub"))
	check(t, s.Retire("ftd"))
	check(t, s.Retire("dtf"))
	check(t, s.PublishNew("ftd"))
	check(t, s.PublishNew("dtf"))
	check(t, s.PublishNew("nd"))
	check(t, s.PublishNew("d/new"))
	check(t, s.PublishOver("f"))
	check(t, s.PublishOver("g"))
	check(t, s.Rollback())
	if canExchange(t) {
		assertTree(t, dest, withStage(t, s, before))
		if now, err := os.Stat(filepath.Join(dest, "f")); err != nil || !os.SameFile(inode, now) {
			t.Errorf("f is another file after the rollback: %v", err)
		}
	}
	check(t, s.Rollback())
	// What was rolled back can be published again.
	check(t, s.PublishNew("nd"))
	check(t, s.Commit())
	if got := grow(t, dest); got["nd/f"] != "new" {
		t.Errorf("after publishing again: %q", got)
	}
}

// withStage adds what the stage in dest holds to the files of a tree.
func withStage(t *testing.T, s *Stage, files map[string]string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, content := range grow(t, s.dir()) {
		all[s.name+"/"+name] = content
	}
	for name, content := range files {
		all[name] = content
	}
	return all
}

// canExchange says whether this system can exchange two names.
func canExchange(t *testing.T) bool {
	t.Helper()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		return false
	}
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a": "1", "b": "2"})
	root, err := os.OpenRoot(dir)
	check(t, err)
	c, err := newDirCache(root, false)
	check(t, err)
	defer c.close()
	err = move(c.top, "a", c.top, "b", exchange)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	return err == nil
}

func TestDiscardRollsBack(t *testing.T) {
	before := map[string]string{"f": "1", "d/x": "2"}
	dest := t.TempDir()
	plant(t, dest, before)
	s := openStage(t, dest, Inside)
	stageFile(t, s, "n", "new")
	check(t, s.Retire("d"))
	check(t, s.Retire("f"))
	check(t, s.PublishNew("n"))
	check(t, s.Discard())
	assertTree(t, dest, before)
}

// TestDiscardKeepsWhatCannotBePutBack: data of the user is never removed with
// the stage.
func TestDiscardKeepsWhatCannotBePutBack(t *testing.T) {
	dest := t.TempDir()
	plant(t, dest, map[string]string{"f": "precious"})
	s := openStage(t, dest, Inside)
	check(t, s.Retire("f"))
	plant(t, dest, map[string]string{"f": "put there by another program"})
	err := s.Discard()
	if !errors.Is(err, fs.ErrExist) {
		t.Fatalf("Discard = %v, want fs.ErrExist", err)
	}
	content, err := os.ReadFile(filepath.Join(s.dir(), "retired", "0", "f"))
	if string(content) != "precious" {
		t.Errorf("what was retired is lost: %q, %v", content, err)
	}
	check(t, os.Remove(filepath.Join(dest, "f")))
	check(t, s.Discard())
	assertTree(t, dest, map[string]string{"f": "precious"})
}

func TestRetireInGenerations(t *testing.T) {
	before := map[string]string{"a/b/c": "1", "a/d": "2"}
	dest := t.TempDir()
	plant(t, dest, before)
	s := openStage(t, dest, Inside)
	check(t, s.Retire("a/b/c"))
	check(t, s.Retire("a"))
	check(t, s.Mkdir("a"))
	stageFile(t, s, "a/x", "new")
	check(t, s.PublishNew("a"))
	check(t, s.Retire("a/x"))
	check(t, s.Retire("a"))
	// What was retired is as it was: nothing was added to it.
	assertTree(t, filepath.Join(s.dir(), retiredName), map[string]string{
		"0/a/b/c": "1", "1/a/b/": "", "1/a/d": "2", "2/a/x": "new", "3/a/": "",
	})
	check(t, s.Rollback())
	check(t, s.Discard())
	assertTree(t, dest, before)
}

// TestStageAndReadOnlyDirectories: a tree of directories without write
// permission can be published, replaced and retired by its owner.
func TestStageAndReadOnlyDirectories(t *testing.T) {
	dest := t.TempDir()
	plant(t, dest, map[string]string{"ro/x": "1", "ro/y": "2", "ro/e/": "", "ro/gone/f": "3"})
	for _, rel := range []string{"ro/gone", "ro/e", "ro", ""} {
		check(t, os.Chmod(filepath.Join(dest, rel), 0o555))
	}
	t.Cleanup(func() { // for t.TempDir
		for _, rel := range []string{"", "ro", "ro/new"} {
			os.Chmod(filepath.Join(dest, rel), 0o755)
		}
	})
	s := openStage(t, dest, Inside)
	check(t, s.Mkdir("ro/new"))
	stageFile(t, s, "ro/new/f", "new")
	check(t, s.FinishDir("ro/new", 0o555, testTime))
	stageFile(t, s, "ro/x", "new")
	check(t, s.PublishNew("ro/new"))
	check(t, s.PublishOver("ro/x"))
	check(t, s.Retire("ro/gone"))
	check(t, s.Remove("ro/y"))
	check(t, s.RemoveDir("ro/e"))
	check(t, s.Commit())
	assertTree(t, dest, map[string]string{"ro/x": "new", "ro/new/f": "new"})
	for _, rel := range []string{"", "ro", "ro/new"} {
		assertMode(t, filepath.Join(dest, rel), 0o555)
	}
}

func TestPublishKeepsRunningReaders(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // open files cannot be replaced there
	}
	dest := t.TempDir()
	plant(t, dest, map[string]string{"f": "old"})
	reader, err := os.Open(filepath.Join(dest, "f"))
	check(t, err)
	defer reader.Close()
	s := openStage(t, dest, Inside)
	stageFile(t, s, "f", "new!")
	check(t, s.PublishOver("f"))
	check(t, s.Commit())
	content := make([]byte, 10)
	if n, _ := reader.Read(content); string(content[:n]) != "old" {
		t.Errorf("a reader of the old file sees %q", content[:n])
	}
}

func TestFileModes(t *testing.T) {
	want := map[uint32]fs.FileMode{
		0o644: 0o644, 0: 0, 0o7777: 0o777 | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky,
		0o4755: 0o755 | fs.ModeSetuid, 0o2755: 0o755 | fs.ModeSetgid, 0o1777: 0o777 | fs.ModeSticky, 0o170644: 0o644,
	}
	for mode, want := range want {
		if got := fileMode(mode); got != want {
			t.Errorf("fileMode(%o) = %v, want %v", mode, got, want)
		}
	}
	if got := stdTime(tree.Time{Sec: -1, Nsec: 999}); got.Unix() != -1 || got.Nanosecond() != 999 {
		t.Errorf("stdTime = %v", got)
	}
}
