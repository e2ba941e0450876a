package transfer

import "sync"

// cksum computes what POSIX's cksum prints: a CRC-32 with polynomial 04C11DB7,
// not reflected, over the content and then its length, complemented.
// https://pubs.opengroup.org/onlinepubs/9799919799/utilities/cksum.html
type cksum struct {
	crc  uint32
	size uint64
	t    *[8][256]uint32
}

// cksumTables allow eight bytes at a time (slicing-by-8).
func cksumTables() *[8][256]uint32 {
	var t [8][256]uint32
	for i := range 256 {
		crc := uint32(i) << 24
		for range 8 {
			if crc&0x80000000 != 0 {
				crc = crc<<1 ^ 0x04C11DB7
			} else {
				crc <<= 1
			}
		}
		t[0][i] = crc
	}
	for i := range 256 {
		for k := 1; k < 8; k++ {
			t[k][i] = t[k-1][i]<<8 ^ t[0][t[k-1][i]>>24]
		}
	}
	return &t
}

var cksumTable = sync.OnceValue(cksumTables)

func newCksum() *cksum { return &cksum{t: cksumTable()} }

// Write never fails.
func (c *cksum) Write(p []byte) (int, error) {
	c.size += uint64(len(p))
	crc, t := c.crc, c.t
	q := p
	for len(q) >= 8 {
		crc ^= uint32(q[0])<<24 | uint32(q[1])<<16 | uint32(q[2])<<8 | uint32(q[3])
		crc = t[7][crc>>24] ^ t[6][crc>>16&0xff] ^ t[5][crc>>8&0xff] ^ t[4][crc&0xff] ^
			t[3][q[4]] ^ t[2][q[5]] ^ t[1][q[6]] ^ t[0][q[7]]
		q = q[8:]
	}
	for _, b := range q {
		crc = crc<<8 ^ t[0][byte(crc>>24)^b]
	}
	c.crc = crc
	return len(p), nil
}

// Sum32 is the checksum of what was written.
func (c *cksum) Sum32() uint32 {
	crc := c.crc
	for n := c.size; n > 0; n >>= 8 {
		crc = crc<<8 ^ c.t[0][byte(crc>>24)^byte(n)]
	}
	return ^crc
}

// Sum appends the checksum in big-endian order.
func (c *cksum) Sum(b []byte) []byte {
	s := c.Sum32()
	return append(b, byte(s>>24), byte(s>>16), byte(s>>8), byte(s))
}

func (c *cksum) Reset()         { c.crc, c.size = 0, 0 }
func (c *cksum) Size() int      { return 4 }
func (c *cksum) BlockSize() int { return 1 }
