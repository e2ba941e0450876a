package tarball

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/sbsync/sbsync/pkg/tree"
)

// paxHeaderName is the name of our PAX records; Python's tarfile has the same.
const paxHeaderName = "././@PaxHeader"

// Keywords of PAX records that are read or written (POSIX.1-2017, pax
// Extended Header).
const (
	paxPath     = "path"
	paxLinkPath = "linkpath"
	paxSize     = "size"
	paxTime     = "mtime"
	// paxSparse begins GNU tar's keywords for sparse files.
	paxSparse = "GNU.sparse."
)

const nanos = 1_000_000_000

func appendPAXSize(dst []byte, size int64) []byte {
	var b [20]byte
	return appendPAX(dst, paxSize, strconv.AppendInt(b[:0], size, 10))
}

func appendPAXTime(dst []byte, t tree.Time) []byte {
	var b [32]byte
	return appendPAX(dst, paxTime, appendDecimal(b[:0], t))
}

// appendPAX appends the record "length key=value\n", whose length counts its
// own digits.
func appendPAX(dst []byte, key string, value []byte) []byte {
	n := len(key) + len(value) + len(" =\n")
	size := n + decimalLen(n)
	if decimalLen(size) > decimalLen(n) {
		size++
	}
	dst = strconv.AppendInt(dst, int64(size), 10)
	dst = append(dst, ' ')
	dst = append(dst, key...)
	dst = append(dst, '=')
	dst = append(dst, value...)
	return append(dst, '\n')
}

func decimalLen(n int) int {
	digits := 1
	for ; n > 9; n /= 10 {
		digits++
	}
	return digits
}

// appendDecimal appends t as seconds since 1970 with as many decimals as it
// takes: {-2, 500000000} is "-1.5".
func appendDecimal(dst []byte, t tree.Time) []byte {
	sec, nsec := t.Sec, int64(t.Nsec)
	if sec < 0 && nsec > 0 {
		dst = append(dst, '-')
		sec, nsec = -(sec + 1), nanos-nsec
	}
	dst = strconv.AppendInt(dst, sec, 10)
	if nsec == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := int64(nanos / 10); nsec > 0; unit /= 10 {
		dst = append(dst, '0'+byte(nsec/unit))
		nsec %= unit
	}
	return dst
}

// parseDecimal reads what appendDecimal writes. Digits beyond the nanosecond
// round down.
func parseDecimal(s string) (tree.Time, bool) {
	whole, fraction, dot := strings.Cut(s, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	negative := strings.HasPrefix(s, "-")
	if err != nil || !isDigits(strings.TrimPrefix(whole, "-")) || dot && !isDigits(fraction) {
		return tree.Time{}, false
	}
	nsec, exact := parseFraction(fraction)
	if negative && !exact {
		nsec++
	}
	if negative && nsec > 0 {
		sec--
		nsec = nanos - nsec
		if sec > 0 { // it was the smallest int64
			return tree.Time{}, false
		}
	}
	return tree.Time{Sec: sec, Nsec: int32(nsec)}, true
}

// parseFraction reads decimals as nanoseconds and says whether that is all of
// them.
func parseFraction(digits string) (nsec int64, exact bool) {
	exact = true
	unit := int64(nanos)
	for i := range len(digits) {
		if unit /= 10; unit == 0 && digits[i] != '0' {
			exact = false
		}
		nsec += int64(digits[i]-'0') * unit
	}
	return nsec, exact
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// nextPAX splits the first record off b. It fails unless the record is whole
// and well formed.
func nextPAX(b []byte) (key, value, rest []byte, ok bool) {
	digits, _, found := bytes.Cut(b[:min(len(b), maxPAXDigits+1)], []byte(" "))
	size, err := strconv.Atoi(string(digits))
	start := len(digits) + 1
	if !found || !isDigits(string(digits)) || err != nil || size <= start || size > len(b) || b[size-1] != '\n' {
		return nil, nil, nil, false
	}
	key, value, found = bytes.Cut(b[start:size-1], []byte("="))
	return key, value, b[size:], found && len(key) > 0
}

// maxPAXDigits is enough for the length of any record within maxExtension,
// with a zero or two before it.
const maxPAXDigits = 9
