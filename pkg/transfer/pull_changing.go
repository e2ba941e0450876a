package transfer

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tree"
)

// A file of the sandbox that changes all the time never has the digest of what
// was just read of it. It is read once then, exactly as many bytes as were
// listed, and the digest is taken of the text that is sent: what arrives is what
// was read. What that is worth is told as a problem.

// errShort is a file that has fewer bytes than were listed, as the digest
// proves. Every other failure may be the transport's.
var errShort = errors.New("fewer bytes were there than were listed")

// changing fetches a small file that does not hold still.
func (p *textPuller) changing(ctx context.Context, e tree.Entry) error {
	from := fmt.Sprintf("head -c %d %s", e.Size, shell.Quote("./"+p.remoteName(e)))
	return p.noteFate(e, p.once(ctx, from, e.Size, func(content io.Reader) error {
		var sum string
		return p.receive(e, content, &sum)
	}, e))
}

// changingPiece fetches a piece of a large one. from is the command that prints
// it.
func (p *textPuller) changingPiece(ctx context.Context, e tree.Entry, f io.WriterAt, offset, n int64, from string) error {
	return p.noteFate(e, p.once(ctx, from, n, func(content io.Reader) error {
		w := &errorWriter{w: io.NewOffsetWriter(f, offset)}
		got, err := io.CopyN(w, content, n)
		switch {
		case w.err != nil:
			return p.writeError(e, w.err)
		case err == io.EOF:
			return integrityError(fmt.Sprintf("received %d of %d bytes", got, n))
		}
		return err
	}))
}

// once has n bytes printed together with the digest of their text.
func (p *textPuller) once(ctx context.Context, from string, n int64, write func(content io.Reader) error, files ...tree.Entry) error {
	const label = "fetch a changing file"
	body := p.head() + script.PackFunction + "t=$(" + from + " | text)\nprintf 'plain\\n%s\\n-\\n' \"$t\"\n" +
		"printf %s \"$t\" | tr -d '\\r\\n' | $HASH | trim\n"
	return p.again(ctx, label, func(ctx context.Context) error {
		return p.run(ctx, label, body, n, func(content io.Reader, sums func() ([]string, error)) error {
			t := &transit{content: content, sum: (&digestList{hasher: p.hasher}).start()}
			t.text = base64.NewEncoder(base64.StdEncoding, t.sum)
			werr := write(t)
			_, rerr := io.Copy(io.Discard, t)
			if werr != nil && t.err == nil && provider.KindOf(werr) != provider.Integrity {
				return werr
			}
			t.text.Close() // into a hash: cannot fail
			remote, err := sums()
			if err != nil {
				return err
			}
			if rerr != nil || t.got > n || len(remote) != 1 || remote[0] != strings.TrimSpace(digestLine(t.sum)) {
				return integrityError(label + ": the digest of what arrived differs from that of what was sent")
			}
			if werr != nil {
				return fmt.Errorf("%w: %w", errShort, werr)
			}
			return nil
		}, files...)
	})
}

// transit reads content and takes the digest of the text that it came as.
type transit struct {
	content io.Reader
	text    io.WriteCloser // into sum
	sum     hash.Hash
	got     int64
	err     error // of content, but for its end
}

func (t *transit) Read(p []byte) (int, error) {
	n, err := t.content.Read(p)
	t.text.Write(p[:n]) // into a hash: cannot fail
	t.got += int64(n)
	if err != nil && err != io.EOF {
		t.err = err
	}
	return n, err
}

// noteFate reports, once, how a file fared that is not what was listed: pieces
// of different versions don't make a file, and one that shrank is none.
func (p *textPuller) noteFate(e tree.Entry, err error) error {
	if err == nil {
		p.noteChanged(e.Path)
		return nil
	}
	if !errors.Is(err, errShort) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.failed[e.Path] {
		p.fail(e.Path, fmt.Errorf("%w, or it can't be read: %w", errShrunk, err))
	}
	return nil
}

func (p *textPuller) noteChanged(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(path)
}

// errVanished is a file that could be listed, but not read.
var errVanished = errors.New("it is gone, or may not be read")

// vanish takes note, once, of a file that cannot be read any more.
func (p *textPuller) vanish(e tree.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.failed[e.Path] {
		p.fail(e.Path, errVanished)
	}
}

// isFailed says whether a file was given up.
func (p *textPuller) isFailed(e tree.Entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed[e.Path]
}
