package tree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// gitIndex is the list of tracked paths. The zero value tracks nothing. Format
// and field names: git's Documentation/gitformat-index.txt.
type gitIndex struct {
	files      []string // sorted
	submodules []string // sorted
	fold       bool     // the lists are in lower case
}

// indexEntry is what is needed of one entry of an index file.
type indexEntry struct {
	name      string
	submodule bool
}

// indexFile is a parsed index file.
type indexFile struct {
	entries []indexEntry
	link    []byte // the "link" extension of a split index
}

var errIndexShort = errors.New("it is cut short")

const (
	indexHeader    = 12     // "DIRC", version, count
	indexStat      = 40     // of an entry, before the object name
	indexModeAt    = 24     // offset of the mode within it
	indexExtended  = 0x4000 // flag: 16 more flags follow
	indexNameMask  = 0x0fff // of the flags: length of the name
	indexTypeMask  = 0o170000
	indexSubmodule = 0o160000
)

// maxGitIndex bounds an index: one of ten million files has about 1 GB.
const maxGitIndex = 4 << 30

// readGitIndex reads a work tree's index. A missing one tracks nothing.
func readGitIndex(gitDir string, hashSize int, fold bool) (*gitIndex, error) {
	path := filepath.Join(gitDir, "index")
	data, err := readRegular(path, maxGitIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return &gitIndex{}, nil
	}
	if err != nil {
		return nil, err
	}
	file, err := parseGitIndex(data, hashSize)
	if err == nil && file.link != nil {
		err = file.joinShared(gitDir, hashSize)
	}
	if err != nil {
		return nil, fmt.Errorf("read git index %q: %w", path, err)
	}
	return newGitIndex(file.entries, fold), nil
}

func newGitIndex(entries []indexEntry, fold bool) *gitIndex {
	x := &gitIndex{fold: fold}
	for _, e := range entries {
		name := e.name
		if fold {
			name = lowerString(name)
		}
		if e.submodule {
			x.submodules = append(x.submodules, name)
		} else {
			x.files = append(x.files, name)
		}
	}
	for _, list := range []*[]string{&x.files, &x.submodules} {
		if !slices.IsSorted(*list) {
			slices.Sort(*list)
		}
		*list = slices.Compact(*list) // an unmerged path has up to three entries
	}
	return x
}

// hasFile says whether path is tracked as a file or link. A sparse index names
// whole directories; what is below such a one counts as tracked.
func (x *gitIndex) hasFile(path string) bool {
	path = x.key(path)
	if _, ok := slices.BinarySearch(x.files, path); ok {
		return true
	}
	return x.inSparseDir(path)
}

func (x *gitIndex) inSparseDir(path string) bool {
	for dir := Parent(path); dir != ""; dir = Parent(dir) {
		if _, ok := slices.BinarySearch(x.files, dir+"/"); ok {
			return true
		}
	}
	return false
}

// hasBelow says whether a tracked file lies below dir.
func (x *gitIndex) hasBelow(dir string) bool {
	dir = x.key(dir) + "/"
	i := sort.SearchStrings(x.files, dir)
	return i < len(x.files) && strings.HasPrefix(x.files[i], dir) || x.inSparseDir(dir)
}

// isSubmodule says whether dir is tracked as a submodule.
func (x *gitIndex) isSubmodule(dir string) bool {
	_, ok := slices.BinarySearch(x.submodules, x.key(dir))
	return ok
}

func (x *gitIndex) key(path string) string {
	if x.fold {
		return lowerString(path)
	}
	return path
}

// parseGitIndex parses an index file of version 2, 3 or 4. hashSize is the
// length of an object name in bytes. The checksum at the end is not looked at;
// git itself does so in fsck only.
func parseGitIndex(data []byte, hashSize int) (*indexFile, error) {
	if len(data) < indexHeader+hashSize {
		return nil, errIndexShort
	}
	if string(data[:4]) != "DIRC" {
		return nil, errors.New("it is not a git index")
	}
	version := binary.BigEndian.Uint32(data[4:])
	if version < 2 || version > 4 {
		return nil, fmt.Errorf("index version %d is not supported", version)
	}
	p := indexParser{
		text: string(data[:len(data)-hashSize]), at: indexHeader,
		hashSize: hashSize, version: version,
	}
	count := int(binary.BigEndian.Uint32(data[8:]))
	// An entry takes at least its fixed part, so a lying count reserves little.
	p.file.entries = make([]indexEntry, 0, min(count, len(data)/(indexStat+hashSize+2)))
	for range count {
		if err := p.entry(); err != nil {
			return nil, err
		}
	}
	if err := p.extensions(); err != nil {
		return nil, err
	}
	return &p.file, nil
}

