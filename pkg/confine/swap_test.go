package confine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

// stageTree stages a directory with one file.
func stageTree(t *testing.T, s *Stage, content string) {
	t.Helper()
	check(t, s.Mkdir(""))
	check(t, s.Mkdir("d"))
	stageFile(t, s, "d/f", content)
	check(t, s.FinishDir("d", 0o755, testTime))
	check(t, s.FinishDir("", 0o755, testTime))
}

func TestSwapRoot(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "out")
	plant(t, dest, map[string]string{"old": "1", "d/f": "2"})
	s := openStage(t, dest, Beside)
	stageTree(t, s, "new")
	atomic, err := s.SwapRoot()
	check(t, err)
	if atomic != canExchange(t) {
		t.Errorf("atomic is %v", atomic)
	}
	assertTree(t, dest, map[string]string{"d/f": "new"})
	assertTime(t, dest, testTime)
	check(t, s.Commit())
	assertTree(t, dest, map[string]string{"d/f": "new"})
}

func TestSwapRootRollback(t *testing.T) {
	before := map[string]string{"old": "1", "d/f": "2"}
	dest := filepath.Join(t.TempDir(), "out")
	plant(t, dest, before)
	s := openStage(t, dest, Beside)
	stageTree(t, s, "new")
	_, err := s.SwapRoot()
	check(t, err)
	check(t, s.Discard())
	assertTree(t, dest, before)
}

// TestSwapInTwo is the swap of systems that cannot exchange names.
func TestSwapInTwo(t *testing.T) {
	before := map[string]string{"old": "1", "d/f": "2"}
	for _, commit := range []bool{true, false} {
		dest := filepath.Join(t.TempDir(), "out")
		plant(t, dest, before)
		s := openStage(t, dest, Beside)
		stageTree(t, s, "new")
		check(t, s.inBoth("swap", "", s.swapInTwo))
		assertTree(t, dest, map[string]string{"d/f": "new"})
		if commit {
			check(t, s.Commit())
			assertTree(t, dest, map[string]string{"d/f": "new"})
		} else {
			check(t, s.Discard())
			assertTree(t, dest, before)
		}
	}
}

// TestSwapInTwoPutsBack: the second rename fails, since nothing was staged.
func TestSwapInTwoPutsBack(t *testing.T) {
	before := map[string]string{"old": "1"}
	dest := filepath.Join(t.TempDir(), "out")
	plant(t, dest, before)
	s := openStage(t, dest, Beside)
	if err := s.inBoth("swap", "", s.swapInTwo); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("swap without a staged tree: %v", err)
	}
	assertTree(t, dest, before)
}

func TestSwapRootNeedsADestination(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "out")
	s := openStage(t, dest, Beside)
	stageTree(t, s, "new")
	if _, err := s.SwapRoot(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SwapRoot without a destination: %v", err)
	}
}

func TestSwapReadOnlyRoots(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "out")
	plant(t, dest, map[string]string{"d/old": "1"})
	check(t, os.Chmod(filepath.Join(dest, "d"), 0o555))
	check(t, os.Chmod(dest, 0o555))
	t.Cleanup(func() { os.Chmod(dest, 0o755) })
	s := openStage(t, dest, Beside)
	check(t, s.Mkdir(""))
	stageFile(t, s, "f", "new")
	check(t, s.FinishDir("", 0o555, testTime))
	_, err := s.SwapRoot()
	check(t, err)
	check(t, s.Commit())
	assertTree(t, dest, map[string]string{"f": "new"})
	assertMode(t, dest, 0o555)
}

