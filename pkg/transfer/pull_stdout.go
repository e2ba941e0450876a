package transfer

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/tree"
)

// toStdout writes a single file to standard output. What was written can't be
// taken back, so each piece is written once it has arrived whole and been
// compared with the sandbox's digest of it.
func (g *puller) toStdout(src *tree.Snapshot) error {
	e := src.Root
	if e.Type != tree.File {
		return provider.New(provider.Usage, "only a single file can go to standard output", "name a directory to pull into")
	}
	g.plan = &plan{root: e, files: 1, bytes: e.Size, entries: []PlannedEntry{{Create, "", tree.File, e.Size}}}
	g.planned(g.mapping, g.plan, src)
	if g.opt.DryRun {
		return nil
	}
	if err := g.facts.require("pull to standard output", "dd", "head", "tail"); err != nil {
		return err
	}
	h, err := g.facts.hasher(e.Size)
	if err != nil {
		return err
	}
	route, why := Base64, "the sandbox only executes commands"
	if g.session.Streams() {
		route, why = Stream, "the sandbox streams"
	}
	g.routed(g.mapping, route, why)
	g.phase("send")
	p := &textPuller{puller: g, hasher: h}
	out := &inOrder{w: os.Stdout, buf: make([]byte, 0, stdoutPiece)}
	for out.offset < e.Size {
		n := min(p.budget(stdoutPiece, 1), e.Size-out.offset)
		if err := p.piece(g.ctx, e, out, out.offset, n); err != nil {
			return err
		}
		if p.isFailed(e) {
			return partialError(fmt.Errorf("the file could not be read whole; its first %d bytes were written", out.offset))
		}
		if err := out.flush(); err != nil {
			return err
		}
	}
	g.reportChanges()
	g.report.Digests = true
	g.carried(g.plan, nil, 0)
	return g.verdict()
}

// stdoutPiece is held in memory until its digest was compared.
const stdoutPiece = 8 << 20

// inOrder collects a piece, which a repeated attempt may write again.
type inOrder struct {
	w      io.Writer
	offset int64 // of buf in the file
	buf    []byte
}

var errOutOfOrder = errors.New("a piece was written out of order")

// WriteAt takes bytes of the current piece.
func (o *inOrder) WriteAt(p []byte, at int64) (int, error) {
	i := at - o.offset
	if i < 0 || i > int64(len(o.buf)) {
		return 0, errOutOfOrder
	}
	o.buf = append(o.buf[:i], p...)
	return len(p), nil
}

func (o *inOrder) flush() error {
	n, err := o.w.Write(o.buf)
	o.offset += int64(n)
	o.buf = o.buf[:0]
	return err
}
