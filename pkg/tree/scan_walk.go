package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// walker reads directories with a few workers.
type walker struct {
	opt   ScanOptions
	root  string // as the user wrote it
	real  string // absolute, links resolved
	tally tally

	mu      sync.Mutex
	wake    sync.Cond
	queue   []*dirNode // to read; the last is taken first
	pending int        // queued or being read
	err     error
}

// dirNode is one directory: what to read, then what was found in it.
type dirNode struct {
	path  string // below the root
	real  string // on the host, links resolved
	rules *Rules // of the directory above until it is read
	up    *ancestor

	entries   []Entry    // in name order
	subs      []*dirNode // of the entries that are directories, in order
	problems  []Problem
	excluded  int
	leftovers int
	// unreadable is why nothing is known of what is in the directory, and
	// gone says that the directory itself is no more.
	unreadable error
	gone       bool
}

// maxWorkers bounds the workers. Warm trees need no more than one a core;
// more hide the latency of disks and network file systems.
const (
	minWorkers = 4
	maxWorkers = 16
)

// run reads top and everything below it.
func (w *walker) run(ctx context.Context, top *dirNode) error {
	w.wake.L = &w.mu
	w.queue, w.pending = []*dirNode{top}, 1
	stop := context.AfterFunc(ctx, func() { w.fail(ctx.Err()) })
	defer stop()
	var workers sync.WaitGroup
	for range min(max(runtime.GOMAXPROCS(0), minWorkers), maxWorkers) {
		workers.Go(func() { w.work() })
	}
	workers.Wait()
	w.mu.Lock() // the context may end just now
	defer w.mu.Unlock()
	return w.err
}

// work reads directories until none is left.
func (w *walker) work() {
	for d := w.take(); d != nil; d = w.take() {
		if err := w.read(d); err != nil {
			w.fail(err)
		}
		w.done(d)
	}
}

// take returns the next directory; nil when all are read or the scan failed.
func (w *walker) take() *dirNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && w.pending > 0 && w.err == nil {
		w.wake.Wait()
	}
	if len(w.queue) == 0 || w.err != nil {
		return nil
	}
	d := w.queue[len(w.queue)-1]
	w.queue = w.queue[:len(w.queue)-1]
	return d
}

// done queues what was found in d.
func (w *walker) done(d *dirNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, d.subs...)
	w.pending += len(d.subs) - 1
	if w.pending == 0 || len(d.subs) > 1 {
		w.wake.Broadcast()
	}
}

func (w *walker) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.wake.Broadcast()
}

// read reads one directory. Its error ends the scan.
func (w *walker) read(d *dirNode) error {
	h, err := openDir(d.real)
	if err != nil {
		d.fail(err)
		return nil
	}
	defer h.close()
	names, err := h.names()
	if err != nil {
		d.fail(err)
		return nil
	}
	slices.Sort(names)
	d.rules, err = d.rules.Enter(d.path, func(name string) ([]byte, bool, error) {
		return readIgnore(h, names, d.real, name)
	})
	if err != nil {
		d.fail(err)
		return nil
	}
	if d.rules != nil && d.rules.nested {
		if len(names) > 0 { // a submodule that is not populated lacks nothing
			d.problem(d.path, ErrNested, true)
		}
		return nil
	}
	d.entries = make([]Entry, 0, len(names))
	for _, name := range names {
		if err := w.look(d, h, name); err != nil {
			return err
		}
	}
	return nil
}

// fail marks the directory as unreadable. It stays as an entry unless it is
// gone or no directory any more.
func (d *dirNode) fail(err error) {
	d.unreadable = bareError(err)
	d.gone = errors.Is(err, fs.ErrNotExist) || notDirectory(err)
	d.problem(d.path, d.unreadable, false)
}

func (d *dirNode) problem(path string, err error, skip bool) {
	d.problems = append(d.problems, Problem{Path: path, Err: err, Skip: skip})
}

// look adds the entry called name to d, or notes why it is left out.
func (w *walker) look(d *dirNode, h *dirHandle, name string) error {
	if IsScratch(name) {
		d.leftovers++
		return nil
	}
	e := Entry{Path: join(d.path, name)}
	real, err := "", h.lstat(name, &e)
	if err == nil && e.Type == Symlink && w.opt.Follow {
		real, err = w.follow(filepath.Join(d.real, name), &e)
	}
	if d.rules.Excluded(e.Path, e.Type == Dir) {
		d.excluded++
		return nil
	}
	var sub *dirNode
	if err == nil && e.Type == Dir {
		sub, err = d.descend(&e, cmp.Or(real, filepath.Join(d.real, name)))
	}
	if err != nil {
		d.problem(e.Path, bareError(err), false)
		return nil
	}
	if err := w.admit(&e); err != nil {
		return err
	}
	d.entries = append(d.entries, e)
	switch e.Type {
	case Special:
		d.problems = append(d.problems, specialProblem(&e))
	case Dir:
		d.subs = append(d.subs, sub)
	}
	return nil
}

// descend makes the node of a directory in d. When links are followed it may
// be one that d is in.
func (d *dirNode) descend(e *Entry, real string) (*dirNode, error) {
	sub := &dirNode{path: e.Path, real: real, rules: d.rules}
	if d.up == nil {
		return sub, nil
	}
	var err error
	sub.up, err = d.up.descend(e, real)
	return sub, err
}

// readIgnore reads an ignore file of a directory with the given names, for
// [Rules.Enter]. A .git that is not valid is reported as not found.
func readIgnore(h *dirHandle, names []string, real, name string) ([]byte, bool, error) {
	if name == gitDirName || name == gitDirName+"/HEAD" {
		if _, ok := slices.BinarySearch(names, gitDirName); !ok {
			return nil, false, nil
		}
		return readNestedMark(real, name)
	}
	if _, ok := slices.BinarySearch(names, name); !ok {
		return nil, false, nil
	}
	data, ok, err := h.readFile(name, maxIgnoreFile)
	if err != nil {
		return nil, false, fmt.Errorf("read %q: %w", name, bareError(err))
	}
	return data, ok, nil
}

// readNestedMark reads what marks dir as a repository: its .git file, or the
// HEAD in its .git directory.
func readNestedMark(dir, name string) ([]byte, bool, error) {
	gitDir, err := resolveGitDir(dir)
	isFile := gitDir != filepath.Join(dir, gitDirName)
	if err != nil || gitDir == "" || isFile != (name == gitDirName) {
		return nil, false, nil
	}
	data, err := readRegular(filepath.Join(dir, filepath.FromSlash(name)), maxGitFile)
	return data, err == nil, nil
}
