package tarball

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/sbsync/sbsync/pkg/tree"
)

// maxExtension bounds what may precede one member: the headers of records and
// their contents, in bytes. Real ones take a few KiB; archive/tar allows as
// much for one record.
const maxExtension = 1 << 20

// extension is what the records before a member say of it. Texts are empty,
// and the size is -1, where nothing was said.
type extension struct {
	used               int64  // bytes of the stream
	content            []byte // of the record being read; kept for reuse
	longName, longLink string // GNU
	pax                bool   // there was a PAX record
	path, linkPath     string
	size               int64
	time               tree.Time
	hasTime            bool
}

func (e *extension) reset() { *e = extension{content: e.content, size: -1} }

// isExtension says whether members with the flag describe other members.
func isExtension(flag byte) bool {
	switch flag {
	case flagLongName, flagLongLink, flagPAX, flagPAXGlobal:
		return true
	}
	return false
}

// extend reads the record that b is the header of. A second record of a kind
// is refused, since tars differ in which of them counts.
func (r *Reader) extend(b header) error {
	e := &r.ext
	if b.size > maxExtension || e.used+blockSize+b.size > maxExtension {
		return r.refuse(b, nil, "extended headers of more than %d bytes", maxExtension)
	}
	e.used += blockSize + b.size
	if err := r.readRecord(b.size); err != nil {
		return err
	}
	switch b.flag {
	case flagLongName:
		return r.longText(b, &e.longName)
	case flagLongLink:
		return r.longText(b, &e.longLink)
	case flagPAX:
		if e.pax {
			return r.refuse(b, nil, "two PAX headers for one member")
		}
		e.pax = true
		return r.paxRecords(b, r.paxLocal)
	}
	return r.paxRecords(b, r.paxGlobal)
}

// readRecord reads a record's content into r.ext.content.
func (r *Reader) readRecord(size int64) error {
	e := &r.ext
	e.content = slices.Grow(e.content[:0], int(size))[:size]
	for p := e.content; len(p) > 0; {
		n, err := r.in.read(p)
		if err != nil {
			return r.cut(err)
		}
		p = p[n:]
	}
	if err := r.in.discard(padding(size)); err != nil {
		return r.cut(err)
	}
	return nil
}

// longText takes a GNU record, a text with or without a NUL at its end.
func (r *Reader) longText(b header, dst *string) error {
	text := bytes.TrimRight(r.ext.content, "\x00")
	switch {
	case *dst != "":
		return r.refuse(b, nil, "two %q records for one member", b.flag)
	case len(text) == 0:
		return r.refuse(b, nil, "empty %q record", b.flag)
	case bytes.IndexByte(text, 0) >= 0:
		return r.refuse(b, nil, "NUL byte in a %q record", b.flag)
	}
	*dst = string(text)
	return nil
}

// paxRecords gives each record of a PAX header to take, which says why it
// refuses one.
func (r *Reader) paxRecords(b header, take func(key string, value []byte) string) error {
	for rest := r.ext.content; len(rest) > 0; {
		key, value, next, ok := nextPAX(rest)
		if !ok {
			return &FormatError{Offset: b.offset, Reason: "malformed PAX record", Err: ErrCorrupt}
		}
		if bytes.HasPrefix(key, []byte(paxSparse)) {
			return r.refuse(b, nil, "sparse file")
		}
		if reason := take(string(key), value); reason != "" {
			return r.refuse(b, nil, "PAX record %.64q: %s", key, reason)
		}
		rest = next
	}
	return nil
}

// paxGlobal looks at a record for all members to come. None is of use here; a
// comment, as git writes it, or a time do no harm.
func (r *Reader) paxGlobal(key string, _ []byte) string {
	switch key {
	case paxPath, paxLinkPath, paxSize:
		return "not allowed for all members"
	}
	return ""
}

// paxLocal takes a record for the next member. The last one of a key counts,
// one without a value says nothing, and unknown ones are ignored (POSIX).
func (r *Reader) paxLocal(key string, value []byte) string {
	if len(value) == 0 {
		return ""
	}
	e, ok := &r.ext, true
	switch key {
	case paxPath, paxLinkPath:
		if bytes.IndexByte(value, 0) >= 0 {
			return "NUL byte"
		}
		if key == paxPath {
			e.path = string(value)
		} else {
			e.linkPath = string(value)
		}
	case paxSize:
		e.size, ok = parseSize(string(value))
	case paxTime:
		e.time, ok = parseDecimal(string(value))
		e.hasTime = true
	}
	if !ok {
		return "not a number that is in range"
	}
	return ""
}

func parseSize(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && isDigits(s) && n <= maxSize
}

// apply lays what the records say over h. It fails where GNU and PAX records
// disagree, since tars differ in which of them counts.
func (e *extension) apply(h *Header) bool {
	if e.longName != "" && e.path != "" && e.longName != e.path ||
		e.longLink != "" && e.linkPath != "" && e.longLink != e.linkPath {
		return false
	}
	if name := cmp.Or(e.longName, e.path); name != "" {
		h.Name = name
	}
	if link := cmp.Or(e.longLink, e.linkPath); link != "" {
		h.Link = link
	}
	if e.size >= 0 {
		h.Size = e.size
	}
	if e.hasTime {
		h.Time = e.time
	}
	return true
}
