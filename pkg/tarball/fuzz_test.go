package tarball

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/tree"
)

// FuzzReader holds the reader to its promises on any bytes: no panic, the
// limits, only names that confine passes, no io.EOF but at an end, the same
// result however the bytes arrive, and no other reading than archive/tar's.
func FuzzReader(f *testing.F) {
	for _, m := range variety() {
		if m.Size < 1000 {
			f.Add(archive(f, m), false)
		}
	}
	f.Add(archive(f, file("a", "x"), file("b", "y")), false)
	f.Add(concat(archive(f, file("a", "x")), archive(f, file("b", "y")), []byte("\nend 0\n")), true)
	f.Add([]byte("\nend 2\n"), true)
	f.Add(concat(record('x', paxText("path", "a", "size", "3", "mtime", "-1.5", "comment", "")), plain, padded("abc"), endBlocks), false)
	f.Add(concat(record('L', "a\x00"), record('K', "b\x00"), raw('2', "s", 0), record('g', paxText("comment", "c")), plain, endBlocks), false)
	f.Add(concat(raw(0, "d/", 0, field(offMagic, "\x00\x00\x00\x00\x00\x00\x00\x00")), raw('0', "g", 0, field(offMagic, "ustar  \x00")), endBlocks), false)
	f.Fuzz(func(t *testing.T, data []byte, trailed bool) {
		data = sealChecksums(data)
		opt := ReaderOptions{MaxMembers: 10, MaxTotal: 4 << 10, MaxFile: 2 << 10, MaxPath: 300}
		if trailed {
			opt.Trailer = "end "
		}
		r := NewReader(bytes.NewReader(data), opt)
		got, err := readAll(r)
		checkPromises(t, got, opt)
		if err == nil {
			checkEnd(t, r, data)
		} else {
			checkError(t, err)
		}
		slow := NewReader(iotest.OneByteReader(bytes.NewReader(data)), opt)
		again, errAgain := readAll(slow)
		checkSame(t, again, got)
		if (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() || r.Trailer() != slow.Trailer() {
			t.Errorf("at once %v, byte by byte %v", err, errAgain)
		}
		if !trailed && err == nil {
			checkAgainstStandard(t, data, got)
		}
	})
}

// sealChecksums makes every block that says "ustar" a header with a valid
// checksum, which a fuzzer does not find by itself.
func sealChecksums(data []byte) []byte {
	data = bytes.Clone(data)
	for b := data; len(b) >= blockSize; b = b[blockSize:] {
		if bytes.HasPrefix(b[offMagic:], []byte("ustar")) {
			putChecksum(b[:blockSize])
		}
	}
	return data
}

func checkPromises(t *testing.T, got []member, opt ReaderOptions) {
	t.Helper()
	var total int64
	for _, m := range got {
		if total += m.Size; m.Size < 0 || m.Size > opt.MaxFile || int64(len(m.content)) != m.Size {
			t.Errorf("%q: size %d, content %d", m.Name, m.Size, len(m.content))
		}
		if err := confine.CheckPath(m.Name); err != nil || len(m.Name) > opt.MaxPath || len(m.Link) > opt.MaxPath {
			t.Errorf("name %q, link %q: %v", m.Name, m.Link, err)
		}
		if m.Mode&^0o7777 != 0 || m.Time.Nsec < 0 || m.Time.Nsec >= nanos || m.Type.String() == "unknown type" {
			t.Errorf("header %+v", m.Header)
		}
		if m.Type != RegularFile && m.Size != 0 || (m.Type == HardLink || m.Type == SymbolicLink) != (m.Link != "") {
			t.Errorf("header %+v", m.Header)
		}
		if m.Type == HardLink && confine.CheckPath(m.Link) != nil {
			t.Errorf("hard link to %q", m.Link)
		}
	}
	if total > opt.MaxTotal || int64(len(got)) > opt.MaxMembers {
		t.Errorf("%d members, %d bytes", len(got), total)
	}
}

// checkEnd checks that there was an end to read.
func checkEnd(t *testing.T, r *Reader, data []byte) {
	t.Helper()
	if want := r.opt.Trailer; want != "" {
		if !bytes.Contains(data, []byte(want+r.Trailer()+"\n")) {
			t.Errorf("accepted without the trailer %q", want)
		}
	} else if !bytes.HasSuffix(data, endBlocks) {
		t.Error("accepted without end blocks")
	}
}

func checkError(t *testing.T, err error) {
	t.Helper()
	var fault *FormatError
	if !errors.As(err, &fault) || errors.Is(err, io.EOF) || fault.Offset < 0 || len(err.Error()) > 8192 {
		t.Errorf("error %v", err)
	}
}

// checkAgainstStandard compares with archive/tar, if that takes the archive.
func checkAgainstStandard(t *testing.T, data []byte, got []member) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(data))
	for _, m := range got {
		h, err := nextMember(r)
		if err != nil {
			return
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return
		}
		name := strings.TrimPrefix(h.Name, "./")
		if h.Typeflag == tar.TypeDir {
			name = strings.TrimSuffix(name, "/")
		}
		// It takes a prefix from GNU headers that hold no valid times.
		if name != m.Name && !strings.HasSuffix(h.Name, "/"+m.Name) {
			t.Errorf("archive/tar has name %q, not %q", name, m.Name)
		}
		if h.Typeflag != byte(m.Type) || h.Size != m.Size || string(content) != m.content {
			t.Errorf("archive/tar has %+v, not %+v", h, m.Header)
		}
		if m.Type == SymbolicLink && h.Linkname != m.Link {
			t.Errorf("archive/tar has link %q, not %q", h.Linkname, m.Link)
		}
		// It rounds digits beyond the nanosecond to zero, we round down.
		if diff := h.ModTime.Sub(time.Unix(m.Time.Sec, int64(m.Time.Nsec))); diff < 0 || diff > 1 {
			t.Errorf("archive/tar has time %v, not %+v", h.ModTime, m.Time)
		}
	}
	if h, err := nextMember(r); err == nil {
		t.Errorf("archive/tar has one more: %+v", h)
	}
}