func TestPublishRoot(t *testing.T) {
	file := func(t *testing.T, s *Stage) { stageFile(t, s, "", "new") }
	dir := func(t *testing.T, s *Stage) { stageTree(t, s, "new") }
	link := func(t *testing.T, s *Stage) { check(t, s.Symlink("new", "")) }
	tests := []struct {
		name  string
		stage func(t *testing.T, s *Stage)
		place Place
		there string // content, "->target" for a link, "/" for a directory
		want  string
		err   error
	}{
		{"file, nothing there", file, Beside, "", "new", nil},
		{"file over file", file, Beside, "old", "new", nil},
		{"file over a dangling link", file, Beside, "->no", "new", nil},
		{"file over a link", file, BesideLink, "->other", "new", nil},
		{"file through a link", file, Beside, "->other", "->other", nil},
		{"file over directory", file, Beside, "/", "/", fs.ErrExist},
		{"directory, nothing there", dir, Beside, "", "/", nil},
		{"directory over file", dir, Beside, "old", "old", fs.ErrExist},
		{"directory over directory", dir, Beside, "/", "/", fs.ErrExist},
		{"directory over link", dir, BesideLink, "->other", "->other", fs.ErrExist},
		{"link, nothing there", link, BesideLink, "", "->new", nil},
		{"link over link", link, BesideLink, "->other", "->new", nil},
		{"link over file", link, BesideLink, "old", "->new", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parent := t.TempDir()
			plant(t, parent, map[string]string{"other": "other"})
			switch tt.there {
			case "":
			case "/":
				check(t, os.Mkdir(filepath.Join(parent, "out"), 0o755))
			default:
				plant(t, parent, map[string]string{"out": tt.there})
			}
			s := openStage(t, filepath.Join(parent, "out"), tt.place)
			tt.stage(t, s)
			if err := s.PublishRoot(); !errors.Is(err, tt.err) {
				t.Fatalf("PublishRoot = %v, want %v", err, tt.err)
			}
			if tt.err == nil {
				check(t, s.Commit())
			}
			got := grow(t, parent)["out"]
			if info, err := os.Lstat(filepath.Join(parent, "out")); err == nil && info.IsDir() {
				got = "/"
			}
			if got != tt.want {
				t.Errorf("destination is %q, want %q", got, tt.want)
			}
			want := "other"
			if tt.name == "file through a link" {
				want = "new"
			}
			if content, _ := os.ReadFile(filepath.Join(parent, "other")); string(content) != want {
				t.Errorf("the file beside is %q, want %q", content, want)
			}
		})
	}
}

func TestPublishRootRollback(t *testing.T) {
	if !canExchange(t) {
		return // what a rename replaced is gone
	}
	dest := filepath.Join(t.TempDir(), "out")
	plant(t, filepath.Dir(dest), map[string]string{"out": "old"})
	s := openStage(t, dest, Beside)
	stageFile(t, s, "", "new")
	check(t, s.PublishRoot())
	check(t, s.Discard())
	assertTree(t, filepath.Dir(dest), map[string]string{"out": "old"})
}

// TestDestinationBelowALink is kubernetes/kubernetes#78211: on macOS /tmp is a
// link. The root is the user's choice.
func TestDestinationBelowALink(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"real/tree/x": "1", "link": "->real", "treelink": "->real/tree"})
	s := openStage(t, filepath.Join(dir, "link", "f"), Beside)
	stageFile(t, s, "", "new")
	check(t, s.PublishRoot())
	check(t, s.Commit())

	s = openStage(t, filepath.Join(dir, "treelink"), Beside)
	stageTree(t, s, "swapped")
	_, err := s.SwapRoot()
	check(t, err)
	check(t, s.Commit())

	s = openStage(t, filepath.Join(dir, "treelink"), Inside)
	stageFile(t, s, "y", "updated")
	check(t, s.PublishNew("y"))
	check(t, s.Commit())
	assertTree(t, dir, map[string]string{
		"real/f": "new", "real/tree/d/f": "swapped", "real/tree/y": "updated", "link": "->real", "treelink": "->real/tree",
	})
}

func TestBesidePublishesTheRootAlone(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "out")
	plant(t, dest, map[string]string{"f": "1"})
	s := openStage(t, dest, Beside)
	stageTree(t, s, "new")
	for _, err := range []error{s.PublishNew("d"), s.PublishOver("d/f"), s.Retire("f"), s.Remove("f")} {
		if provider.KindOf(err) != provider.Usage {
			t.Errorf("error is %v, want kind Usage", err)
		}
	}
}

func TestSwapErrorsSayInPlace(t *testing.T) {
	tests := []struct {
		err  error
		want bool
	}{
		{&os.LinkError{Op: "rename", Err: fs.ErrPermission}, true},
		{&os.LinkError{Op: "rename", Err: fs.ErrExist}, false},
		{fs.ErrNotExist, false},
		{nil, false},
	}
	for _, tt := range tests {
		if got := orInPlace(tt.err); errors.Is(got, ErrInPlace) != tt.want {
			t.Errorf("orInPlace(%v) = %v, want ErrInPlace %v", tt.err, got, tt.want)
		} else if tt.err != nil && !errors.Is(got, cause(tt.err)) {
			t.Errorf("orInPlace(%v) lost the cause", tt.err)
		}
	}
}
