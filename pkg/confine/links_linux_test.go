package confine

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbsync/sbsync/pkg/tree"
)

// FuzzCheckLinks builds the links of a tree on disk and lets the kernel resolve
// each. A link that passes must not lead outside; one that the kernel resolves
// to a place inside must pass, unless the reason is one of principle.
func FuzzCheckLinks(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 0, 1, 1, 0, 4})             // a -> ., b -> a/..
	f.Add([]byte{0, 0, 0, 3, 1, 0, 1, 0, 4})             // a -> ., a/b -> ..
	f.Add([]byte{0, 0, 0, 1, 0, 1, 0, 0})                // a -> b, b -> a
	f.Add([]byte{2, 0, 1, 2, 3, 4, 4, 4, 4})             // a/b/c -> ../../../..
	f.Add([]byte{1, 0, 1, 1, 4, 4, 0, 2, 2, 0, 1, 4})    // a/b -> ../.., c -> a/b/..
	f.Add([]byte{0, 0, 1, 5, 0})                         // a -> /a
	f.Add([]byte{0, 0, 2, 1, 4, 2, 0, 1, 2, 0, 3, 4, 1}) // a -> b/../c, b -> a/./../b
	f.Fuzz(func(t *testing.T, data []byte) {
		links := decodeLinks(data)
		root := filepath.Join(t.TempDir(), "ROOT")
		onDisk := plantLinks(t, root, links)
		paths := slices.Sorted(maps.Keys(links))
		reasons := map[string]string{}
		for _, e := range checkLinks("linux", links, paths) {
			reasons[e.Path] = e.Reason
		}
		for _, p := range paths {
			reason := reasons[p]
			if !onDisk[p] {
				if reason != "lies below another link" {
					t.Errorf("%q lies below a link; reason %q; links %q", p, reason, links)
				}
				continue
			}
			real, err := resolve(filepath.Join(root, p))
			inside := real == root || strings.HasPrefix(real, root+"/")
			switch {
			case err != nil:
			case reason == "" && !inside:
				t.Errorf("%q -> %q passed and leads to %q; links %q", p, links[p], real, links)
			case inside && (reason == errAbove.Error() || reason == errAbs.Error()):
				t.Errorf("%q -> %q is inside, at %q, and was refused: %s; links %q", p, links[p], real, reason, links)
			}
		}
	})
}

// decodeLinks makes up to 12 links of the names a, b, c.
func decodeLinks(data []byte) map[string]string {
	next := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := int(data[0]) % n
		data = data[1:]
		return b
	}
	names := []string{"a", "b", "c"}
	elems := []string{"a", "b", "c", ".", "..", "", "a/..", "b/.", "../a"}
	links := map[string]string{}
	for len(data) > 0 && len(links) < 12 {
		var path, target []string
		for range next(3) + 1 {
			path = append(path, names[next(len(names))])
		}
		for range next(6) + 1 {
			target = append(target, elems[next(len(elems))])
		}
		if t := strings.Join(target, "/"); t != "" {
			links[strings.Join(path, "/")] = t
		}
	}
	return links
}

// plantLinks makes the links, and directories wherever there is room for the
// other names. It returns which links are on disk: none below another.
func plantLinks(t *testing.T, root string, links map[string]string) map[string]bool {
	onDisk := map[string]bool{}
	for _, p := range slices.SortedFunc(maps.Keys(links), tree.ComparePaths) {
		below := false
		for dir := tree.Parent(p); dir != ""; dir = tree.Parent(dir) {
			below = below || links[dir] != ""
		}
		if below {
			continue
		}
		full := filepath.Join(root, p)
		check(t, os.MkdirAll(filepath.Dir(full), 0o755))
		check(t, os.Symlink(links[p], full))
		onDisk[p] = true
	}
	check(t, os.MkdirAll(root, 0o755))
	dirs := []string{root}
	for range 2 {
		var deeper []string
		for _, dir := range dirs {
			for _, name := range []string{"a", "b", "c"} {
				p := filepath.Join(dir, name)
				os.Mkdir(p, 0o755)
				if info, err := os.Lstat(p); err == nil && info.IsDir() {
					deeper = append(deeper, p)
				}
			}
		}
		dirs = deeper
	}
	return onDisk
}

// resolve asks the kernel where a path leads.
func resolve(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
}
