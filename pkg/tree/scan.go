package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sbsync/sbsync/pkg/provider"
)

// ScanOptions says how to scan a tree on the host. The limits keep a tree that
// is not what the user thinks it is from being carried; 0 means no limit.
type ScanOptions struct {
	// Rules say what to leave out. Nil leaves nothing out.
	Rules *Rules
	// Follow makes each symbolic link its target's content, as tar -h does.
	// To read such an entry's content, follow the link too.
	Follow bool
	// AllowExternal lets Follow follow links that lead out of the root.
	AllowExternal bool
	// MaxEntries is how many entries a tree may have.
	MaxEntries int64
	// MaxPath is how long a path below the root may be, in bytes.
	MaxPath int
	// MaxFileSize is how big a file may be, in bytes.
	MaxFileSize int64
	// MaxTotal is how big all files may be together, in bytes. Each name of a
	// hard-linked file counts.
	MaxTotal int64
}

// Errors of entries, found in [Problem.Err].
var (
	// ErrSpecial is a FIFO, a socket or a device, which is never carried.
	ErrSpecial = errors.New("not a file, directory or link")
	// ErrNested is the inside of a repository within a repository.
	ErrNested = errors.New("a git repository of its own, carried as an empty directory")
	// ErrCycle is a link that Follow can't follow since it leads to itself or
	// to a directory that it is in.
	ErrCycle = errors.New("symbolic link cycle")
	// ErrExternal is a link that leads out of the root.
	ErrExternal = errors.New("symbolic link leads out of the root")
)

// Scan takes a snapshot of the tree at root on the host. root may be a file or
// directory or a link to one, which is resolved: it is the user's choice.
//
// What can't be carried is among the snapshot's problems, in path order, and
// never just missing: entries that vanish during the scan ([fs.ErrNotExist]),
// directories that can't be read (they stay as entries, without what is in
// them), specials, which are never opened (they stay as entries of type
// Special), and with Follow links that dangle, form a cycle ([ErrCycle]) or
// lead out ([ErrExternal]).
//
// Scan fails if root is missing (kind [provider.NotFound], [fs.ErrNotExist])
// or unreadable, if a limit is exceeded (kind [provider.TooLarge]), and when
// ctx ends. The result does not depend on timing. Scan is safe for concurrent
// use.
func Scan(ctx context.Context, root string, opt ScanOptions) (*Snapshot, error) {
	real, entry, err := scanRoot(root)
	if err != nil {
		return nil, err
	}
	w := &walker{opt: opt, root: root, real: real}
	s := &Snapshot{Root: entry}
	switch entry.Type {
	case Special:
		s.Problems = []Problem{specialProblem(&entry)}
		return s, nil
	case File:
		if err := w.admit(&entry); err != nil {
			return nil, err
		}
		return s, nil
	}
	top := &dirNode{real: real, rules: opt.Rules}
	if opt.Follow {
		top.up = &ancestor{id: identify(&entry, real)}
	}
	if err := w.run(ctx, top); err != nil {
		return nil, err
	}
	if top.unreadable != nil {
		return nil, fmt.Errorf("scan %q: %w", root, top.unreadable)
	}
	w.collect(s, top)
	slices.SortStableFunc(s.Problems, func(a, b Problem) int { return ComparePaths(a.Path, b.Path) })
	return s, nil
}

// scanRoot resolves the root and looks at it.
func scanRoot(root string) (real string, entry Entry, err error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return "", entry, fmt.Errorf("scan %q: %w", root, err)
	}
	real, err = filepath.EvalSymlinks(abs)
	if err == nil {
		err = statPath(real, &entry)
	}
	if err == nil && entry.Type != Dir && os.IsPathSeparator(lastByte(root)) {
		err = errors.New("not a directory")
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", entry, &provider.Error{Kind: provider.NotFound, Op: "scan", Err: fmt.Errorf("%q: %w", root, fs.ErrNotExist)}
	case err != nil:
		return "", entry, fmt.Errorf("scan %q: %w", root, bareError(err))
	}
	return real, entry, nil
}

func lastByte(s string) byte {
	if s == "" {
		return 0
	}
	return s[len(s)-1]
}

// bareError takes the operation and path off an error of package os, which
// the caller names better.
func bareError(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func specialProblem(e *Entry) Problem {
	return Problem{Path: e.Path, Err: fmt.Errorf("%w: %s", ErrSpecial, e.Special), Skip: true}
}

// MaxFollowed bounds the paths that a tree has when links are followed, in
// bytes all together. A few dozen links to directories with links in them make
// more entries than memory holds, without any cycle.
const MaxFollowed = 512 << 20

// TooMuchFollowed is the error of kind TooLarge for a tree with longer paths.
func TooMuchFollowed() error {
	return &provider.Error{Kind: provider.TooLarge, Err: fmt.Errorf("following links gives paths of more than %d bytes", MaxFollowed),
		Hint: "links lead to directories with more links in them; use --symlinks preserve, or exclude some"}
}

// tally counts what has been admitted, across workers.
type tally struct {
	entries, bytes, paths atomic.Int64
}

// admit counts an entry and checks the limits.
func (w *walker) admit(e *Entry) error {
	o := &w.opt
	if n := w.tally.entries.Add(1); o.MaxEntries > 0 && n > o.MaxEntries {
		return w.tooLarge(e, "--limit-entries", "the tree has more than %d entries", o.MaxEntries)
	}
	if o.MaxPath > 0 && len(e.Path) > o.MaxPath {
		return w.tooLarge(e, "--limit-path", "the path has %d bytes, more than %d", len(e.Path), o.MaxPath)
	}
	if o.Follow && w.tally.paths.Add(int64(len(e.Path))) > MaxFollowed {
		return TooMuchFollowed()
	}
	if e.Type != File {
		return nil
	}
	if o.MaxFileSize > 0 && e.Size > o.MaxFileSize {
		return w.tooLarge(e, "--limit-file", "the file has %d bytes, more than %d", e.Size, o.MaxFileSize)
	}
	if n := w.tally.bytes.Add(e.Size); o.MaxTotal > 0 && (n > o.MaxTotal || n < 0) { // sparse files can overflow it
		return w.tooLarge(e, "--limit-total", "the tree has more than %d bytes", o.MaxTotal)
	}
	return nil
}

func (w *walker) tooLarge(e *Entry, flag, format string, args ...any) error {
	path := w.root
	if e.Path != "" {
		path = strings.TrimSuffix(w.root, "/") + "/" + e.Path
	}
	return &provider.Error{
		Kind: provider.TooLarge, Op: "scan",
		Err:  fmt.Errorf("%q: %s", path, fmt.Sprintf(format, args...)),
		Hint: "exclude it, or raise the limit with " + flag,
	}
}

// ownerAll is added to the mode of a directory that cannot be read: with the
// mode that it has, its counterpart could not be read either, and not be filled
// once it can.
const ownerAll = 0o700

// collect appends what was found in a directory and below, in path order.
func (w *walker) collect(s *Snapshot, d *dirNode) {
	s.Excluded += d.excluded
	s.Leftovers += d.leftovers
	s.Problems = append(s.Problems, d.problems...)
	if s.Entries == nil {
		s.Entries = make([]Entry, 0, w.tally.entries.Load())
	}
	subs := d.subs
	for _, e := range d.entries {
		if e.Type != Dir {
			s.Entries = append(s.Entries, e)
			continue
		}
		sub := subs[0]
		subs = subs[1:]
		if sub.unreadable != nil {
			e.Mode |= ownerAll
		}
		if !sub.gone {
			s.Entries = append(s.Entries, e)
		}
		w.collect(s, sub)
	}
}
