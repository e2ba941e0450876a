package script

import (
	"encoding/base64"
	"io"
)

// encoder reads another reader's bytes as base64 text. It is an io.Seeker for
// the start only, which is what a repeated command needs.
type encoder struct {
	src  io.ReadSeeker
	tail string // follows the text: a sentinel where end-of-file gets lost
	cols int    // line length; 0 means one line
	raw  []byte // whole triples, but for the end of src
	out  []byte // encoded, not yet read
	buf  []byte
	done bool
	pos  int64 // of the text, read so far
}

// encodeBlock is how much is encoded at a time; a multiple of 3, and with cols
// of the encoded lines.
const encodeBlock = 192 << 10

func newEncoder(src io.ReadSeeker, sentinel bool) *encoder {
	e := &encoder{src: src, raw: make([]byte, encodeBlock)}
	if sentinel {
		// Twice: BusyBox's sed reads one line ahead before it looks at one, and
		// would wait for ever for a line after the sentinel.
		e.cols, e.tail = encodeBlock/3*4, "\n.\n.\n"
	}
	return e
}

func (e *encoder) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if e.done {
			return 0, io.EOF
		}
		if err := e.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	e.pos += int64(n)
	return n, nil
}

func (e *encoder) fill() error {
	n, err := io.ReadFull(e.src, e.raw)
	e.buf = base64.StdEncoding.AppendEncode(e.buf[:0], e.raw[:n])
	switch err {
	case nil:
		if e.cols > 0 {
			e.buf = append(e.buf, '\n')
		}
	case io.EOF, io.ErrUnexpectedEOF:
		e.done = true
		e.buf = append(e.buf, e.tail...)
	default:
		return err
	}
	e.out = e.buf
	return nil
}

// WriteTo encodes everything that was not read yet into w.
func (e *encoder) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		if len(e.out) > 0 {
			n, err := w.Write(e.out)
			total += int64(n)
			e.pos += int64(n)
			e.out = e.out[n:]
			if err != nil {
				return total, err
			}
		}
		if e.done {
			return total, nil
		}
		if err := e.fill(); err != nil {
			return total, err
		}
	}
}

// Seek goes back to the start, or tells where it is.
func (e *encoder) Seek(offset int64, whence int) (int64, error) {
	if offset == 0 && whence == io.SeekCurrent {
		return e.pos, nil
	}
	if offset != 0 || whence != io.SeekStart {
		return 0, errSeek
	}
	if _, err := e.src.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	e.out, e.done, e.pos = nil, false, 0
	return 0, nil
}
