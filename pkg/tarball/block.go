package tarball

import "bytes"

// blockSize is the unit of an archive (POSIX.1-2017, pax, ustar Interchange
// Format): headers fill one block, contents are padded to whole blocks.
const blockSize = 512

// Fields of a ustar header: offset and length.
const (
	offName, lenName         = 0, 100
	offMode, lenMode         = 100, 8
	offUID, lenUID           = 108, 8
	offGID, lenGID           = 116, 8
	offSize, lenSize         = 124, 12
	offTime, lenTime         = 136, 12
	offChecksum, lenChecksum = 148, 8
	offType                  = 156
	offLink, lenLink         = 157, 100
	offMagic                 = 257
	offVersion               = 263
	offPrefix, lenPrefix     = 345, 155
	offStar, lenStar         = 508, 4 // "tar\0" in archives of star
)

// magicUSTAR marks a POSIX header. GNU's own, "ustar ", needs no looking at:
// like the headers of old tars it has no prefix.
const (
	magicUSTAR   = "ustar\x00"
	versionUSTAR = "00"
)

// Type flags of members that describe the next member or all that follow.
const (
	flagLongName  = 'L' // GNU
	flagLongLink  = 'K' // GNU
	flagPAX       = 'x' // POSIX
	flagPAXGlobal = 'g' // POSIX
)

// longLinkName is the name that GNU tar gives its long-name records.
const longLinkName = "././@LongLink"

// maxOctal is the largest number that a 12-byte field holds as octal digits.
const maxOctal = 1<<33 - 1

// padding is how many zero bytes follow a content of size bytes.
func padding(size int64) int64 { return -size & (blockSize - 1) }

// putOctal fills f with v as octal digits and a NUL.
func putOctal(f []byte, v int64) {
	f[len(f)-1] = 0
	for i := len(f) - 2; i >= 0; i-- {
		f[i] = '0' + byte(v&7)
		v >>= 3
	}
}

// putNumber fills f with v, in base 256 where octal digits do not hold it.
func putNumber(f []byte, v int64) {
	if v >= 0 && v <= maxOctal {
		putOctal(f, v)
		return
	}
	for i := len(f) - 1; i >= 0; i-- {
		f[i] = byte(v)
		v >>= 8
	}
	f[0] |= 0x80
}

// checksums returns the sum of a header's bytes, the checksum field taken as
// spaces: unsigned as POSIX has it, and signed as old tars on machines with
// signed chars computed it.
func checksums(block []byte) (unsigned, signed int64) {
	for _, c := range block[:blockSize] {
		unsigned += int64(c)
		signed += int64(int8(c))
	}
	for _, c := range block[offChecksum : offChecksum+lenChecksum] {
		unsigned += ' ' - int64(c)
		signed += ' ' - int64(int8(c))
	}
	return unsigned, signed
}

// putChecksum seals a header whose other fields are final.
func putChecksum(block []byte) {
	sum, _ := checksums(block)
	f := block[offChecksum : offChecksum+lenChecksum]
	putOctal(f[:7], sum)
	f[7] = ' '
}

// parseNumber reads a numeric field: octal digits between spaces and NULs, or
// base 256. It fails on anything else and on what int64 does not hold.
func parseNumber(f []byte) (int64, bool) {
	if f[0]&0x80 != 0 {
		return parseBase256(f)
	}
	f = bytes.TrimLeft(f, " \x00")
	end := bytes.IndexAny(f, " \x00")
	if end < 0 {
		end = len(f)
	}
	if len(bytes.Trim(f[end:], " \x00")) > 0 {
		return 0, false
	}
	var v int64
	for _, c := range f[:end] {
		if c < '0' || c > '7' {
			return 0, false
		}
		v = v<<3 | int64(c-'0') // at most 12 digits, 36 bits
	}
	return v, true
}

// parseBase256 reads GNU's two's complement: the top bit is the mark, the next
// one the sign.
func parseBase256(f []byte) (int64, bool) {
	v := int64(int8(f[0]<<1) >> 1)
	for _, c := range f[1:] {
		if v<<8>>8 != v {
			return 0, false
		}
		v = v<<8 | int64(c)
	}
	return v, true
}

// parseString reads a text field up to the first NUL.
func parseString(f []byte) []byte {
	if i := bytes.IndexByte(f, 0); i >= 0 {
		return f[:i]
	}
	return f
}
