//go:build unix

package randtree

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// walk calls visit for every entry, a directory before what is in it.
func walk(root string, visit func(rel string, st *unix.Stat_t) error) error {
	return filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: p, Err: err}
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if rel == "." {
			rel = ""
		}
		return visit(rel, &st)
	})
}

// Entry is what counts of an entry.
type Entry struct {
	Type   string // "file", "directory", "link", or what kind of special it is
	Mode   uint32 // 07777; 0 for links
	Sec    int64  // of the last modification; 0 for links
	Nsec   int64
	Size   int64 // of a file
	Digest string
	Link   string
	// Twin is the first name, in byte order, of a file that has several in the
	// tree.
	Twin string
}

// Tree is a tree as a whole, by relative path.
type Tree map[string]Entry

// Look reads a tree.
func Look(root string) (Tree, error) {
	t := Tree{}
	names := map[[2]uint64][]string{}
	err := walk(root, func(rel string, st *unix.Stat_t) error {
		e := Entry{Mode: uint32(st.Mode) & 0o7777, Sec: int64(st.Mtim.Sec), Nsec: int64(st.Mtim.Nsec)}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			e.Type = "directory"
		case unix.S_IFREG:
			content, err := os.ReadFile(filepath.Join(root, rel))
			if err != nil {
				return err
			}
			e.Type, e.Size, e.Digest = "file", st.Size, fmt.Sprintf("%.8x", sha256.Sum256(content))
			id := [2]uint64{uint64(st.Dev), st.Ino}
			names[id] = append(names[id], rel)
		case unix.S_IFLNK:
			text, err := os.Readlink(filepath.Join(root, rel))
			if err != nil {
				return err
			}
			e = Entry{Type: "link", Link: text}
		case unix.S_IFIFO:
			e.Type = "FIFO"
		case unix.S_IFSOCK:
			e.Type = "socket"
		default:
			e.Type = "device"
		}
		t[rel] = e
		return nil
	})
	for _, list := range names {
		if len(list) < 2 {
			continue
		}
		slices.Sort(list)
		for _, name := range list {
			e := t[name]
			e.Twin = list[0]
			t[name] = e
		}
	}
	return t, err
}

// Carried is the tree without what is never carried, or not unless it was asked
// for: specials, and the set-ID and sticky bits.
func (t Tree) Carried() Tree {
	c := Tree{}
	for p, e := range t {
		switch e.Type {
		case "file", "directory", "link":
			e.Mode &= 0o777
			c[p] = e
		}
	}
	return c
}

// WholeSeconds is the tree with times cut to seconds, as some tools keep them.
func (t Tree) WholeSeconds() Tree {
	c := Tree{}
	for p, e := range t {
		e.Nsec = 0
		c[p] = e
	}
	return c
}

// Alone is the tree without its hard links: each name is a file of its own.
func (t Tree) Alone() Tree {
	c := Tree{}
	for p, e := range t {
		e.Twin = ""
		c[p] = e
	}
	return c
}

// Updated is the tree as far as an update of one that exists makes it the same:
// the times of directories change with what is done in them, and the root is
// the user's.
func (t Tree) Updated() Tree {
	c := Tree{}
	for p, e := range t {
		if e.Type == "directory" {
			e.Sec, e.Nsec = 0, 0
		}
		if p == "" {
			e.Mode = 0
		}
		c[p] = e
	}
	return c
}

// Differs says how other differs from t, or "".
func (t Tree) Differs(other Tree) string {
	var lines []string
	for p, a := range t {
		b, ok := other[p]
		switch {
		case !ok:
			lines = append(lines, fmt.Sprintf("%q is missing (%+v)", p, a))
		case a != b:
			lines = append(lines, fmt.Sprintf("%q differs:\n  want %+v\n  got  %+v", p, a, b))
		}
	}
	for p, b := range other {
		if _, ok := t[p]; !ok {
			lines = append(lines, fmt.Sprintf("%q should not be there (%+v)", p, b))
		}
	}
	slices.Sort(lines)
	if n := len(lines); n > 5 {
		lines = append(lines[:5], fmt.Sprintf("and %d more", n-5))
	}
	return strings.Join(lines, "\n")
}
