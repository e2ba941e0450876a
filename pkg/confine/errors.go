package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
)

// WriteError classifies an error of writing to a file that [Stage.Create]
// returned, as the stage's own methods do: a full disk is of kind NoSpace and
// says how much is free. It returns nil for nil.
func (s *Stage) WriteError(rel string, err error) error {
	if err == nil {
		return nil
	}
	return s.fault("write", rel, err)
}

// fault gives an error its kind, and the path as the user knows it.
func (s *Stage) fault(op, rel string, err error) error {
	path := filepath.Join(s.dest, filepath.FromSlash(rel))
	var typed *provider.Error
	if errors.As(err, &typed) {
		return fmt.Errorf("%s %s: %w", op, quote(path), err)
	}
	e := &provider.Error{Kind: provider.Other, Op: op, Err: fmt.Errorf("%s: %w", quote(path), trim(err))}
	switch {
	case isNoSpace(err):
		e.Kind = provider.NoSpace
		e.Hint = "free some space, or choose a destination on another disk"
		if free, ok := freeBytes(s.dest); ok {
			e.Err = fmt.Errorf("%w (%d bytes free)", e.Err, free)
		}
	case isReadOnly(err):
		e.Kind = provider.ReadOnly
		e.Hint = "the destination's file system is mounted read-only"
	case errors.Is(err, fs.ErrPermission):
		e.Kind = provider.ReadOnly
		e.Hint = "check who owns the destination and its parent, and their modes"
	case isCrossDevice(err):
		e.Hint = "another file system is mounted below the destination; sync it on its own"
	}
	return e
}

// trim drops the operation and path that package os puts into its errors: they
// name the scratch place, not the destination. Errors that say more are kept.
func trim(err error) error {
	switch err.(type) {
	case *fs.PathError, *os.LinkError, *os.SyscallError:
		return cause(err)
	}
	return err
}

// relOf returns the path in the staged tree of a file that Create returned.
func (s *Stage) relOf(f *os.File) string {
	// Names of files in an os.Root are put together, not clean.
	rel := strings.TrimPrefix(filepath.Clean(f.Name()), filepath.Clean(s.inner.top.Name()))
	rel = strings.TrimLeft(filepath.ToSlash(rel), "/")
	return strings.TrimPrefix(strings.TrimPrefix(rel, stagedName), "/")
}

// freeBytes returns how much an ordinary user can still write at path, or at
// its nearest parent that exists.
func freeBytes(path string) (int64, bool) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return 0, false
	}
	for {
		if free, err := diskFree(abs); err == nil {
			return free, true
		}
		if abs == filepath.Dir(abs) {
			return 0, false
		}
		abs = filepath.Dir(abs)
	}
}
