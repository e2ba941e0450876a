package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tree"
)

// state is a command that prints the state of a file, nothing if it is gone, and
// "unknown" if there are no tools to tell. An edit that keeps the size and gets
// its time set back still changes the time of the inode.
func (p *textPuller) state(e tree.Entry) string {
	follow := ""
	if p.symlinks(p.mapping) == Follow {
		follow = "-L"
	}
	return strings.NewReplacer("NAME", shell.Quote("./"+p.remoteName(e)), "FOLLOW", follow).Replace(
		`stat FOLLOW -c '%s %Y %i %z' -- NAME 2>/dev/null || find FOLLOW NAME -prune -printf '%s %Ts %i %C@\n' 2>/dev/null || [ ! -e NAME ] || echo unknown
`)
}

// sameState says whether a file is what was listed, and what it was when other
// pieces of it were read.
func (p *textPuller) sameState(e tree.Entry, state string) bool {
	if state == "unknown" {
		return true
	}
	if !strings.HasPrefix(state, fmt.Sprintf("%d %d ", e.Size, e.Time.Sec)) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	first, seen := p.states[e.Path]
	if !seen {
		p.states[e.Path] = state
	}
	return !seen || first == state
}

// create makes a staged file that pieces are written to.
func (p *textPuller) create(e tree.Entry) (*os.File, error) {
	f, err := p.stage.Create(e.Path)
	if err == nil {
		p.mu.Lock()
		p.open = append(p.open, f)
		p.mu.Unlock()
	}
	return f, err
}

// pieces fetches a large file with all workers.
func (p *textPuller) pieces(e tree.Entry, size int64) error {
	if size > pieceAlign {
		size -= size % pieceAlign
	}
	f, err := p.create(e)
	if err != nil {
		return err
	}
	var left atomic.Int64
	left.Store((e.Size + size - 1) / size)
	for offset := int64(0); offset < e.Size; offset += size {
		n := min(size, e.Size-offset)
		err := p.jobs.run(func(ctx context.Context) error {
			if err := p.piece(ctx, e, f, offset, n); err != nil {
				return err
			}
			if left.Add(-1) > 0 {
				return nil
			}
			return p.complete(e, f)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *textPuller) complete(e tree.Entry, f *os.File) error {
	p.progress(1, 0)
	return p.stage.FinishFile(f, e.Mode, e.Time)
}

// inPieces fetches a file piece by piece, with the worker that found out that
// it is too large for one reply, from the error given.
func (p *textPuller) inPieces(ctx context.Context, e tree.Entry, cut error) error {
	f, err := p.create(e)
	if err != nil {
		return err
	}
	if err := p.smaller(ctx, e, f, 0, e.Size, cut); err != nil {
		return err
	}
	return p.complete(e, f)
}

// smaller fetches a range in pieces that the provider delivers, after the reply
// with all of it was cut.
func (p *textPuller) smaller(ctx context.Context, e tree.Entry, f io.WriterAt, offset, n int64, cut error) error {
	size := p.budget(pullPiece, 1)
	if size > pieceAlign {
		size -= size % pieceAlign
	}
	if size >= n {
		return fmt.Errorf("not even %d bytes arrive in one reply: %w", n, cut)
	}
	for at := offset; at < offset+n; at += size {
		if err := p.piece(ctx, e, f, at, min(size, offset+n-at)); err != nil {
			return err
		}
	}
	return nil
}

// piece fetches one piece of a file, in smaller ones if the sandbox turns out
// to deliver less at a time. A file that was given up has no more pieces.
func (p *textPuller) piece(ctx context.Context, e tree.Entry, f io.WriterAt, offset, n int64) error {
	if p.isFailed(e) {
		return nil
	}
	label := fmt.Sprintf("piece of %.60q at %d", p.remoteName(e), offset)
	name := shell.Quote("./" + p.remoteName(e))
	from := fmt.Sprintf("tail -c +%d -- %s | head -c %d", offset+1, name, n)
	if offset%pieceAlign == 0 {
		from = fmt.Sprintf("dd if=%s bs=%d skip=%d count=%d 2>/dev/null", name, pieceAlign, offset/pieceAlign, (n+pieceAlign-1)/pieceAlign)
		if n%pieceAlign != 0 {
			from += fmt.Sprintf(" | head -c %d", n)
		}
	}
	err := p.again(ctx, label, func(ctx context.Context) error { return p.tryPiece(ctx, label, e, f, offset, n, from) })
	var over *overLimit
	var cut *script.CutError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &over):
		return p.smaller(ctx, e, f, offset, n, err)
	case isVanished(err):
		p.vanish(e)
		return nil
	case !errors.As(err, &cut) && provider.KindOf(err) == provider.Integrity && p.facts.tools["base64"]:
		return p.changingPiece(ctx, e, f, offset, n, from)
	}
	return err
}

// tryPiece fetches a piece with the command from, and compares digests.
func (p *textPuller) tryPiece(ctx context.Context, label string, e tree.Entry, f io.WriterAt, offset, n int64, from string) error {
	body := p.head() + "readable " + shell.Quote("./"+p.remoteName(e)) + "\nfrom() { " + from + "; }\nfrom | pack " + p.compress() + "\nfrom | $HASH | trim\n" + p.state(e) + ":\n"
	return p.run(ctx, label, body, n, func(content io.Reader, sums func() ([]string, error)) error {
		sum := (&digestList{hasher: p.hasher}).start()
		w := &errorWriter{w: io.NewOffsetWriter(f, offset)}
		got, err := io.CopyN(io.MultiWriter(w, sum), content, n)
		p.at.add(e.Path, offset, got)
		p.progress(0, got)
		switch {
		case w.err != nil:
			return p.writeError(e, w.err)
		case err == io.EOF:
			return integrityError(fmt.Sprintf("%s: received %d of %d bytes", label, got, n))
		case err != nil:
			return err
		}
		if err := atEnd(content); err != nil {
			return err
		}
		lines, err := sums()
		if err != nil {
			return err
		}
		if len(lines) == 0 || len(lines) > 2 || lines[0] != strings.TrimSpace(digestLine(sum)) {
			return integrityError(label + ": the digest differs from the sandbox's")
		}
		if len(lines) < 2 || !p.sameState(e, lines[1]) {
			p.noteChanged(e.Path)
		}
		return nil
	})
}

// errorWriter remembers the error of a writer, which io.Copy does not tell from
// the reader's.
type errorWriter struct {
	w   io.Writer
	err error
}

func (w *errorWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

// writeError is an error of writing a file's content.
func (p *textPuller) writeError(e tree.Entry, err error) error {
	if p.stage == nil { // standard output
		return err
	}
	return p.stage.WriteError(e.Path, err)
}
