package transfer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tree"
)

// pieces sends a large file.
func (p *chunker) pieces(e tree.Entry) error {
	f, info := p.s.open(e)
	if f == nil {
		return nil
	}
	size := info.Size()
	if size == 0 { // it was large when it was listed
		f.Close()
		return p.add(e)
	}
	p.s.written++
	name := member(e.Path)
	var left atomic.Int64
	count := (size + p.sizes.piece - 1) / p.sizes.piece
	left.Store(count)
	pf := &piecedFile{f: f, size: size, name: name}
	done := func() {
		if left.Add(-1) == 0 {
			pf.after, _ = f.Stat()
			f.Close()
		}
	}
	compress := p.gzip && p.link.compress() && compressible(f, size)
	for i := range count {
		offset := i * p.sizes.piece
		n := min(p.sizes.piece, size-offset)
		err := p.run(func(ctx context.Context, enter string) error {
			defer done()
			return p.piece(ctx, enter, pf, offset, n, compress)
		})
		if err != nil {
			for ; offset < size; offset += p.sizes.piece {
				done() // those that nobody will send
			}
			return err
		}
	}
	p.jobs.then(func() { p.s.settle(e.Path, info, pf.after, false, pf.short, pf.err) })
	w := publisher{touchNs: p.c.facts.touchNs()}
	fmt.Fprintf(&p.finals, "%s %s && chmod %04o -- %s || die 86 'metadata cannot be set'\n", w.touch(timeOf(info)), shell.Quote(name), e.Mode, shell.Quote(name))
	return nil
}

// piecedFile is a large file on its way.
type piecedFile struct {
	f     *os.File
	size  int64
	name  string
	after fs.FileInfo // once all pieces are sent

	mu    sync.Mutex
	short bool
	err   error // of reading it
}

// broke takes note that a piece could not be read whole. It is made up for with
// zeros, and the file not published.
func (f *piecedFile) broke(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.short = true
	if f.err == nil && err != io.EOF {
		f.err = err
	}
}

// piece sends one piece and has it read back.
func (p *chunker) piece(ctx context.Context, enter string, f *piecedFile, offset, n int64, compress bool) error {
	label := fmt.Sprintf("piece of %s at %d", path.Base(f.name), offset)
	return p.c.again(ctx, label, func(ctx context.Context) error {
		sum := p.s.digests.start()
		section := io.NewSectionReader(f.f, offset, n)
		var input io.Reader
		unzip := ""
		if compress {
			buf := getBuffer()
			defer putBuffer(buf)
			if err := pack(buf, section, n, sum); err != nil {
				f.broke(err)
			}
			input, unzip = bytes.NewReader(buf.Bytes()), " | gzip -dc"
		} else {
			input = &hashedSection{SectionReader: section, want: n, sum: sum, broke: f.broke}
		}
		name := shell.Quote(f.name)
		seek := offset / pieceAlign
		block := int64(pieceAlign)
		if offset%pieceAlign != 0 { // pieces smaller than the alignment
			seek, block = offset/p.sizes.piece, p.sizes.piece
		}
		place := fmt.Sprintf("bs=%d seek=%d", block, seek)
		back := fmt.Sprintf("bs=%d skip=%d count=%d", block, seek, (n+block-1)/block)
		body := enter + "mkdir -p -- " + shell.Quote(path.Dir(f.name)) + "\n" +
			"e=$( { input \"$@\"" + unzip + " | dd of=" + name + " conv=notrunc " + place + "; } 2>&1 ) || die 83 \"$e\"\n" +
			"dd if=" + name + " " + back + " 2>/dev/null | $HASH | trim\n"
		reply, err := p.c.session.Run(ctx, script.Script{Label: label, Heartbeat: true, Body: body, Input: input})
		if err != nil {
			return err
		}
		if want := digestLine(sum); strings.TrimSpace(string(reply)) != strings.TrimSpace(want) {
			return integrityError(label + ": the digest differs from what was sent")
		}
		p.c.progress(0, n)
		return nil
	})
}

// hashedSection reads a section of a file, hashing it, and makes up for what
// the file has lost meanwhile with zeros.
type hashedSection struct {
	*io.SectionReader
	want, got int64
	sum       interface {
		io.Writer
		Reset()
	}
	broke func(error)
}

func (h *hashedSection) Read(p []byte) (int, error) {
	if h.got == h.want {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), h.want-h.got)]
	n, err := h.SectionReader.Read(p)
	if n == 0 && err != nil {
		h.broke(err)
		clear(p)
		n = len(p)
	}
	h.sum.Write(p[:n])
	h.got += int64(n)
	return n, nil
}

func (h *hashedSection) Seek(offset int64, whence int) (int64, error) {
	h.got = 0
	h.sum.Reset()
	return h.SectionReader.Seek(offset, whence)
}