// nextMember skips what archive/tar shows of global headers.
func nextMember(r *tar.Reader) (*tar.Header, error) {
	for {
		h, err := r.Next()
		if err != nil || h.Typeflag != tar.TypeXGlobalHeader {
			return h, err
		}
	}
}

// FuzzRoundTrip writes any header that the writer takes and reads it back with
// this reader and with archive/tar.
func FuzzRoundTrip(f *testing.F) {
	for _, m := range variety() {
		f.Add(m.Name, byte(m.Type), m.Mode, m.Time.Sec, m.Time.Nsec, m.Link, []byte(m.content[:min(len(m.content), 600)]))
	}
	f.Fuzz(func(t *testing.T, name string, typ byte, mode uint32, sec int64, nsec int32, link string, content []byte) {
		h := Header{Name: name, Type: Type(typ), Mode: mode & 0o7777, Time: tree.Time{Sec: sec, Nsec: nsec}, Link: link}
		var out bytes.Buffer
		w := NewWriter(&out)
		var err error
		if h.Type == RegularFile {
			h.Size = int64(len(content))
			_, err = w.WriteFile(h, bytes.NewReader(content))
		} else {
			content = nil
			err = w.WriteHeader(h)
		}
		if err != nil {
			if w.Written() != 0 {
				t.Errorf("%d bytes written of a refused header", w.Written())
			}
			return
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		want := []member{{h, string(content)}}
		got, err := readAll(NewReader(bytes.NewReader(out.Bytes()), ReaderOptions{MaxPath: 1 << 20}))
		if err != nil {
			t.Fatalf("%+v: %v", h, err)
		}
		checkSame(t, got, want)
		checkAgainstStandard(t, out.Bytes(), want)
	})
}
