package providertest

import (
	"bytes"
	"strconv"
)

// cutter finds the point of a [Cut] in a stream that comes in pieces.
type cutter struct {
	cut  Cut
	seen int64
	done bool

	// Of a tar stream. It stops being looked at (opaque) at its end, and where
	// it is no tar stream.
	opaque  bool
	header  []byte // as much of the next header as was seen
	skip    int64  // bytes of content and padding until the next header
	stop    int64  // if more than 0, bytes until the cut
	members int    // seen completely
	inside  bool   // skip belongs to a member, not to an extension of one
}

const blockSize = 512

// pass returns how many bytes of p come before the cut.
func (c *cutter) pass(p []byte) int {
	if c.done {
		return 0
	}
	n := len(p)
	if c.cut.Bytes > 0 && c.seen+int64(n) >= c.cut.Bytes {
		n, c.done = int(c.cut.Bytes-c.seen), true
	} else if c.cut.Bytes <= 0 {
		n = c.passTar(p)
	}
	c.seen += int64(n)
	return n
}

func (c *cutter) passTar(p []byte) int {
	at := 0
	for at < len(p) && !c.opaque {
		if c.skip == 0 {
			n := min(blockSize-len(c.header), len(p)-at)
			c.header = append(c.header, p[at:at+n]...)
			at += n
			if len(c.header) == blockSize {
				c.readHeader()
				c.header = c.header[:0]
			}
		} else {
			n := min(c.skip, int64(len(p)-at))
			if c.stop > 0 && n >= c.stop {
				c.done = true
				return at + int(c.stop)
			}
			if c.stop > 0 {
				c.stop -= n
			}
			c.skip -= n
			at += int(n)
		}
		if c.skip == 0 && len(c.header) == 0 && c.inside {
			c.inside = false
			c.members++
			if c.members == c.cut.Members {
				c.done = true
				return at
			}
		}
	}
	return len(p)
}

// readHeader decides what comes after the header block that was just seen.
func (c *cutter) readHeader() {
	size, ok := tarSize(c.header)
	if !ok {
		c.opaque = true
		return
	}
	c.skip = (size + blockSize - 1) / blockSize * blockSize
	switch c.header[156] {
	case 'x', 'g', 'L', 'K':
		return // an extension; the member itself follows
	}
	c.inside = true
	if c.cut.Inside > 0 && c.members >= c.cut.Inside-1 && size > 1 {
		c.stop = size / 2
	}
}

// tarSize returns the size field of a header whose checksum is right.
func tarSize(h []byte) (int64, bool) {
	sum := 8 * int64(' ')
	for i, b := range h {
		if i < 148 || i >= 156 {
			sum += int64(b)
		}
	}
	if want, ok := tarOctal(h[148:156]); !ok || want != sum {
		return 0, false
	}
	field := h[124:136]
	if field[0]&0x80 == 0 {
		n, ok := tarOctal(field)
		return n, ok && n >= 0
	}
	var n int64 // GNU's base 256
	for i, b := range field {
		if i == 0 {
			b &= 0x7f
		}
		n = n<<8 | int64(b)
	}
	return n, n >= 0 && n < 1<<60 // more would overflow when rounded up
}

func tarOctal(field []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(bytes.Trim(field, " \x00")), 8, 64)
	return n, err == nil
}
