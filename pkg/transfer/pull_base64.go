package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/shell"
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
	hasher hasher
	jobs   *jobs
	link   link
	mu     sync.Mutex // guards open, and the puller's failures and changes
	open   []*os.File // of files that are not finished
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
	p := &textPuller{puller: g, hasher: h, jobs: newJobs(g.ctx, workers)}
	err = p.schedule(files, total/int64(workers))
	if werr := p.jobs.wait(); werr != nil {
		err = werr
	}
	for _, f := range p.open {
		f.Close() // that of a finished one is closed
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
	var size int64
	names := 0
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
		n := shell.QuotedLen(p.remoteName(e)) + 3
		if size+e.Size > budget || names+n > min(pullNames, p.session.MaxBody()/2) {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, size, names = append(batch, e), size+e.Size, names+n
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
		b = shell.AppendQuoted(b, "./"+p.remoteName(e))
	}
	return string(b)
}

// batch fetches whole files. If they are not all as they were listed, halves
// of it are tried, down to the one that changed.
func (p *textPuller) batch(ctx context.Context, files []tree.Entry) error {
	err := p.tryBatch(ctx, files)
	var cut *script.CutError
	isCut := errors.As(err, &cut)
	if err == nil || !isCut && !isVanished(err) && provider.KindOf(err) != provider.Integrity {
		return err
	}
	if rerr := p.unstage(files...); rerr != nil {
		return rerr
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
	if isVanished(err) {
		p.vanish(files[0])
		return nil
	}
	return p.changing(ctx, files[0])
}

// unstage takes files out of the staged tree that an attempt may have left.
func (p *textPuller) unstage(files ...tree.Entry) error {
	for _, e := range files {
		if err := p.stage.RemoveStaged(e.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
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
	body := p.head() + "set --" + p.quoted(files) + "\nfor f; do readable \"$f\"; done\ncat \"$@\" | pack " + p.compress() + "\n" + each + "\n"
	label := fmt.Sprintf("fetch %d files", len(files))
	return p.again(ctx, label, func(ctx context.Context) error {
		start := time.Now()
		err := p.run(ctx, label, body, size, func(content io.Reader, sums func() ([]string, error)) error {
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
		var cut *script.CutError
		if len(files) > 1 && provider.KindOf(err) == provider.Integrity && !errors.As(err, &cut) {
			return final(err) // the halves show more than the same again
		}
		return err
	})
}

// head begins every script.
func (p *textPuller) head() string {
	pack := script.PackFunction
	if p.session.Streams() {
		pack = script.PassFunction
	}
	return "HASH=" + shell.Quote(p.hasher.command) + "\ntrim() { " + p.hasher.trim + "; }\n" + pack +
		"readable() { [ -f \"$1\" ] && [ -r \"$1\" ] || die 90 \"$1 is gone, or may not be read\"; }\n" +
		"cd -P -- " + shell.Quote(p.dir) + " || die 81 'the directory is gone'\n"
}

// run runs a script whose reply is packed content and digests. Staged files
// are removed first, in case an earlier attempt left them.
func (p *textPuller) run(ctx context.Context, label, body string, size int64, read func(content io.Reader, sums func() ([]string, error)) error, files ...tree.Entry) error {
	if err := p.unstage(files...); err != nil {
		return err
	}
	_, err := p.session.Run(ctx, script.Script{Label: label, Body: body, Consume: func(reply io.Reader) error {
		content, rest, err := script.Unpack(reply, size)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			// If the script ended with an error, that tells more.
			return &provider.Error{Kind: provider.Integrity, Op: label, Err: fmt.Errorf("no content came: %w", script.ErrCut)}
		}
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
	if errors.As(err, &exit) && exit.Code != script.ExitGone && exit.Code != script.ExitVanished {
		return integrityError(err.Error())
	}
	return err
}

// isVanished says that a script could not read one of its files.
func isVanished(err error) bool {
	var exit *script.ExitError
	return errors.As(err, &exit) && exit.Code == script.ExitVanished
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
