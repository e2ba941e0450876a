package confine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

func openSource(t *testing.T, root string) *Source {
	t.Helper()
	s, err := OpenSource(root)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSourceOpen(t *testing.T) {
	outside := canary(t)
	base := t.TempDir()
	root := filepath.Join(base, "root")
	plant(t, base, map[string]string{
		"root/f": "file", "root/d/e/g": "deep", "root/d/up": "->../f", "root/link": "->f",
		"root/dl": "->d/e", "root/abs-in": "->" + filepath.Join(root, "f"),
		"root/out": "->../secret", "root/abs-out": "->" + filepath.Join(outside, "x"),
		"root/dir-out": "->" + outside, "root/dangling": "->no", "root/loop": "->loop",
		"root/self": "->.", "root/back": "->../root/f", "secret": "secret",
	})
	const confined = "confined"
	tests := []struct {
		rel                      string
		plain, follow, everwhere string // content, or the name of an error
	}{
		{"f", "file", "file", "file"},
		{"d/e/g", "deep", "deep", "deep"},
		{"link", confined, "file", "file"},
		{"d/up", confined, "file", "file"},
		{"dl/g", confined, "deep", "deep"},
		{"abs-in", confined, "file", "file"},
		{"back", confined, "file", "file"},
		{"self/self/f", confined, "file", "file"},
		{"out", confined, confined, "secret"},
		{"abs-out", confined, confined, "canary"},
		{"dir-out/x", confined, confined, "canary"},
		{"dir-out/d/x", confined, confined, "canary"},
		{"dangling", confined, "missing", "missing"},
		{"loop", confined, "error", "error"},
		{"self", confined, "irregular", "irregular"},
		{"dl", confined, "irregular", "irregular"},
		{"d", "irregular", "irregular", "irregular"},
		{"no", "missing", "missing", "missing"},
		{"f/x", "error", "error", "error"},
		{"", "irregular", "irregular", "irregular"},
		{"../secret", confined, confined, confined},
		{"d/../f", confined, confined, confined},
		{filepath.ToSlash(filepath.Join(outside, "x")), confined, confined, confined},
	}
	for _, tt := range tests {
		s := openSource(t, root)
		assertOpens(t, s, tt.rel, false, tt.plain)
		assertOpens(t, s, tt.rel, true, tt.follow)
		s = openSource(t, root)
		s.AllowExternal = true
		assertOpens(t, s, tt.rel, true, tt.everwhere)
		assertOpens(t, s, tt.rel, false, tt.plain)
	}
}

func assertOpens(t *testing.T, s *Source, rel string, follow bool, want string) {
	t.Helper()
	f, info, err := s.Open(rel, follow)
	got := ""
	switch {
	case provider.KindOf(err) == provider.Confined:
		got = "confined"
	case errors.Is(err, fs.ErrNotExist):
		got = "missing"
	case errors.Is(err, ErrNotRegular):
		got = "irregular"
	case err != nil:
		got = "error"
	default:
		content, readErr := io.ReadAll(f)
		f.Close()
		got = string(content)
		if readErr != nil || info.Size() != int64(len(content)) {
			t.Errorf("Open(%q, %v): read %d of %d bytes, %v", rel, follow, len(content), info.Size(), readErr)
		}
	}
	if got != want {
		t.Errorf("Open(%q, %v): %s (%v), want %s", rel, follow, got, err, want)
	}
}

func TestSourceRootIsTheUsersChoice(t *testing.T) {
	base := t.TempDir()
	plant(t, base, map[string]string{"real/d/f": "1", "link": "->real", "file-link": "->real/d/f", "dangling": "->no"})
	assertOpens(t, openSource(t, filepath.Join(base, "link")), "d/f", false, "1")
	assertOpens(t, openSource(t, filepath.Join(base, "link", "d")), "f", true, "1")
	single := openSource(t, filepath.Join(base, "file-link"))
	assertOpens(t, single, "", false, "1")
	assertOpens(t, single, "x", true, "error")
	for _, name := range []string{"missing", "dangling"} {
		if _, err := OpenSource(filepath.Join(base, name)); provider.KindOf(err) != provider.NotFound || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("OpenSource(%s) = %v, want kind NotFound", name, err)
		}
	}
}

// TestSourceSwappedDirectory replaces a directory by a link between two files.
func TestSourceSwappedDirectory(t *testing.T) {
	outside := canary(t)
	root := t.TempDir()
	plant(t, root, map[string]string{"d/x": "1", "d/y": "2"})
	swap := func() {
		check(t, os.Rename(filepath.Join(root, "d"), filepath.Join(root, "moved")))
		check(t, os.Symlink(outside, filepath.Join(root, "d")))
	}
	cold, warm := openSource(t, root), openSource(t, root)
	assertOpens(t, warm, "d/y", false, "2")
	swap()
	assertOpens(t, cold, "d/x", false, "confined")
	assertOpens(t, cold, "d/x", true, "confined")
	assertOpens(t, warm, "d/x", false, "1") // the directory that was opened
}

func TestSourceConcurrently(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{}
	for i := range 3 * openDirs {
		files[fmt.Sprintf("a/d%d/b/f", i)] = fmt.Sprint(i)
	}
	plant(t, root, files)
	s := openSource(t, root)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for rel, want := range files {
				assertOpens(t, s, rel, false, want)
			}
		})
	}
	wg.Wait()
	check(t, s.Close())
	if _, _, err := s.Open("a/d0/b/f", false); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Open after Close: %v", err)
	}
}
