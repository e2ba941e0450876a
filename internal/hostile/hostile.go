// Package hostile makes archives and listings that no honest sandbox sends, to
// be pulled by tests. Each names the trick that it tries; all of them are to be
// refused, or to do no harm.
//
// The bytes are put together here and not by package tarball, which is what is
// tested.
package hostile

import (
	"bytes"
	"io"
)

//go:generate go run ./gen ../../testdata/hostile

// Wanted are the files that an honest listing shows and that a pull asks for.
// The archives deliver them too: all but the trick is as it should be.
func Wanted() []Member {
	return []Member{
		{Name: "dir", Type: Dir},
		{Name: "dir/b.txt", Type: File, Content: "b in the sandbox\n"},
		{Name: "dir/sub", Type: Dir},
		{Name: "dir/sub/c.bin", Type: File, Content: string(bytes.Repeat([]byte{0, 1, 2, 253, 254, 255}, 120))},
		{Name: "notes.txt", Type: File, Content: "notes in the sandbox\n"},
	}
}

// Member is one member of an archive, or one entry of a listing.
type Member struct {
	Name    string
	Type    byte
	Link    string // target of a link
	Content string
	// Size is what the header claims if that is not the content's length.
	Size int64
}

// Types of members, as in a header's type flag.
const (
	File    = '0'
	Hard    = '1'
	Link    = '2'
	Char    = '3'
	Block   = '4'
	Dir     = '5'
	FIFO    = '6'
	GNULong = 'L'
	GNULink = 'K'
	PAX     = 'x'
	PAXAll  = 'g'
)

// Archive is one trick.
type Archive struct {
	// Name is one word, fit for a file name.
	Name string
	// About says what it tries.
	About string
	// Listed is the same trick as a listing of what the sandbox has; empty if
	// there is none.
	Listed []Member
	// Bomb marks archives that are too large to be kept in a file.
	Bomb bool

	write func(w io.Writer) error
}

// Outside is the directory outside of the destination that the kept archives
// name.
const Outside = "/tmp/sbsync-hostile-outside"

// Kept says whether the archive has a file below testdata/hostile.
func (a *Archive) Kept() bool { return a.write != nil && !a.Bomb }

// Plays says whether there is an archive, and not a listing alone.
func (a *Archive) Plays() bool { return a.write != nil }

// WriteTo writes the archive's bytes.
func (a *Archive) WriteTo(w io.Writer) (int64, error) {
	c := &counter{w: w}
	err := a.write(c)
	return c.n, err
}

// Bytes returns the archive, which must not be a bomb.
func (a *Archive) Bytes() []byte {
	var b bytes.Buffer
	a.WriteTo(&b) // into memory: cannot fail
	return b.Bytes()
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Archives are all tricks. outside is the absolute path of a directory that
// must stay as it is; it is part of the archives that name absolute paths.
func Archives(outside string) []Archive {
	var all []Archive
	for _, family := range [][]Archive{
		names(outside), links(outside), types(), sizes(), records(outside), duplicates(), damage(), bombs(),
	} {
		all = append(all, family...)
	}
	return all
}

// trick is an archive of the wanted files with hostile members among them. As a
// listing it is the wanted files and the hostile ones, as far as those can be
// listed.
func trick(name, about string, hostile ...Member) Archive {
	a := raw(name, about, members(hostile...))
	a.Listed = append(Wanted(), hostile...)
	return a
}

// unlisted is a trick that only an archive can play.
func unlisted(name, about string, hostile ...Member) Archive {
	return raw(name, about, members(hostile...))
}

// raw is an archive of the wanted files with other bytes among them.
func raw(name, about string, hostile []byte) Archive {
	before, after := Wanted()[:2], Wanted()[2:]
	return whole(name, about, members(before...), hostile, members(after...), end())
}

// whole is an archive of these bytes and no others.
func whole(name, about string, parts ...[]byte) Archive {
	data := bytes.Join(parts, nil)
	return Archive{Name: name, About: about, write: func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}}
}

// Honest is an archive without any trick, for cutting it short. It has every
// kind of record that an honest tar writes.
func Honest() []byte {
	return bytes.Join([][]byte{
		members(Wanted()[1]),
		record(PAX, paxRecord("mtime", "1700000000.123456789")),
		members(Wanted()[3]),
		record(GNULong, "./notes.txt\x00"),
		members(Wanted()[4]),
		end(),
	}, nil)
}
