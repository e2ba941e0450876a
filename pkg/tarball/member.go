package tarball

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/tree"
)

// maxSize is the largest content that is believed; it leaves room for adding
// the padding.
const maxSize = math.MaxInt64 - blockSize

// header is a parsed header block. Its slices are valid until the next read.
type header struct {
	offset             int64 // in the stream
	flag               byte
	prefix, name, link []byte
	mode, size, sec    int64
}

// header reads and parses a header block.
func (r *Reader) header() (header, error) {
	if err := r.in.fill(blockSize); err != nil {
		return header{}, r.cut(err)
	}
	b := r.in.bytes()[:blockSize]
	h, reason := parseHeader(b)
	if reason != "" {
		return header{}, r.fault(ErrCorrupt, "%s", reason)
	}
	if h.size < 0 || h.size > maxSize {
		r.name = string(h.name)
		return header{}, r.fault(ErrHostile, "size of %d bytes", h.size)
	}
	h.offset = r.in.off
	r.in.advance(blockSize)
	r.started = true
	return h, nil
}

// parseHeader parses a header block, or says why it is not one.
func parseHeader(b []byte) (h header, reason string) {
	sum, ok := parseNumber(b[offChecksum : offChecksum+lenChecksum])
	if unsigned, signed := checksums(b); !ok || sum != unsigned && sum != signed {
		return h, "header checksum does not match"
	}
	var okMode, okSize, okTime bool
	h.mode, okMode = parseNumber(b[offMode : offMode+lenMode])
	h.size, okSize = parseNumber(b[offSize : offSize+lenSize])
	h.sec, okTime = parseNumber(b[offTime : offTime+lenTime])
	switch {
	case !okMode:
		return h, "malformed mode"
	case !okSize:
		return h, "malformed size"
	case !okTime:
		return h, "malformed time"
	}
	h.flag = b[offType]
	h.name = parseString(b[offName : offName+lenName])
	h.link = parseString(b[offLink : offLink+lenLink])
	// GNU tar keeps other things in the place of the prefix, and star in the
	// last bytes of it.
	if bytes.HasPrefix(b[offMagic:], []byte(magicUSTAR)) {
		if string(b[offStar:offStar+lenStar]) == "tar\x00" {
			return h, "star archives are not supported"
		}
		h.prefix = parseString(b[offPrefix : offPrefix+lenPrefix])
	}
	return h, ""
}

// member checks a member's header and the records before it.
func (r *Reader) member(b header) (Header, error) {
	h := Header{Mode: uint32(b.mode & 0o7777), Size: b.size, Time: tree.Time{Sec: b.sec}}
	h.Name = memberName(b.prefix, b.name)
	h.Link = string(b.link)
	consistent := r.ext.apply(&h)
	r.name = h.Name
	if !consistent {
		return h, r.refuse(b, nil, "GNU and PAX records disagree")
	}
	typ, reason := memberType(b.flag, h.Name)
	if reason != "" {
		return h, r.refuse(b, special(b.flag), "%s", reason)
	}
	h.Type = typ
	if err := r.checkNames(b, &h); err != nil {
		return h, err
	}
	if h.Type != RegularFile && h.Size != 0 {
		return h, r.refuse(b, nil, "%s with a size of %d bytes", h.Type, h.Size)
	}
	return h, r.count(b, h)
}

// memberName joins the name fields.
func memberName(prefix, name []byte) string {
	if len(prefix) == 0 {
		return string(name)
	}
	return string(bytes.Join([][]byte{prefix, name}, []byte("/")))
}

// memberType maps a type flag, or says why it is refused.
func memberType(flag byte, name string) (Type, string) {
	switch flag {
	case '0', '1', '2', '5':
		return Type(flag), ""
	case 0: // before POSIX a slash made a directory
		if strings.HasSuffix(name, "/") {
			return Directory, ""
		}
		return RegularFile, ""
	case '3', '4':
		return 0, "device"
	case '6':
		return 0, "FIFO"
	case 'S':
		return 0, "sparse file"
	}
	return 0, fmt.Sprintf("member of type %q", flag)
}

// special returns ErrSpecial for the type flags of what is in every file system
// and in no archive of ours.
func special(flag byte) error {
	if flag == '3' || flag == '4' || flag == '6' {
		return ErrSpecial
	}
	return nil
}

// checkNames cleans and checks the name and the link.
func (r *Reader) checkNames(b header, h *Header) error {
	if len(h.Name) > r.opt.MaxPath || len(h.Link) > r.opt.MaxPath {
		return r.limit(b, "path of more than %d bytes", r.opt.MaxPath)
	}
	h.Name = strings.TrimPrefix(h.Name, "./")
	if h.Type == Directory {
		h.Name = strings.TrimSuffix(h.Name, "/")
	}
	if err := confine.CheckPath(h.Name); err != nil {
		return r.refuse(b, err, "%v", err)
	}
	switch h.Type {
	case HardLink:
		h.Link = strings.TrimPrefix(h.Link, "./")
		if err := confine.CheckPath(h.Link); err != nil {
			return r.refuse(b, err, "hard link: %v", err)
		}
	case SymbolicLink:
		if h.Link == "" {
			return r.refuse(b, nil, "symbolic link without a target")
		}
	default:
		h.Link = ""
	}
	return nil
}

// count holds the member against the limits.
func (r *Reader) count(b header, h Header) error {
	r.members++
	switch o := r.opt; {
	case o.MaxMembers > 0 && r.members > o.MaxMembers:
		return r.limit(b, "more than %d members", o.MaxMembers)
	case o.MaxFile > 0 && h.Size > o.MaxFile:
		return r.limit(b, "file of %d bytes, more than %d", h.Size, o.MaxFile)
	case o.MaxTotal > 0 && h.Size > o.MaxTotal-r.total:
		return r.limit(b, "contents of more than %d bytes", o.MaxTotal)
	case h.Size > math.MaxInt64-r.total:
		return r.refuse(b, nil, "sizes overflow")
	}
	r.total += h.Size
	return nil
}

func (r *Reader) refuse(b header, cause error, format string, args ...any) error {
	return &FormatError{Offset: b.offset, Name: r.name, Reason: fmt.Sprintf(format, args...), Err: ErrHostile, Cause: cause}
}

func (r *Reader) limit(b header, format string, args ...any) error {
	return &FormatError{Offset: b.offset, Name: r.name, Reason: fmt.Sprintf(format, args...), Err: ErrLimit}
}
