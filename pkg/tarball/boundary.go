package tarball

import (
	"bytes"
	"io"
)

const (
	// endSize is the length of the two zero blocks that end an archive.
	endSize = 2 * blockSize
	// maxZeros is the longest run of zeros between members. GNU tar fills
	// archives up to 10 KiB by default, and many empty ones may follow each
	// other.
	maxZeros = 16 << 20
)

// boundary reads up to the next header. Its error is io.EOF at the proper end.
func (r *Reader) boundary() error {
	zeros, err := r.skipZeros()
	if err == io.EOF {
		return r.endOfStream(zeros)
	}
	if err != nil {
		return r.cut(err)
	}
	if zeros > maxZeros {
		return r.fault(ErrHostile, "more than %d zero bytes between members", maxZeros)
	}
	found, err := r.findTrailer()
	switch {
	case err != nil:
		return err
	case found:
		return r.endAtTrailer(zeros)
	case zeros == 0:
		return nil
	case zeros%blockSize != 0:
		return r.fault(ErrCorrupt, "neither a header nor the trailer")
	case r.ext.used > 0:
		return r.fault(ErrCorrupt, "extended header without a member")
	case r.started && zeros < endSize:
		return r.fault(ErrCorrupt, "single zero block between members")
	case r.opt.Trailer == "":
		return r.fault(ErrCorrupt, "data after the end of the archive")
	}
	return nil
}

// skipZeros reads up to the first byte that is not zero, or over more than
// maxZeros. The error is the stream's.
func (r *Reader) skipZeros() (int64, error) {
	zeros := int64(0)
	for zeros <= maxZeros {
		if err := r.in.fill(1); err != nil {
			return zeros, err
		}
		b := r.in.bytes()
		n := len(b) - len(bytes.TrimLeft(b, "\x00"))
		r.in.advance(n)
		zeros += int64(n)
		if n < len(b) {
			break
		}
	}
	return zeros, nil
}

// endOfStream judges an end of the stream after a run of zeros.
func (r *Reader) endOfStream(zeros int64) error {
	switch {
	case r.opt.Trailer != "":
		return r.fault(io.ErrUnexpectedEOF, "the stream ended before the trailer")
	case zeros < endSize:
		return r.fault(io.ErrUnexpectedEOF, "the stream ended before the end of the archive")
	case r.ext.used > 0:
		return r.fault(ErrCorrupt, "extended header without a member")
	}
	return io.EOF
}

// endAtTrailer judges a trailer after a run of zeros.
func (r *Reader) endAtTrailer(zeros int64) error {
	switch {
	case r.started && zeros < endSize:
		return r.fault(io.ErrUnexpectedEOF, "the trailer came before the end of the archive")
	case r.ext.used > 0:
		return r.fault(ErrCorrupt, "extended header without a member")
	}
	return io.EOF
}

// findTrailer looks for the trailer line and reads it. A header is longer than
// what it waits for.
func (r *Reader) findTrailer() (bool, error) {
	want := []byte(r.opt.Trailer)
	if len(want) == 0 {
		return false, nil
	}
	newline := 0
	switch r.in.bytes()[0] {
	case '\n':
		newline = 1
	case want[0]:
	default:
		return false, nil
	}
	if err := r.in.fill(newline + len(want)); err != nil {
		return false, r.cut(err)
	}
	if !bytes.HasPrefix(r.in.bytes()[newline:], want) {
		return false, nil
	}
	r.in.advance(newline)
	return true, r.readTrailer()
}

// readTrailer reads the trailer line, waiting for no byte beyond it.
func (r *Reader) readTrailer() error {
	for {
		b := r.in.bytes()
		end := bytes.IndexByte(b[:min(len(b), MaxTrailer+1)], '\n')
		if end >= 0 {
			r.trailer = string(b[len(r.opt.Trailer):end])
			r.in.advance(end + 1)
			return nil
		}
		if len(b) > MaxTrailer {
			return r.fault(ErrCorrupt, "trailer line of more than %d bytes", MaxTrailer)
		}
		if err := r.in.fill(len(b) + 1); err != nil {
			return r.cut(err)
		}
	}
}
