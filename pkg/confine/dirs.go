package confine

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/sbsync/sbsync/pkg/tree"
)

// openDirs is how many directory handles a cache keeps: few are needed at a time,
// since trees are walked in order, and a run holds up to three caches with two
// descriptors a handle. macOS starts processes with 256 descriptors, and users
// set less.
var openDirs = min(max(maxDescriptors()/16, 4), 32)

// dir is an open directory. Operations on it take a single name.
type dir struct {
	*os.Root
	path string      // relative to the top of the cache, "" for the top
	info fs.FileInfo // of the directory itself

	cache      *dirCache
	users      int  // guarded by cache.mu
	gone       bool // no longer in the cache: the last user closes it
	prev, next *dir // in the cache's ring of recent use
	handle     dirHandle
}

// release ends the use of d.
func (d *dir) release() {
	d.cache.mu.Lock()
	defer d.cache.mu.Unlock()
	d.users--
	d.closeIfUnused()
}

func (d *dir) closeIfUnused() {
	if d.gone && d.users == 0 {
		d.handle.close()
		d.Close()
	}
}

// dirCache opens the directories of a tree, each by the handle of its parent
// and only if it is a real directory, and keeps the ones used last. So no link
// is ever followed below the top, and an operation deep in a tree is one system
// call. It is safe for concurrent use.
type dirCache struct {
	top *dir
	// verify looks at every element of the path again on each use, so that a
	// directory that was moved away is noticed. Without it a handle keeps
	// leading to the directory that was opened first, wherever it is now.
	verify bool
	// prefix is the path of the top in the directory within, if that is known:
	// two caches under one directory can rename from one to the other.
	prefix string
	within *dir

	mu   sync.Mutex
	dirs map[string]*dir // without the top
	ring dir             // its next was used last
}

// newDirCache takes over root.
func newDirCache(root *os.Root, verify bool) (*dirCache, error) {
	info, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	c := &dirCache{verify: verify, dirs: map[string]*dir{}}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	c.top = &dir{Root: root, info: info, cache: c, users: 1}
	return c, nil
}

// close closes all handles, those in use when they are released.
func (c *dirCache) close() {
	c.drop("")
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.top.gone {
		c.top.gone = true
		c.top.users--
		c.top.closeIfUnused()
	}
}

// drop forgets the handles of path and of what is below, which is due before
// path is moved or removed.
func (c *dirCache) drop(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, d := range c.dirs {
		if tree.Within(p, path) {
			c.forget(d)
		}
	}
}

func (c *dirCache) forget(d *dir) {
	delete(c.dirs, d.path)
	d.prev.next, d.next.prev = d.next, d.prev
	d.gone = true
	d.closeIfUnused()
}

// errNotDir is what stands where a directory was expected.
var errNotDir = errors.New("not a directory")

// open returns the directory at path, which must be released. If make is set,
// directories that are missing are made, for the user alone. A link or another
// thing in the way is an error.
func (c *dirCache) open(path string, make bool) (*dir, error) {
	cur, rest, err := c.start(path)
	if err != nil {
		return nil, err
	}
	for rest != "" {
		name, more, _ := strings.Cut(rest, "/")
		next, err := c.child(cur, name, make)
		cur.release()
		if err != nil {
			return nil, err
		}
		cur, rest = next, more
	}
	return cur, nil
}

// start returns the deepest directory on the way to path that need not be
// looked at again, and the rest of the path.
func (c *dirCache) start(path string) (*dir, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.top.gone {
		return nil, "", fs.ErrClosed
	}
	for p := path; p != "" && !c.verify; p = tree.Parent(p) {
		if d := c.use(p); d != nil {
			return d, strings.TrimPrefix(path[len(p):], "/"), nil
		}
	}
	c.top.users++
	return c.top, path, nil
}

// use returns the directory at path if it is in the cache, or nil. The caller
// holds the lock.
func (c *dirCache) use(path string) *dir {
	d := c.dirs[path]
	if d == nil {
		return nil
	}
	d.users++
	if c.ring.next != d {
		d.prev.next, d.next.prev = d.next, d.prev
		c.insert(d)
	}
	return d
}

// current returns the cached directory at path if it is the one that info
// describes, and forgets another.
func (c *dirCache) current(path string, info fs.FileInfo) *dir {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.dirs[path]
	if d == nil {
		return nil
	}
	if !os.SameFile(d.info, info) {
		c.forget(d)
		return nil
	}
	return c.use(path)
}

func (c *dirCache) insert(d *dir) {
	d.prev, d.next = &c.ring, c.ring.next
	d.prev.next, d.next.prev = d, d
}

// child returns the directory name in parent.
func (c *dirCache) child(parent *dir, name string, make bool) (*dir, error) {
	path := name
	if parent.path != "" {
		path = parent.path + "/" + name
	}
	info, err := parent.Lstat(name)
	if make && errors.Is(err, fs.ErrNotExist) {
		if err := parent.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		info, err = parent.Lstat(name)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: cause(err)}
	}
	if d := c.current(path, info); d != nil {
		return d, nil
	}
	d, err := openDir(parent, name, path, info)
	if err != nil {
		return nil, err
	}
	return c.add(d), nil
}

// openDir opens a directory of which info is known, and nothing else.
func openDir(parent *dir, name, path string, info fs.FileInfo) (*dir, error) {
	if info.Mode().Type() == fs.ModeSymlink {
		return nil, refuse("open", "", "%s is a link; nothing is opened through it", quote(path))
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errNotDir}
	}
	// With "/." the name is opened as a directory or not at all; without, a
	// FIFO that was put here since Lstat would block.
	root, err := parent.OpenRoot(name + "/.")
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: cause(err)}
	}
	// OpenRoot follows links that stay inside, and one may have been put here
	// since Lstat.
	now, err := root.Stat(".")
	if err != nil || !os.SameFile(info, now) {
		root.Close()
		return nil, refuse("open", "", "%s was replaced while it was opened", quote(path))
	}
	return &dir{Root: root, path: path, info: now}, nil
}

// add puts a fresh handle into the cache, or closes it if another goroutine was
// faster, and makes room.
func (c *dirCache) add(d *dir) *dir {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.dirs[d.path]; other != nil && os.SameFile(other.info, d.info) {
		d.Close()
		other.users++
		return other
	} else if other != nil {
		c.forget(other)
	}
	d.cache, d.users = c, 1
	if c.top.gone { // closed meanwhile
		d.gone = true
		return d
	}
	c.dirs[d.path] = d
	c.insert(d)
	if len(c.dirs) > openDirs {
		c.forget(c.ring.prev)
	}
	return d
}

// cause strips the path from an error of package os, for one that names a
// better path.
func cause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	var linkErr *os.LinkError
	if errors.As(err, &linkErr) {
		return linkErr.Err
	}
	var sysErr *os.SyscallError
	if errors.As(err, &sysErr) {
		return sysErr.Err
	}
	return err
}
