//go:build unix

// Package differential carries random trees there and back by every route, with
// GNU's and with BusyBox's tools in the sandbox, and compares what arrives with
// the source and with what tar makes of it.
package differential

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/sbsync/sbsync/internal/randtree"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// way is a route with a kind of tools.
type way struct {
	name  string
	opts  providertest.Options
	route transfer.Route
	// seconds: the tools keep no fractions of a second.
	seconds bool
}

// ways are all ways. A tree goes the first two or the last two, so by both
// routes and with both kinds of tools.
func ways() []way {
	return []way{
		{"stream, GNU", providertest.Options{Stream: true}, transfer.Stream, false},
		{"base64, BusyBox", providertest.Options{NoStdin: true, BusyBox: true}, transfer.Base64, true},
		{"stream, BusyBox", providertest.Options{Stream: true, BusyBox: true, Umask: 0o077}, transfer.Stream, true},
		{"base64, GNU", providertest.Options{}, transfer.Base64, false},
	}
}

// Bench is a set of sandboxes, one for each way, and a directory to work in. It
// is for one goroutine.
type Bench struct {
	dir   string
	fakes []*providertest.Fake
}

// NewBench makes a bench below dir. Close frees it.
func NewBench(dir string) (*Bench, error) {
	b := &Bench{dir: dir}
	for _, w := range ways() {
		f, err := providertest.NewFake(w.opts)
		if err != nil {
			b.Close()
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		b.fakes = append(b.fakes, f)
	}
	return b, nil
}

// Close removes the sandboxes.
func (b *Bench) Close() {
	for _, f := range b.fakes {
		f.Close()
	}
}

// Try makes the tree that belongs to the two numbers and carries it every way.
// An error says how the result differs. Every fifth tree is carried with its
// links followed, every eighth is larger,
// with files of up to 3 MiB.
func (b *Bench) Try(seed, index uint64) error {
	rng := rand.New(rand.NewPCG(seed, index))
	opt := randtree.Options{Entries: 25, MaxFile: 32 << 10, Specials: true}
	if index%8 == 0 {
		opt.Entries, opt.MaxFile = 100, 3<<20
	}
	t := &trial{rng: rng, opt: opt, dir: filepath.Join(b.dir, fmt.Sprintf("tree%d", index))}
	follow := index%5 == 4
	t.opt.Flat = follow
	defer remove(t.dir)
	if err := os.Mkdir(t.dir, 0o755); err != nil {
		return err
	}
	if err := randtree.Make(rng, t.src(), t.opt); err != nil {
		return fmt.Errorf("make the tree: %w", err)
	}
	if err := os.Mkdir(t.path("tar"), 0o755); err != nil {
		return err
	}
	if err := randtree.ByTar(t.src(), t.path("tar"), follow); err != nil {
		return err
	}
	pair := int(index%2) * 2
	for i, w := range ways()[pair : pair+2] {
		t.way, t.fake, t.updated = w, b.fakes[pair+i], false
		try := t.plain
		if follow {
			try = t.follow
		}
		err := try(int(index/2)%2 == i)
		remove(t.box())
		remove(t.path("back"))
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// trial is one tree on one way.
type trial struct {
	way
	rng  *rand.Rand
	opt  randtree.Options
	dir  string
	fake *providertest.Fake
	// updated: what is compared was made by an update.
	updated bool
}

func (t *trial) path(name string) string { return filepath.Join(t.dir, name) }
func (t *trial) src() string             { return t.path("src") }
func (t *trial) box() string             { return filepath.Join(t.fake.Root(), "box") }

// plain carries the tree to the sandbox and back, and if more is wanted, changes
// it and carries the difference.
func (t *trial) plain(more bool) error {
	opt := t.options()
	if err := t.push(opt); err != nil {
		return err
	}
	if err := t.pull(opt, "back"); err != nil {
		return err
	}
	if err := t.like("tar", "back"); err != nil || !more {
		return err
	}
	if err := randtree.Change(t.rng, t.src(), t.opt); err != nil {
		return fmt.Errorf("change the tree: %w", err)
	}
	opt.Policy, opt.Force = transfer.Mirror, true
	t.updated = true
	if err := t.push(opt); err != nil {
		return fmt.Errorf("after changes: %w", err)
	}
	if err := t.pull(opt, "back"); err != nil {
		return fmt.Errorf("after changes: %w", err)
	}
	// The tree on the next way is the changed one.
	if err := remove(t.path("tar")); err != nil {
		return err
	}
	if err := os.Mkdir(t.path("tar"), 0o755); err != nil {
		return err
	}
	return randtree.ByTar(t.src(), t.path("tar"), false)
}

// follow carries the tree with its links followed, which is tar -h.
func (t *trial) follow(bool) error {
	opt := t.options()
	opt.Symlinks = transfer.Follow
	if err := t.run(transfer.Push, t.src(), t.box(), opt); err != nil && provider.KindOf(err) != provider.Partial {
		return err
	}
	if err := t.compare("tar -h", t.path("tar"), t.box(), followed); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	if err := remove(t.box()); err != nil {
		return err
	}
	if err := t.run(transfer.Push, t.src(), t.box(), t.options()); err != nil {
		return err
	}
	if err := t.run(transfer.Pull, t.box(), t.path("back"), opt); err != nil && provider.KindOf(err) != provider.Partial {
		return err
	}
	if err := t.compare("tar -h", t.path("tar"), t.path("back"), followed); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	return nil
}

func (t *trial) options() transfer.Options {
	opt := transfer.NewOptions()
	opt.Route, opt.Retries = t.route, 0
	return opt
}

func (t *trial) push(opt transfer.Options) error {
	if err := t.run(transfer.Push, t.src(), t.box(), opt); err != nil {
		return err
	}
	if err := t.compare("the source", t.src(), t.box(), t.kept); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	return nil
}

func (t *trial) pull(opt transfer.Options, to string) error {
	if err := t.run(transfer.Pull, t.box(), t.path(to), opt); err != nil {
		return err
	}
	if err := t.compare("the source", t.src(), t.path(to), t.kept); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	return nil
}

func (t *trial) like(tar, got string) error {
	return t.compare("tar's", t.path(tar), t.path(got), randtree.Tree.WholeSeconds)
}

// kept is what the tools keep of a tree.
func (t *trial) kept(tree randtree.Tree) randtree.Tree {
	if t.updated {
		tree = tree.Updated()
	}
	if t.seconds {
		return tree.WholeSeconds()
	}
	return tree
}

// followed is what is compared after links were followed: tar makes hard links
// of what was one file.
func followed(tree randtree.Tree) randtree.Tree { return tree.Alone().WholeSeconds() }

func (t *trial) compare(what, want, got string, kept func(randtree.Tree) randtree.Tree) error {
	a, err := randtree.Look(want)
	if err != nil {
		return err
	}
	b, err := randtree.Look(got)
	if err != nil {
		return err
	}
	if d := kept(a.Carried()).Differs(kept(b)); d != "" {
		return fmt.Errorf("%q differs from %s:\n%s", got, what, d)
	}
	return nil
}

func (t *trial) run(dir transfer.Direction, from, to string, opt transfer.Options) error {
	ops := []transfer.Operation{{ID: "random", Files: []transfer.Mapping{{Source: from, Target: to}}}}
	_, err := transfer.Run(context.Background(), dir, transfer.Target{Sandbox: t.fake, Name: "fake"}, ops, opt)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// remove removes a tree whose directories may not be written.
func remove(root string) error {
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(p, 0o700)
		}
		if os.IsNotExist(err) {
			err = nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return os.RemoveAll(root)
}