type indexParser struct {
	text     string // the file without its checksum
	at       int
	hashSize int
	version  uint32
	previous string // name of the entry before
	file     indexFile
}

func (p *indexParser) uint16At(i int) int { return int(p.text[i])<<8 | int(p.text[i+1]) }

func (p *indexParser) uint32At(i int) int { return p.uint16At(i)<<16 | p.uint16At(i+2) }

func (p *indexParser) entry() error {
	start, flagsAt := p.at, p.at+indexStat+p.hashSize
	if flagsAt+2 > len(p.text) {
		return errIndexShort
	}
	mode, flags := p.uint32At(start+indexModeAt), p.uint16At(flagsAt)
	p.at = flagsAt + 2
	if p.version >= 3 && flags&indexExtended != 0 {
		p.at += 2
	}
	name, err := p.name(start, flags&indexNameMask)
	if err != nil {
		return err
	}
	p.previous = name
	p.file.entries = append(p.file.entries, indexEntry{name, mode&indexTypeMask == indexSubmodule})
	return nil
}

// name reads the name of the entry that began at start, and what pads it.
func (p *indexParser) name(start, length int) (string, error) {
	if p.version == 4 {
		return p.compressedName()
	}
	if p.at > len(p.text) {
		return "", errIndexShort
	}
	if length == indexNameMask { // the field is full: look for the end
		if length = strings.IndexByte(p.text[p.at:], 0); length < 0 {
			return "", errIndexShort
		}
	}
	end := p.at + length
	// One to eight NULs make the entry's length a multiple of eight.
	next := start + (end-start+8)&^7
	if next > len(p.text) {
		return "", errIndexShort
	}
	name := p.text[p.at:end]
	p.at = next
	return name, nil
}

// compressedName reads a name of version 4: how many bytes to take off the
// end of the name before, and what to put there, ended by a NUL.
func (p *indexParser) compressedName() (string, error) {
	cut, err := p.offset()
	if err != nil {
		return "", err
	}
	if cut > len(p.previous) {
		return "", fmt.Errorf("entry %d: a name shares more than there is", len(p.file.entries))
	}
	length := strings.IndexByte(p.text[p.at:], 0)
	if length < 0 {
		return "", errIndexShort
	}
	name := p.previous[:len(p.previous)-cut] + p.text[p.at:p.at+length]
	p.at += length + 1
	return name, nil
}

// offset reads git's variable-length integer: seven bits a byte, the highest
// first, with one added for each byte that follows.
func (p *indexParser) offset() (int, error) {
	const most = 1 << 30 // far above any path, far below overflow
	for n := 0; p.at < len(p.text) && n < most; {
		c := p.text[p.at]
		p.at++
		n += int(c & 0x7f)
		if c&0x80 == 0 {
			return n, nil
		}
		n = (n + 1) << 7
	}
	return 0, errIndexShort
}

// extensions reads what follows the entries. One whose name begins with a
// lower-case letter changes what the entries mean and must be known.
func (p *indexParser) extensions() error {
	for p.at < len(p.text) {
		if p.at+8 > len(p.text) {
			return errIndexShort
		}
		name, size := p.text[p.at:p.at+4], p.uint32At(p.at+4)
		p.at += 8
		if size > len(p.text)-p.at {
			return errIndexShort
		}
		switch {
		case name == "link":
			p.file.link = []byte(p.text[p.at : p.at+size])
		case name == "sdir": // sparse directories; see hasFile
		case name[0] < 'A' || name[0] > 'Z':
			return fmt.Errorf("index extension %q is not supported", name)
		}
		p.at += size
	}
	return nil
}
