package transfer

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tarball"
)

// archive is what a chunk is packed into: a tar archive or, for sandboxes
// without tar, a plainArchive.
type archive interface {
	WriteHeader(h tarball.Header) error
	WriteFile(h tarball.Header, r io.Reader) (tarball.FileResult, error)
	WriteBytes(h tarball.Header, b []byte) error
	Flush() error
	Close() error
}

// Shell functions that unpack standard input into the current directory. The
// argument tells archives apart that are unpacked at the same time.
const (
	unpackTar   = "unpack() { (umask 000; $UNTAR); }\n" // BusyBox takes the umask off all modes, in spite of -p
	unpackPlain = `give() { dd bs="$1" count=1 of="$2" 2>/dev/null || die 83 "$2 cannot be written"; }
unpack() {
	cat >"c$1" || return 1
	w=; tail -c 40 "c$1" >"o$1" && read -r w off len <"o$1" && [ "$w" = sbsync-plain ] || return 1
	tail -c +$((off+1)) "c$1" | head -c "$len" >"s$1" && { . "./s$1"; } <"c$1" && rm -f "c$1" "o$1" "s$1"
}
`
)

// plainArchive is an archive that a POSIX shell unpacks with dd and little
// else: all contents one after the other, then a script that takes them apart,
// then where the script is. It holds files that dd takes in one read.
type plainArchive struct {
	w       io.Writer
	written int64
	touch   publisher // knows the sandbox's touch
	script  strings.Builder
	after   publisher // modes and times, once all is there
	batch   batch
	known   map[string]bool // directories that were made
}

func newPlainArchive(w io.Writer, touchNs bool) *plainArchive {
	a := &plainArchive{w: w, known: map[string]bool{}}
	a.touch.touchNs = touchNs
	a.batch = batch{w: &a.after, dir: "."}
	return a
}

// WriteHeader adds a directory or a link. A directory that comes again gets its
// mode and time.
func (a *plainArchive) WriteHeader(h tarball.Header) error {
	name := shell.Quote("./" + h.Name)
	switch h.Type {
	case tarball.Directory:
		if a.known[h.Name] {
			a.batch.add(a.touch.touch(h.Time), h.Name)
			a.batch.add(fmt.Sprintf("chmod %04o --", h.Mode), h.Name)
			return nil
		}
		a.known[h.Name] = true
		fmt.Fprintf(&a.script, "[ -d %s ] || mkdir -p -- %s || die 83 'a directory cannot be made'\n", name, name)
	case tarball.SymbolicLink:
		fmt.Fprintf(&a.script, "rm -f -- %s; ln -s -- %s %s || die 83 'a link cannot be made'\n", name, shell.Quote(h.Link), name)
	case tarball.HardLink:
		fmt.Fprintf(&a.script, "rm -f -- %s; ln -- %s %s || die 83 'a hard link cannot be made'\n", name, shell.Quote("./"+h.Link), name)
	}
	return nil
}

// WriteFile adds a file, exactly h.Size bytes of it.
func (a *plainArchive) WriteFile(h tarball.Header, r io.Reader) (tarball.FileResult, error) {
	b := make([]byte, h.Size+1)
	n, err := io.ReadFull(r, b)
	res := tarball.FileResult{Read: min(int64(n), h.Size), Grown: int64(n) > h.Size, Short: int64(n) < h.Size}
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		res.Err = err
	}
	clear(b[n:])
	return res, a.WriteBytes(h, b[:h.Size])
}

// WriteBytes adds a file.
func (a *plainArchive) WriteBytes(h tarball.Header, b []byte) error {
	name := shell.Quote("./" + h.Name)
	if len(b) == 0 {
		fmt.Fprintf(&a.script, ": >%s || die 83 'a file cannot be made'\n", name)
	} else {
		fmt.Fprintf(&a.script, "give %d %s\n", len(b), name)
	}
	a.batch.add(a.touch.touch(h.Time), h.Name)
	a.batch.add(fmt.Sprintf("chmod %04o --", h.Mode), h.Name)
	a.written += int64(len(b))
	_, err := a.w.Write(b)
	return err
}

// Flush has nothing to do: contents are written at once, the script at the end.
func (a *plainArchive) Flush() error { return nil }

// held is the length of the script so far.
func (a *plainArchive) held() int64 {
	return int64(a.script.Len() + a.after.Len() + 3*a.batch.size)
}

// Close writes the script.
func (a *plainArchive) Close() error {
	a.batch.flush()
	var end bytes.Buffer
	end.WriteString(a.script.String())
	end.WriteString("broken() { die 83 \"$1\"; }\n")
	end.WriteString(a.after.String())
	size := end.Len()
	fmt.Fprintf(&end, "%-39s\n", fmt.Sprintf("sbsync-plain %d %d", a.written, size))
	_, err := a.w.Write(end.Bytes())
	return err
}
