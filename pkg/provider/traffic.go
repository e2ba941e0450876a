package provider

import (
	"io"
	"sync/atomic"
)

// traffic counts the bytes of calls: in to the sandbox, and out of it.
type traffic struct{ in, out atomic.Int64 }

// command returns cmd with its streams counted.
func (t *traffic) command(cmd Command) Command {
	if cmd.Stdin != nil {
		cmd.Stdin = t.reader(cmd.Stdin)
	}
	if cmd.Stdout != nil {
		cmd.Stdout = t.writer(cmd.Stdout)
	}
	return cmd
}

// result counts the output that came in res, not through a writer.
func (t *traffic) result(res Result) { t.out.Add(int64(len(res.Stdout) + len(res.Stderr))) }

// files returns files with what is read of them counted.
func (t *traffic) files(files []PutFile) []PutFile {
	counted := make([]PutFile, len(files))
	for i, f := range files {
		counted[i] = f
		counted[i].Open = func() (io.ReadCloser, error) {
			r, err := f.Open()
			if err != nil {
				return nil, err
			}
			return struct {
				io.Reader
				io.Closer
			}{t.reader(r), r}, nil
		}
	}
	return counted
}

func (t *traffic) reader(r io.Reader) io.Reader { return countedReader{r, &t.in} }
func (t *traffic) writer(w io.Writer) io.Writer { return countedWriter{w, &t.out} }

type countedReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// WriteTo lets a source that writes itself do so.
func (c countedReader) WriteTo(w io.Writer) (int64, error) {
	return relay(countedWriter{w, c.n}, c.r)
}

// relay copies from a wrapped source to dst, which does what the wrapper does for
// each piece. A source that is an io.WriterTo writes straight to it, without a
// buffer in between.
func relay(dst io.Writer, source io.Reader) (int64, error) {
	if wt, ok := source.(io.WriterTo); ok {
		return wt.WriteTo(dst)
	}
	var n int64
	buf := make([]byte, relayBuffer)
	for {
		got, err := source.Read(buf)
		if got > 0 {
			put, werr := dst.Write(buf[:got])
			n += int64(put)
			if werr != nil {
				return n, werr
			}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// relayBuffer is as long as what drivers read at a time.
const relayBuffer = 256 << 10

type countedWriter struct {
	w io.Writer
	n *atomic.Int64
}

func (c countedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n.Add(int64(n))
	return n, err
}
