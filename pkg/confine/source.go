package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/tree"
)

// ErrNotRegular is what Open answers for a path that holds anything but a
// regular file: a directory, a link that is not followed, a FIFO, a device.
var ErrNotRegular = errors.New("not a regular file")

// Source reads the files of a push. Paths are relative to its root, as in a
// [tree.Snapshot]; "" is the root, if that is a file.
//
// The root may be reached through links, which is the user's choice. Below it
// nothing outside is ever opened, whatever is moved or replaced meanwhile. A
// Source is safe for concurrent use.
type Source struct {
	// AllowExternal lets Open follow links that lead out of the root. Set it
	// before the first Open.
	AllowExternal bool

	root string
	real string    // the root without links
	dirs *dirCache // nil if the root is a file
}

// OpenSource opens the directory or file at root. A root that does not exist is
// an error of kind NotFound.
func OpenSource(root string) (*Source, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, readError(root, err)
	}
	s := &Source{root: root}
	if !info.IsDir() {
		return s, nil
	}
	if s.real, err = filepath.EvalSymlinks(root); err == nil {
		s.real, err = filepath.Abs(s.real)
	}
	if err != nil {
		return nil, readError(root, err)
	}
	dir, err := os.OpenRoot(s.real)
	if err != nil {
		return nil, readError(root, err)
	}
	if s.dirs, err = newDirCache(dir, false); err != nil {
		return nil, readError(root, err)
	}
	return s, nil
}

// Close frees the handles. Files that Open returned stay open.
func (s *Source) Close() error {
	if s.dirs != nil {
		s.dirs.close()
	}
	return nil
}

// Open opens the regular file at rel for reading and describes it as it was
// opened. It never blocks, be it on a FIFO that took the file's place.
//
// If follow is false, links are not followed anywhere in rel. If it is true,
// they are as long as they stay below the root, or anywhere with AllowExternal.
//
// Errors: [ErrNotRegular], fs.ErrNotExist and fs.ErrPermission as they are;
// kind Confined for a link that may not be followed.
func (s *Source) Open(rel string, follow bool) (*os.File, fs.FileInfo, error) {
	switch {
	case rel == "" || s.dirs == nil:
		return s.openRoot(rel)
	case follow && s.AllowExternal:
		return s.openAnywhere(rel)
	}
	if err := CheckPath(rel); err != nil {
		return nil, nil, err
	}
	f, info, err := s.openHere(rel)
	if err != nil && follow {
		return s.openBelow(rel, err)
	}
	return f, info, err
}

// openRoot opens the root, which has to be a file.
func (s *Source) openRoot(rel string) (*os.File, fs.FileInfo, error) {
	if rel != "" {
		return nil, nil, &fs.PathError{Op: "open", Path: rel, Err: errNotDir}
	}
	return openRegular(s.root, func(flag int) (*os.File, error) { return os.OpenFile(s.root, flag, 0) })
}

// openHere opens rel without following any link.
func (s *Source) openHere(rel string) (*os.File, fs.FileInfo, error) {
	d, err := s.dirs.open(tree.Parent(rel), false)
	if err != nil {
		return nil, nil, err
	}
	defer d.release()
	return openFile(d, tree.Base(rel), rel)
}

// errReplaced is a path that became another thing while it was used.
var errReplaced = errors.New("replaced while it was opened")

// notRegular is the error for what stands where a regular file was expected.
func notRegular(rel string, mode fs.FileMode) error {
	if mode.Type() == fs.ModeSymlink {
		return refuse("open", "", "%s is a link: %w", quote(rel), ErrNotRegular)
	}
	return &fs.PathError{Op: "open", Path: rel, Err: ErrNotRegular}
}

// openRegular calls open with the flags that never block, and checks what it
// gets.
func openRegular(rel string, open func(flag int) (*os.File, error)) (*os.File, fs.FileInfo, error) {
	f, err := open(os.O_RDONLY | openNonblock)
	if err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: rel, Err: cause(err)}
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: rel, Err: ErrNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// openBelow opens what rel leads to, if that is below the root; openHere gave
// the error err. The path is resolved as text first, since os.Root takes no
// absolute links, and then opened without following any link.
func (s *Source) openBelow(rel string, err error) (*os.File, fs.FileInfo, error) {
	if provider.KindOf(err) != provider.Confined {
		return nil, nil, err // no link is involved
	}
	full, err := filepath.EvalSymlinks(filepath.Join(s.real, filepath.FromSlash(rel)))
	if err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: rel, Err: cause(err)}
	}
	real, err := filepath.Rel(s.real, full)
	if err != nil || leaves(filepath.ToSlash(real)) {
		return nil, nil, refuse("open", "to follow it, add --allow-external-symlinks",
			"%s leads out of %s, to %s", quote(rel), quote(s.root), quote(full))
	}
	if real == "." {
		return nil, nil, &fs.PathError{Op: "open", Path: rel, Err: ErrNotRegular}
	}
	return s.openHere(filepath.ToSlash(real))
}

// openAnywhere opens what rel leads to.
func (s *Source) openAnywhere(rel string) (*os.File, fs.FileInfo, error) {
	if err := CheckPath(rel); err != nil {
		return nil, nil, err
	}
	full := filepath.Join(s.root, filepath.FromSlash(rel))
	info, err := os.Stat(full)
	if err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: rel, Err: cause(err)}
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &fs.PathError{Op: "open", Path: rel, Err: ErrNotRegular}
	}
	return openRegular(rel, func(flag int) (*os.File, error) { return os.OpenFile(full, flag, 0) })
}

// readError classifies an error about the root itself.
func readError(root string, err error) error {
	err = fmt.Errorf("%s: %w", quote(root), cause(err))
	if errors.Is(err, fs.ErrNotExist) {
		return &provider.Error{Kind: provider.NotFound, Op: "open", Err: err}
	}
	return &provider.Error{Kind: provider.Other, Op: "open", Err: err}
}
