package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/tarball"
	"github.com/sbsync/sbsync/pkg/tree"
)

// Problems of files that are sent while they change.
var (
	errGrown    = errors.New("changed while read: it grew, the size it had at first was sent")
	errShrunk   = errors.New("changed while read: it shrank")
	errModified = errors.New("changed while read")
)

// sender reads the source of a push and takes note of what goes wrong with
// single files. It is not safe for concurrent use.
type sender struct {
	src      *confine.Source
	follow   bool
	plan     *plan
	digests  *digestList        // nil: no digests wanted
	problem  func(tree.Problem) // called once for each file with a problem
	progress func(files int, bytes int64)
	failed   map[string]bool  // files that must not be published
	changed  map[string]bool  // files that changed while they were read
	drift    map[string]int64 // by how much files have grown since the scan
	written  int              // members that are not directories
	sizes    sizeList         // of the files among them
	largest  int64            // content that an archive takes of one file; 0: any
	skip     map[string]bool  // files that travel beside the archive
}

// outcome returns the files that were not sent, and how many bytes more than
// planned were. A nil sender has sent nothing.
func (s *sender) outcome() (failed map[string]bool, drift int64) {
	if s == nil {
		return nil, 0
	}
	return s.failed, sumDrift(s.drift, s.failed)
}

// sumDrift adds up by how much files had grown, but for those that failed.
func sumDrift(drift map[string]int64, failed map[string]bool) (sum int64) {
	for p, n := range drift {
		if !failed[p] {
			sum += n
		}
	}
	return sum
}

// member is the name of an entry in the archive.
func member(p string) string { return path.Join(stagedTree, p) }

// header describes an entry as a member.
func header(e tree.Entry) tarball.Header {
	h := tarball.Header{Name: member(e.Path), Mode: e.Mode, Time: e.Time}
	switch e.Type {
	case tree.Dir:
		h.Type = tarball.Directory
	case tree.Symlink:
		h.Type, h.Link, h.Mode = tarball.SymbolicLink, e.Link, 0o777
	default:
		h.Type, h.Size = tarball.RegularFile, e.Size
	}
	return h
}

// open opens a file of the source. It reports what goes wrong and then returns
// nil.
func (s *sender) open(e tree.Entry) (*os.File, fs.FileInfo) {
	f, info, err := s.src.Open(e.Path, s.follow)
	if err != nil {
		s.fail(e.Path, err)
		return nil, nil
	}
	if n := info.Size() - e.Size; n != 0 {
		s.drift[e.Path] = n
	}
	return f, info
}

func (s *sender) fail(p string, err error) {
	s.failed[p] = true
	s.problem(tree.Problem{Path: p, Err: err})
}

// errLarger is a file that has become too large, since it was listed, for an
// archive that is held in memory. Nothing of it was written.
var errLarger = errors.New("too large for the archive")

// file writes a file as a member of w. What goes wrong with the file itself is
// reported, and the archive stays valid; the error is the archive's, or
// errLarger.
func (s *sender) file(w archive, e tree.Entry) error {
	f, info := s.open(e)
	if f == nil {
		return nil
	}
	defer f.Close()
	h := header(e)
	if h.Size, h.Time = info.Size(), timeOf(info); s.largest > 0 && h.Size > s.largest {
		return errLarger
	}
	content := &contentReader{f: f, progress: s.progress}
	if s.digests != nil {
		content.sum = s.digests.start()
	}
	res, err := w.WriteFile(h, content)
	if err != nil {
		return err
	}
	s.written++
	s.sizes.add(e, h.Size)
	if s.digests != nil && !res.Short {
		s.digests.add(h.Name, content.sum)
	}
	after, _ := f.Stat()
	s.settle(e.Path, info, after, res.Grown, res.Short, content.err)
	return nil
}

// settle judges a file that was read. after may be nil.
func (s *sender) settle(p string, before, after fs.FileInfo, grown, short bool, err error) {
	switch {
	case err != nil:
		s.fail(p, err)
	case short:
		s.fail(p, errShrunk)
	case grown:
		s.change(p, errGrown)
	case after != nil && (after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime())):
		s.change(p, errModified)
	}
	s.progress(1, 0)
}

func (s *sender) change(p string, err error) {
	s.changed[p] = true
	s.problem(tree.Problem{Path: p, Err: err})
}

// contentReader reads a file and reports progress.
type contentReader struct {
	f        *os.File
	sum      hash.Hash // nil: none wanted
	progress func(files int, bytes int64)
	err      error // of the file, other than its end
}

func (c *contentReader) Read(p []byte) (int, error) {
	n, err := c.f.Read(p)
	if c.sum != nil {
		c.sum.Write(p[:n])
	}
	c.progress(0, int64(n))
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

func timeOf(info fs.FileInfo) tree.Time {
	t := info.ModTime()
	return tree.Time{Sec: t.Unix(), Nsec: int32(t.Nanosecond())}
}

// digestList collects the digests of an archive's files, in the form in which
// the sandbox's tools make them: a list of names, and a list of digests in the
// same order. Names that the tools would print with escapes, or not at all on
// one line, come in a list of their own, to be hashed one by one.
type digestList struct {
	hasher            hasher
	names, odd        []byte // NUL-terminated
	nameSums, oddSums []byte // a line each
}

func (d *digestList) start() hash.Hash {
	if d.hasher.sum {
		return newCksum()
	}
	return sha256.New()
}

func (d *digestList) add(name string, sum hash.Hash) {
	line := digestLine(sum)
	if strings.ContainsAny(name, "\n\r\\") {
		d.odd = append(append(d.odd, name...), 0)
		d.oddSums = append(d.oddSums, line...)
		return
	}
	d.names = append(append(d.names, name...), 0)
	d.nameSums = append(d.nameSums, line...)
}

// digestLine is how a tool's output shows a digest once the name is cut off.
func digestLine(sum hash.Hash) string {
	if c, ok := sum.(*cksum); ok {
		return fmt.Sprintf("%d %d\n", c.Sum32(), c.size)
	}
	return hex.EncodeToString(sum.Sum(nil)) + "\n"
}

// size is the length of the lists.
func (d *digestList) size() int64 {
	return int64(len(d.names) + len(d.odd) + len(d.nameSums) + len(d.oddSums))
}

// write appends the lists as members, named apart from other archives' by id,
// and starts the next lists.
func (d *digestList) write(w archive, id string) error {
	for _, part := range d.parts(id) {
		if err := w.WriteBytes(tarball.Header{Name: part.name, Type: tarball.RegularFile, Mode: 0o600}, part.content); err != nil {
			return err
		}
	}
	d.names, d.odd, d.nameSums, d.oddSums = d.names[:0], d.odd[:0], d.nameSums[:0], d.oddSums[:0]
	return nil
}

type listPart struct {
	name    string
	content []byte
}

func (d *digestList) parts(id string) []listPart {
	sums := append(append([]byte(nil), d.nameSums...), d.oddSums...)
	return []listPart{{"names" + id, d.names}, {"odd" + id, d.odd}, {"sums" + id, sums}}
}

// verifyScript compares the digests of what was staged with the lists. The
// lists are the archive's last members: if they are missing, it is not whole.
func verifyScript(id string) string {
	return strings.ReplaceAll(`[ -f sums@ ] || die 83 'the archive did not arrive whole'
{ hashes names@; hashes_singly odd@; } >got@ || die 83 'digests cannot be computed'
cmp -s got@ sums@ || die 84 'digests differ from what was sent'
rm -f names@ odd@ sums@ got@
`, "@", id)
}
