package tarball

import "io"

// readBuffer is how much of an archive is read at once. A pipe holds 64 KiB
// on Linux; a file or a socket may deliver more.
const readBuffer = 256 << 10

// input is a buffer over the stream that never waits for more bytes than it
// was asked for.
type input struct {
	src    io.Reader
	buf    []byte
	lo, hi int   // what is buffered
	off    int64 // of buf[lo] in the stream
	err    error // of src, due once the buffer is empty
}

// bytes returns what is buffered, valid until the next call.
func (in *input) bytes() []byte { return in.buf[in.lo:in.hi] }

// advance takes n buffered bytes.
func (in *input) advance(n int) {
	in.lo += n
	in.off += int64(n)
}

// fill waits until at least n bytes are buffered; n is at most readBuffer. Its
// error is the stream's, io.EOF included.
func (in *input) fill(n int) error {
	if in.lo == in.hi {
		in.lo, in.hi = 0, 0
	} else if in.lo+n > len(in.buf) {
		in.hi = copy(in.buf, in.bytes())
		in.lo = 0
	}
	for in.hi-in.lo < n {
		if in.err != nil {
			return in.err
		}
		var m int
		m, in.err = readSome(in.src, in.buf[in.hi:])
		in.hi += m
	}
	return nil
}

// read is io.Reader's Read. Large reads go past the buffer.
func (in *input) read(p []byte) (int, error) {
	if in.lo == in.hi && len(p) >= len(in.buf) && in.err == nil {
		var n int
		n, in.err = readSome(in.src, p)
		in.off += int64(n)
		if n > 0 {
			return n, nil
		}
	}
	if err := in.fill(1); err != nil {
		return 0, err
	}
	n := copy(p, in.bytes())
	in.advance(n)
	return n, nil
}

// discard skips n bytes of the stream.
func (in *input) discard(n int64) error {
	for n > 0 {
		if err := in.fill(1); err != nil {
			return err
		}
		m := min(n, int64(in.hi-in.lo))
		in.advance(int(m))
		n -= m
	}
	return nil
}

// maxIdleReads is how often a reader may deliver nothing and no error in a
// row; bufio has the same number.
const maxIdleReads = 100

// readSome reads until there is a byte or an error.
func readSome(r io.Reader, p []byte) (int, error) {
	for range maxIdleReads {
		if n, err := r.Read(p); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}
