package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/tree"
)

// On the base64 route a pull goes in commands that each print a part of what is
// wanted as text: many small files one after the other, or a piece of a large
// one. Nothing is written in the sandbox, and each command may run twice. The
// sizes are known from the listing; digests show whether all is as it was.
const (
	// maxBatch bounds the content of a command that prints small files.
	pullBatch = 8 << 20
	// pullPiece bounds a piece of a large file, which is not held in memory.
	pullPiece = 16 << 20
	// pullNames bounds the names in a command, which are part of its script.
	pullNames = 80 << 10
)

// textPuller is a pull on the base64 route.
type textPuller struct {
	*puller
	hasher  hasher
	jobs    *jobs
	link    link
	mu      sync.Mutex      // guards what follows, and the puller's failures
	changed map[string]bool // large files that changed meanwhile
}

func (g *puller) fetchBase64(files []tree.Entry) error {
	var total int64
	for _, e := range files {
		total += e.Size
	}
	h, err := g.facts.hasher(total)
	if err != nil {
		return err
	}
	workers := g.session.Capabilities().MaxConcurrent
	if workers == 0 {
		workers = defaultConcurrent
	}
	p := &textPuller{puller: g, hasher: h, jobs: newJobs(g.ctx, workers), changed: map[string]bool{}}
	err = p.schedule(files, total/int64(workers))
	if werr := p.jobs.wait(); werr != nil {
		err = werr
	}
	return err
}

// budget is how many of so many bytes of content one command may print, in so
// many files.
func (p *textPuller) budget(n int64, files int) int64 {
	if p.opt.ChunkBytes > 0 {
		n = p.opt.ChunkBytes
	}
	if limit := p.session.MaxOutput(); limit > 0 {
		// The text is wrapped, at 76 columns or by CRLF, and digests follow.
		n = min(n, (limit-2048-int64(files)*70)/4*3*74/76)
	}
	return max(n, 1<<10)
}

