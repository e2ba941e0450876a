package tree

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
)

var errBitmap = errors.New("a bitmap of the split index is malformed")

// joinShared completes a split index with the shared one it builds on: a file
// beside it, of whose entries some are deleted and some replaced, as two
// bitmaps say. The entries of the split index are first the replacements, in
// order and without names, then those that are new.
func (f *indexFile) joinShared(gitDir string, hashSize int) error {
	if len(f.link) < hashSize {
		return errIndexShort
	}
	id, rest := f.link[:hashSize], f.link[hashSize:]
	if bytes.Equal(id, make([]byte, hashSize)) {
		return nil // no shared index
	}
	path := filepath.Join(gitDir, "sharedindex."+hex.EncodeToString(id))
	data, err := readRegular(path, maxGitIndex)
	if err != nil {
		return err
	}
	shared, err := parseGitIndex(data, hashSize)
	if err != nil {
		return fmt.Errorf("shared index %q: %w", path, err)
	}
	if len(rest) == 0 {
		f.entries = append(f.entries, shared.entries...)
		return nil
	}
	return f.merge(shared.entries, rest)
}

// merge lays the split index over the shared entries.
func (f *indexFile) merge(shared []indexEntry, bitmaps []byte) error {
	deleted, rest, err := readBitmap(bitmaps, len(shared))
	if err != nil {
		return err
	}
	replaced, _, err := readBitmap(rest, len(shared))
	if err != nil {
		return err
	}
	added := f.entries
	var entries []indexEntry
	for i, e := range shared {
		if replaced[i] {
			if len(added) == 0 || added[0].name != "" {
				return errBitmap
			}
			e.submodule = added[0].submodule
			added = added[1:]
		}
		if !deleted[i] {
			entries = append(entries, e)
		}
	}
	f.entries = append(entries, added...)
	return nil
}

// readBitmap reads a compressed bitmap of at most size bits (EWAH: runs of
// equal words and literal words take turns) and returns what is after it.
// Format: git's Documentation/technical/bitmap-format.txt, appendix A.
func readBitmap(data []byte, size int) (set []bool, rest []byte, err error) {
	const header, trailer, word = 8, 4, 8
	if len(data) < header {
		return nil, nil, errIndexShort
	}
	words := int(binary.BigEndian.Uint32(data[4:]))
	data = data[header:]
	if words > (len(data)-trailer)/word || len(data) < trailer {
		return nil, nil, errIndexShort
	}
	w := bitmapWriter{set: make([]bool, size)}
	for i := 0; i < words; {
		marker := binary.BigEndian.Uint64(data[i*word:])
		i++
		run, literals := int64(marker>>1&0xffffffff), int64(marker>>33)
		if literals > int64(words-i) {
			return nil, nil, errBitmap
		}
		w.run(marker&1 != 0, run)
		for range literals {
			w.literal(binary.BigEndian.Uint64(data[i*word:]))
			i++
		}
	}
	if w.overflow {
		return nil, nil, errBitmap
	}
	return w.set, data[words*word+trailer:], nil
}

// bitmapWriter fills a slice of bits 64 at a time.
type bitmapWriter struct {
	set      []bool
	at       int64
	overflow bool // a bit beyond the end was set
}

// run writes equal words. The last may reach beyond the end.
func (w *bitmapWriter) run(bit bool, words int64) {
	size := int64(len(w.set))
	end := w.at + 64*words
	if bit {
		w.overflow = w.overflow || end > size+63
		for i := w.at; i < min(end, size); i++ {
			w.set[i] = true
		}
	}
	w.at = end
}

func (w *bitmapWriter) literal(word uint64) {
	for i := range int64(64) {
		if word>>i&1 == 0 {
			continue
		}
		if w.at+i >= int64(len(w.set)) {
			w.overflow = true
			return
		}
		w.set[w.at+i] = true
	}
	w.at += 64
}
