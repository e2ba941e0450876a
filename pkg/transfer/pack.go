package transfer

import (
	"bytes"
	"hash"
	"io"
	"os"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// buffers are for packed chunks; few are in use at a time.
var buffers = sync.Pool{New: func() any {
	b := new(bytes.Buffer)
	b.Grow(maxPlain + 64<<10)
	return b
}}

func getBuffer() *bytes.Buffer {
	b := buffers.Get().(*bytes.Buffer)
	b.Reset()
	return b
}

func putBuffer(b *bytes.Buffer) { buffers.Put(b) }

var zippers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a valid constant
	}
	return z
}}

// gzipper compresses, or passes through where the other side can't expand.
type gzipper struct {
	w   io.Writer
	zip *gzip.Writer
}

func newGzipper(w io.Writer, compress bool) *gzipper {
	g := &gzipper{w: w}
	if compress {
		g.zip = zippers.Get().(*gzip.Writer)
		g.zip.Reset(w)
	}
	return g
}

func (g *gzipper) Write(p []byte) (int, error) {
	if g.zip == nil {
		return g.w.Write(p)
	}
	return g.zip.Write(p)
}

// Flush makes all that was written visible in the destination.
func (g *gzipper) Flush() error {
	if g.zip == nil {
		return nil
	}
	return g.zip.Flush()
}

func (g *gzipper) Close() error {
	if g.zip == nil {
		return nil
	}
	err := g.zip.Close()
	zippers.Put(g.zip)
	g.zip = nil
	return err
}

// pack compresses n bytes of r into buf, hashing them. The error is r's, io.EOF
// if it has less; what is missing is made up for with zeros.
func pack(buf *bytes.Buffer, r io.Reader, n int64, sum hash.Hash) error {
	z := newGzipper(buf, true)
	defer z.Close() // into memory: cannot fail, like the writes
	w := io.MultiWriter(z, sum)
	got, err := io.CopyN(w, r, n)
	if got < n {
		io.CopyN(w, zeros{}, n-got)
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// compressible looks at three places of a file and says whether compression
// makes it at least a tenth smaller.
func compressible(f *os.File, size int64) bool {
	const sample = 32 << 10
	var packed bytes.Buffer
	z := newGzipper(&packed, true)
	raw := int64(0)
	for _, at := range []int64{0, size / 2, max(size-sample, 0)} {
		n, _ := io.Copy(z, io.NewSectionReader(f, at, sample))
		raw += n
	}
	z.Close() // into memory: cannot fail
	return int64(packed.Len()) < raw*9/10
}