// schedule cuts the work into commands. share is an even share for each worker.
func (p *textPuller) schedule(files []tree.Entry, share int64) error {
	var batch []tree.Entry
	var size, names int64
	flush := func() error {
		todo := batch
		batch, size, names = nil, 0, 0
		if len(todo) == 0 {
			return nil
		}
		return p.jobs.run(func(ctx context.Context) error { return p.batch(ctx, todo) })
	}
	for _, e := range files {
		budget := min(p.budget(pullBatch, len(batch)+1), max(share, 1<<20))
		if e.Size > budget {
			if err := p.pieces(e, min(p.budget(pullPiece, 1), max(share, 1<<20))); err != nil {
				return err
			}
			continue
		}
		if n := int64(len(e.Path)) + 8; size+e.Size > budget || names+n > pullNames {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, size, names = append(batch, e), size+e.Size, names+int64(len(e.Path))+8
	}
	return flush()
}

// compress is the argument of pack that decides whether the sandbox should.
func (p *textPuller) compress() string {
	if p.link.compress() {
		return "yes"
	}
	return "no"
}

// quoted are the names as words of the script.
func (p *textPuller) quoted(files []tree.Entry) string {
	var b []byte
	for _, e := range files {
		b = append(b, ' ')
		b = script.AppendQuoted(b, "./"+p.remoteName(e))
	}
	return string(b)
}

// batch fetches whole files. If they are not all as they were listed, halves
// of it are tried, down to the one that changed.
func (p *textPuller) batch(ctx context.Context, files []tree.Entry) error {
	err := p.tryBatch(ctx, files)
	var cut *script.CutError
	isCut := errors.As(err, &cut)
	if err == nil || !isCut && provider.KindOf(err) != provider.Integrity {
		return err
	}
	for _, e := range files {
		if err := p.stage.RemoveStaged(e.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if len(files) > 1 {
		p.log("batch of %d files, again in halves: %v", len(files), err)
		half := len(files) / 2
		if err := p.batch(ctx, files[:half]); err != nil {
			return err
		}
		return p.batch(ctx, files[half:])
	}
	if isCut { // even one file is too much at a time
		return p.inPieces(ctx, files[0], err)
	}
	return p.changing(ctx, files[0])
}

func (p *textPuller) tryBatch(ctx context.Context, files []tree.Entry) error {
	var size int64
	odd := false
	for _, e := range files {
		size += e.Size
		odd = odd || strings.ContainsAny(e.Path, "\n\r\\")
	}
	each := "$HASH \"$@\" | trim"
	if odd {
		each = "for f; do $HASH <\"$f\"; done | trim"
	}
	body := p.head() + "set --" + p.quoted(files) + "\ncat \"$@\" | pack " + p.compress() + "\n" + each + "\n"
	label := fmt.Sprintf("fetch %d files", len(files))
	return p.again(ctx, label, func(ctx context.Context) error {
		start := time.Now()
		return p.run(ctx, label, body, size, func(content io.Reader, sums func() ([]string, error)) error {
			local := make([]string, len(files))
			for i, e := range files {
				if err := p.receive(e, content, &local[i]); err != nil {
					return err
				}
			}
			if err := atEnd(content); err != nil {
				return err
			}
			p.link.measure(size, time.Since(start))
			remote, err := sums()
			if err != nil {
				return err
			}
			for i, e := range files {
				if len(remote) != len(files) || remote[i] != local[i] {
					return integrityError(fmt.Sprintf("%q: the digest differs from the sandbox's", e.Path))
				}
			}
			return nil
		}, files...)
	})
}

// head begins every script.
func (p *textPuller) head() string {
	pack := script.PackFunction
	if p.session.Streams() {
		pack = script.PassFunction
	}
	return "HASH=" + script.Quote(p.hasher.command) + "\ntrim() { " + p.hasher.trim + "; }\n" + pack +
		"cd -P -- " + script.Quote(p.dir) + " || die 81 'the directory is gone'\n"
}

// run runs a script whose reply is packed content and digests. Staged files
// are removed first, in case an earlier attempt left them.
func (p *textPuller) run(ctx context.Context, label, body string, size int64, read func(content io.Reader, sums func() ([]string, error)) error, files ...tree.Entry) error {
	for _, e := range files {
		if err := p.stage.RemoveStaged(e.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	_, err := p.session.Run(ctx, script.Script{Label: label, Body: body, Consume: func(reply io.Reader) error {
		content, rest, err := script.Unpack(reply, size)
		if err != nil {
			return malformed(label, err)
		}
		err = read(content, func() ([]string, error) {
			text, err := io.ReadAll(io.LimitReader(rest, 1<<20))
			return digestLines(text), err
		})
		if err == nil {
			_, err = io.Copy(io.Discard, rest)
		}
		return malformed(label, err)
	}})
	var cut *script.CutError
	if errors.As(err, &cut) && p.session.NoteCut(cut.Got) {
		return &overLimit{err}
	}
	var exit *script.ExitError
	if errors.As(err, &exit) && exit.Code != script.ExitGone {
		return integrityError(err.Error()) // a file vanished or can't be read: the halves will show which
	}
	return err
}

// overLimit marks a reply that was cut because it was longer than what the
// provider delivers: another attempt must ask for less.
type overLimit struct{ error }

func (o *overLimit) Unwrap() error { return o.error }

// Temporary is false: the same would happen again.
func (o *overLimit) Temporary() bool { return false }

// malformed marks errors of the reply's form as worth another attempt.
func malformed(label string, err error) error {
	if err == nil || provider.KindOf(err) != provider.Other || errors.Is(err, script.ErrCut) {
		return err
	}
	return &provider.Error{Kind: provider.Integrity, Op: label + ": malformed reply", Err: err}
}

func digestLines(text []byte) []string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line != "-" {
			lines = append(lines, line)
		}
	}
	return lines
}

func atEnd(r io.Reader) error {
	var b [1]byte
	if n, err := io.ReadFull(r, b[:]); n != 0 {
		return integrityError("more arrived than was listed")
	} else if err != io.EOF {
		return err
	}
	return nil
}

// receive writes one file of a batch.
func (p *textPuller) receive(e tree.Entry, content io.Reader, sum *string) error {
	f, err := p.stage.Create(e.Path)
	if err != nil {
		return err
	}
	w := &progressWriter{f: f, path: e.Path, at: &p.at, progress: p.progress, sum: (&digestList{hasher: p.hasher}).start()}
	n, err := io.CopyN(w, content, e.Size)
	if err != nil {
		f.Close()
		if w.err != nil {
			return p.stage.WriteError(e.Path, w.err)
		}
		if err == io.EOF {
			return integrityError(fmt.Sprintf("%q: received %d of %d bytes", e.Path, n, e.Size))
		}
		return err
	}
	*sum = strings.TrimSpace(digestLine(w.sum))
	p.progress(1, 0)
	return p.stage.FinishFile(f, e.Mode, e.Time)
}

// pieces fetches a large file with all workers.
func (p *textPuller) pieces(e tree.Entry, size int64) error {
	if size > pieceAlign {
		size -= size % pieceAlign
	}
	f, err := p.stage.Create(e.Path)
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
			p.progress(1, 0)
			return p.stage.FinishFile(f, e.Mode, e.Time)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inPieces fetches a file piece by piece, with the worker that found out that
// it is too large for one reply, from the error given.
func (p *textPuller) inPieces(ctx context.Context, e tree.Entry, cut error) error {
	f, err := p.stage.Create(e.Path)
	if err != nil {
		return err
	}
	if err := p.smaller(ctx, e, f, 0, e.Size, cut); err != nil {
		f.Close()
		return err
	}
	p.progress(1, 0)
	return p.stage.FinishFile(f, e.Mode, e.Time)
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
// to deliver less at a time.
func (p *textPuller) piece(ctx context.Context, e tree.Entry, f io.WriterAt, offset, n int64) error {
	label := fmt.Sprintf("piece of %.60q at %d", p.remoteName(e), offset)
	name := script.Quote("./" + p.remoteName(e))
	from := fmt.Sprintf("tail -c +%d -- %s | head -c %d", offset+1, name, n)
	if offset%pieceAlign == 0 {
		from = fmt.Sprintf("dd if=%s bs=%d skip=%d count=%d 2>/dev/null", name, pieceAlign, offset/pieceAlign, (n+pieceAlign-1)/pieceAlign)
		if n%pieceAlign != 0 {
			from += fmt.Sprintf(" | head -c %d", n)
		}
	}
	body := p.head() + "from() { " + from + "; }\nfrom | pack " + p.compress() + "\nfrom | $HASH | trim\n" +
		"stat -c '%s %Y' -- " + name + " 2>/dev/null || find " + name + " -prune -printf '%s %Ts\n' 2>/dev/null\n:\n"
	err := p.again(ctx, label, func(ctx context.Context) error {
		return p.run(ctx, label, body, n, func(content io.Reader, sums func() ([]string, error)) error {
			sum := (&digestList{hasher: p.hasher}).start()
			got, err := io.CopyN(io.MultiWriter(io.NewOffsetWriter(f, offset), sum), content, n)
			p.at.add(e.Path, offset, got)
			p.progress(0, got)
			if err == io.EOF {
				return integrityError(fmt.Sprintf("%s: received %d of %d bytes", label, got, n))
			}
			if err != nil {
				return p.stage.WriteError(e.Path, err)
			}
			if err := atEnd(content); err != nil {
				return err
			}
			remote, err := sums()
			if err == nil && (len(remote) == 0 || len(remote) > 2 || remote[0] != strings.TrimSpace(digestLine(sum))) {
				err = integrityError(label + ": the digest differs from the sandbox's")
			}
			if err == nil && len(remote) > 1 && remote[1] != fmt.Sprintf("%d %d", e.Size, e.Time.Sec) {
				p.noteChanged(e.Path)
			}
			return err
		})
	})
	var over *overLimit
	switch {
	case errors.As(err, &over):
		return p.smaller(ctx, e, f, offset, n, err)
	case provider.KindOf(err) == provider.Integrity && p.facts.tools["base64"]:
		return p.changingPiece(ctx, e, f, offset, n, from)
	}
	return err
}
