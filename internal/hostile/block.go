package hostile

import (
	"fmt"
	"strconv"
)

const blockSize = 512

// members are members with their contents.
func members(list ...Member) []byte {
	var b []byte
	for _, m := range list {
		if m.Type == Dir && (m.Name == "dir" || m.Name == "dir/sub") {
			continue // tar is asked for files only
		}
		size := int64(len(m.Content))
		if m.Size != 0 {
			size = m.Size
		}
		name := m.Name
		if m.Type == File && name != "" && name[0] != '/' && name[0] != '.' {
			name = "./" + name // as it was asked for
		}
		b = append(b, header(m.Type, name, m.Link, size)...)
		b = append(b, padded(m.Content)...)
	}
	return b
}

// header is a header block with a valid checksum. A name of more than 100 bytes
// is cut, and needs a record of its own.
func header(flag byte, name, link string, size int64) []byte {
	b := make([]byte, blockSize)
	copy(b[:100], name)
	copy(b[100:], "0000644\x000000000\x000000000\x00")
	putSize(b[124:136], size)
	copy(b[136:], "14524770400\x00") // 2023-11-14
	b[156] = flag
	copy(b[157:257], link)
	copy(b[257:], "ustar\x0000")
	seal(b)
	return b
}

// seal sets a header's checksum.
func seal(b []byte) {
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
}

// putSize writes octal digits, or base 256 where these don't do.
func putSize(f []byte, n int64) {
	if n >= 0 && n < 1<<33 {
		copy(f, fmt.Sprintf("%011o\x00", n))
		return
	}
	for i := len(f) - 1; i >= 0; i-- {
		f[i] = byte(n)
		n >>= 8
	}
	f[0] |= 0x80
}

func padded(content string) []byte {
	return append([]byte(content), make([]byte, -len(content)&(blockSize-1))...)
}

// record is a member that says something of the next one.
func record(flag byte, content string) []byte {
	return append(header(flag, "././@Record", "", int64(len(content))), padded(content)...)
}

// paxRecord is "length key=value\n", where the length counts itself.
func paxRecord(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	n := len(rest)
	for len(strconv.Itoa(n))+len(rest) != n {
		n = len(strconv.Itoa(n)) + len(rest)
	}
	return strconv.Itoa(n) + rest
}

// end are the blocks that end an archive.
func end() []byte { return make([]byte, 2*blockSize) }
