package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/tree"
)

// recheck lists the source once more and takes note of the files that are not
// any more what arrived.
func (g *puller) recheck(files []tree.Entry) error {
	now, err := g.relist()
	if err != nil {
		return err
	}
	for _, e := range files {
		if !g.failed[e.Path] && g.moved(e, now) {
			g.change(e.Path)
		}
	}
	return nil
}

// relist looks at the source again.
func (g *puller) relist() (map[string]tree.Entry, error) {
	q := question{path: g.mapping.Source, list: true, resolve: true}
	var f *facts
	err := g.again(g.ctx, "list", func(ctx context.Context) (err error) {
		f, err = inspect(ctx, g.session, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	src := f.snapshot()
	if g.symlinks(g.mapping) == Follow {
		if src, err = g.followLinks(src, nil, nil); err != nil {
			return nil, err
		}
	}
	now := make(map[string]tree.Entry, len(src.Entries)+1)
	now[""] = src.Root
	for _, e := range src.Entries {
		now[e.Path] = e
	}
	return now, nil
}

// moved says whether a file is not any more what arrived of it.
func (g *puller) moved(e tree.Entry, now map[string]tree.Entry) bool {
	if got, ok := g.arrived[e.Path]; ok {
		e = got
	}
	n := now[e.Path]
	return n.Type != tree.File || n.Size != e.Size || n.Time.Sec != e.Time.Sec && e.Time.Sec >= 0
}

// verify compares the digests of what arrived with those in the sandbox.
func (g *puller) verify(files []tree.Entry) error {
	g.phase("verify")
	h, err := g.facts.hasher(0)
	if err != nil {
		return err
	}
	if h.sum {
		return &provider.Error{Kind: provider.Missing, Op: "verify", Err: errors.New("the sandbox has no SHA-256 tool")}
	}
	var names []string
	for _, e := range files {
		names = append(names, g.remoteName(e))
	}
	sums, err := g.remoteDigests(g.ctx, g.session, h, g.dir, names)
	if err != nil {
		return err
	}
	var now map[string]tree.Entry
	for i, e := range files {
		if g.failed[e.Path] || sums[i] == g.digests[e.Path] {
			continue
		}
		if now == nil {
			if now, err = g.relist(); err != nil {
				return err
			}
		}
		if !g.moved(e, now) && !g.changed[e.Path] {
			return integrityError(fmt.Sprintf("verify %q: the digest differs from the sandbox's", e.Path))
		}
		g.change(e.Path)
	}
	return nil
}
