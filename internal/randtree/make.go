//go:build unix

package randtree

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options say what may be in a tree.
type Options struct {
	Entries int // at most, more or less
	// MaxFile bounds a file's size; most are much smaller.
	MaxFile int
	// Flat leaves out what can't be followed without end: links to directories
	// with more than files in them.
	Flat bool
	// Specials adds FIFOs, sockets and, for the superuser, devices.
	Specials bool
}

// maker makes one tree.
type maker struct {
	rng   *rand.Rand
	opt   Options
	root  string
	dirs  []string // relative; "" is the root
	leafs []string // directories with nothing but files in them
	files []string
	links []string
}

// Make makes a random tree at root, which must not exist. The same numbers make
// the same tree.
func Make(rng *rand.Rand, root string, opt Options) error {
	m := &maker{rng: rng, opt: opt, root: root, dirs: []string{""}}
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	for range rng.IntN(opt.Entries + 1) {
		if err := m.add(); err != nil {
			return err
		}
	}
	return m.finish()
}

// Change makes some random changes in a tree that Make made: files written to,
// removed, added, replaced by others, modes and times set.
func Change(rng *rand.Rand, root string, opt Options) error {
	m := &maker{rng: rng, opt: opt, root: root, dirs: []string{""}}
	err := walk(root, func(rel string, st *unix.Stat_t) error {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			if rel != "" {
				m.dirs = append(m.dirs, rel)
			}
			return os.Chmod(m.at(rel), 0o700)
		case unix.S_IFREG:
			m.files = append(m.files, rel)
		case unix.S_IFLNK:
			m.links = append(m.links, rel)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for range 1 + rng.IntN(6) {
		if err := m.change(); err != nil {
			return err
		}
	}
	return m.finish()
}

func (m *maker) at(rel string) string { return filepath.Join(m.root, rel) }

func (m *maker) change() error {
	gone := func(list *[]string) (string, bool) {
		if len(*list) == 0 {
			return "", false
		}
		i := m.rng.IntN(len(*list))
		name := (*list)[i]
		*list = slices.Delete(*list, i, i+1)
		return name, true
	}
	switch m.rng.IntN(5) {
	case 0:
		if name, ok := gone(&m.files); ok {
			return os.Remove(m.at(name))
		}
	case 1:
		if name, ok := gone(&m.links); ok {
			return os.Remove(m.at(name))
		}
	case 2: // another file of the same name, and perhaps the same size
		if name, ok := gone(&m.files); ok {
			info, err := os.Lstat(m.at(name))
			if err != nil {
				return err
			}
			size := int(info.Size())
			if m.rng.IntN(2) == 0 {
				size = m.size()
			}
			if err := os.Remove(m.at(name)); err != nil {
				return err
			}
			return m.write(name, size)
		}
	}
	return m.add()
}

// add adds one entry.
func (m *maker) add() error {
	parent := m.dirs[m.rng.IntN(len(m.dirs))]
	rel := m.name(parent)
	if rel == "" {
		return nil
	}
	switch n := m.rng.IntN(100); {
	case m.opt.Flat && slices.Contains(m.leafs, parent):
		return m.write(rel, m.size())
	case n < 20:
		m.dirs = append(m.dirs, rel)
		if m.opt.Flat && m.rng.IntN(2) == 0 {
			m.leafs = append(m.leafs, rel)
		}
		return os.Mkdir(m.at(rel), 0o700)
	case n < 32:
		return m.link(parent, rel)
	case n < 40 && len(m.files) > 0:
		return os.Link(m.at(m.files[m.rng.IntN(len(m.files))]), m.at(rel))
	case n < 42 && len(m.links) > 0: // a link with two names, where its text means the same
		old := m.links[m.rng.IntN(len(m.links))]
		in, _ := filepath.Split(old)
		if rel = m.name(filepath.Clean("/" + in)[1:]); rel == "" {
			return nil
		}
		return os.Link(m.at(old), m.at(rel))
	case n < 45 && m.opt.Specials:
		return m.special(rel)
	}
	return m.write(rel, m.size())
}

func (m *maker) size() int {
	switch m.rng.IntN(12) {
	case 0:
		return 0
	case 1:
		return m.rng.IntN(m.opt.MaxFile + 1)
	case 2:
		return min(m.opt.MaxFile, 512*m.rng.IntN(20)) // whole blocks
	}
	return m.rng.IntN(min(m.opt.MaxFile, 3000) + 1)
}

// write writes a file: random bytes, text, or nothing but a hole.
func (m *maker) write(rel string, size int) error {
	m.files = append(m.files, rel)
	content := make([]byte, size)
	switch m.rng.IntN(4) {
	case 0:
		if err := os.WriteFile(m.at(rel), nil, 0o600); err != nil {
			return err
		}
		return os.Truncate(m.at(rel), int64(size))
	case 1:
		for i := range content {
			content[i] = "the same again\r\n"[i%16]
		}
	default:
		for i := range content {
			content[i] = byte(m.rng.Uint32())
		}
	}
	return os.WriteFile(m.at(rel), content, 0o600)
}

// link makes a symbolic link: to something in the tree, to nothing, or, unless
// the tree is flat, round in a circle.
func (m *maker) link(parent, rel string) error {
	up := ""
	if parent != "" {
		up = strings.Repeat("../", strings.Count(parent, "/")+1)
	}
	target := "nowhere/" + strings.Repeat("x", m.rng.IntN(150))
	switch n := m.rng.IntN(6); {
	case n == 0 && !m.opt.Flat:
		target = []string{".", "./" + filepath.Base(rel), up + ".", strings.TrimSuffix(up, "/") + "/./."}[m.rng.IntN(4)]
		target = strings.TrimPrefix(target, "/")
	case n < 3 && len(m.files) > 0:
		target = up + m.files[m.rng.IntN(len(m.files))]
	case n < 4 && !m.opt.Flat:
		target = up + m.dirs[m.rng.IntN(len(m.dirs))]
	case n < 4 && len(m.leafs) > 0:
		target = up + m.leafs[m.rng.IntN(len(m.leafs))]
	}
	if target == "" {
		target = "."
	}
	if len(target) > 4000 {
		return nil
	}
	m.links = append(m.links, rel)
	return os.Symlink(target, m.at(rel))
}

func (m *maker) special(rel string) error {
	switch m.rng.IntN(3) {
	case 0:
		return unix.Mkfifo(m.at(rel), 0o640)
	case 1:
		if len(m.at(rel)) < 100 { // a socket's name has to fit an address
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: m.at(rel), Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return l.Close()
		}
		return nil
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return unix.Mknod(m.at(rel), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
}

// Bytes of names: what shells and tars care for, and what is used.
const (
	special = "\n\r\t \\'\"`$*?[]{}()<>|&;!~#%:=,.-_aA01@^+"
	usual   = "abcXYZ019._-"
)

// name returns a new path in parent, or "" if this one can't be made.
func (m *maker) name(parent string) string {
	n := 1 + m.rng.IntN(12)
	switch m.rng.IntN(20) {
	case 0:
		n = 255
	case 1:
		n = 90 + m.rng.IntN(30) // about as long as a header's field
	}
	b := make([]byte, n)
	kind := m.rng.IntN(8)
	for i := range b {
		switch kind {
		case 0:
			b[i] = byte(1 + m.rng.IntN(255))
		case 1:
			b[i] = special[m.rng.IntN(len(special))]
		default:
			b[i] = usual[m.rng.IntN(len(usual))]
		}
		if b[i] == '/' {
			b[i] = '\\'
		}
	}
	if kind == 2 && n > 3 {
		copy(b, []string{"\u00e9", "e\u0301", "\xff", "\xed\xa0", "-"}[m.rng.IntN(5)])
	}
	rel := filepath.Join(parent, string(b))
	if name := string(b); name == "." || name == ".." || len(m.root)+len(rel) > 3500 {
		return ""
	}
	if _, err := os.Lstat(m.at(rel)); err == nil {
		return ""
	}
	return rel
}

// finish sets modes and times, of directories last and the deepest first.
func (m *maker) finish() error {
	for _, rel := range append(slices.Clone(m.files), m.links...) {
		if err := m.settle(rel, false); err != nil {
			return err
		}
	}
	slices.Sort(m.dirs)
	for _, rel := range slices.Backward(m.dirs) {
		if err := m.settle(rel, true); err != nil {
			return err
		}
	}
	return nil
}

func (m *maker) settle(rel string, dir bool) error {
	var st unix.Stat_t
	if err := unix.Lstat(m.at(rel), &st); err != nil {
		return err
	}
	when := time.Unix(m.rng.Int64N(6e9)-2e9, m.rng.Int64N(1e9))
	switch m.rng.IntN(4) {
	case 0:
		when = when.Truncate(time.Second)
	case 1:
		when = when.Truncate(time.Millisecond)
	}
	at := unix.NsecToTimespec(when.UnixNano())
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		mode := uint32(m.rng.IntN(0o1000))
		switch m.rng.IntN(6) {
		case 0:
			mode |= 0o7000 & uint32(m.rng.Uint32())
		case 1, 2, 3:
			mode = []uint32{0o644, 0o755, 0o600, 0o444, 0o555, 0o640}[m.rng.IntN(6)]
		}
		if os.Geteuid() != 0 {
			mode |= 0o400
		}
		if dir {
			mode |= 0o500
		}
		if err := unix.Chmod(m.at(rel), mode); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, m.at(rel), []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}
