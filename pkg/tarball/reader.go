package tarball

import (
	"fmt"
	"io"
	"strings"
)

// ReaderOptions says where an archive ends and how large it may be. A limit of
// 0 is no limit, except for MaxPath; the reader's memory does not depend on
// them. What exceeds a limit is refused before its content is read.
type ReaderOptions struct {
	// Trailer begins the line that ends the stream. With it the stream may
	// hold any number of archives one after the other, none included, and
	// nothing is waited for beyond what the line takes. It must be something
	// that no member's name begins with, random for instance, without newlines
	// and NULs, and short enough for a line of MaxTrailer bytes.
	//
	// Without it the stream holds one archive and then ends.
	Trailer string

	MaxMembers int64 // number of members
	MaxTotal   int64 // bytes of all contents together
	MaxFile    int64 // bytes of one content
	MaxPath    int   // bytes of a name or link; 0 is DefaultMaxPath
}

const (
	// MaxTrailer is the longest trailer line in bytes, without its newline.
	MaxTrailer = 256
	// DefaultMaxPath is Linux's PATH_MAX, which counts a NUL.
	DefaultMaxPath = 4095
)

// Reader reads archives that a sandbox sent. It remembers no members: whether
// one was asked for, comes twice, or is what a hard link claims, is for the
// caller to check. After an error every call returns that error. A Reader is
// not safe for concurrent use.
type Reader struct {
	in      input
	opt     ReaderOptions
	err     error
	trailer string

	name      string // of the current member
	remaining int64  // bytes of content to come
	pad       int64  // and of padding after them

	started bool      // a header came
	members int64     // so far
	total   int64     // bytes of their contents
	ext     extension // records for the member to come
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader, opt ReaderOptions) *Reader {
	if opt.MaxPath == 0 {
		opt.MaxPath = DefaultMaxPath
	}
	reader := &Reader{in: input{src: r, buf: make([]byte, readBuffer)}, opt: opt}
	if strings.ContainsAny(opt.Trailer, "\n\x00") || len(opt.Trailer) > MaxTrailer {
		reader.err = fmt.Errorf("read archive: trailer %q cannot be found", opt.Trailer)
	}
	return reader
}

// Next skips what is left of the current member and returns the next one's
// header. A leading "./" and a directory's trailing "/" are taken off names.
//
// The error is io.EOF only at the proper end: after the end blocks, and the
// trailer line or, without one, the end of the stream. Every other error means
// that the stream must not be trusted to be complete, whatever came before: a
// *[FormatError], or the stream's own.
func (r *Reader) Next() (Header, error) {
	if r.err != nil {
		return Header{}, r.err
	}
	h, err := r.next()
	if err != nil {
		r.err = err
		return Header{}, err
	}
	r.name, r.remaining, r.pad = h.Name, h.Size, padding(h.Size)
	return h, nil
}

// Trailer returns what followed ReaderOptions.Trailer on its line. It is set
// as soon as the line was read, which may be without an io.EOF: the sandbox's
// tar can fail and leave an archive cut short before the trailer.
func (r *Reader) Trailer() string { return r.trailer }

// Read reads the current member's content; io.EOF is its end.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.remaining == 0 {
		return 0, io.EOF
	}
	n, err := r.in.read(p[:min(int64(len(p)), r.remaining)])
	r.remaining -= int64(n)
	if err != nil {
		r.err = r.cut(err)
	}
	return n, r.err
}

// WriteTo writes what is left of the current member's content to w. After an
// error of w, which is returned as it is, reading can go on.
func (r *Reader) WriteTo(w io.Writer) (int64, error) {
	var written int64
	for r.err == nil && r.remaining > 0 {
		if err := r.in.fill(1); err != nil {
			r.err = r.cut(err)
			break
		}
		b := r.in.bytes()
		b = b[:min(int64(len(b)), r.remaining)]
		n, err := w.Write(b)
		r.in.advance(n)
		r.remaining -= int64(n)
		written += int64(n)
		if err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return written, err
		}
	}
	if r.err == io.EOF {
		return written, nil
	}
	return written, r.err
}

func (r *Reader) next() (Header, error) {
	if err := r.in.discard(r.remaining + r.pad); err != nil {
		return Header{}, r.cut(err)
	}
	r.name, r.remaining, r.pad = "", 0, 0
	r.ext.reset()
	for {
		if err := r.boundary(); err != nil {
			return Header{}, err
		}
		b, err := r.header()
		if err != nil {
			return Header{}, err
		}
		if !isExtension(b.flag) {
			return r.member(b)
		}
		if err := r.extend(b); err != nil {
			return Header{}, err
		}
	}
}

// fault returns a FormatError at the current place.
func (r *Reader) fault(kind error, format string, args ...any) error {
	return &FormatError{Offset: r.in.off, Name: r.name, Reason: fmt.Sprintf(format, args...), Err: kind}
}

// cut turns an error of the stream into one of the archive.
func (r *Reader) cut(err error) error {
	if err == io.EOF {
		return r.fault(io.ErrUnexpectedEOF, "the stream ended")
	}
	return fmt.Errorf("read archive: %w", err)
}
