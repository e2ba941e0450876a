package tarball

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sbsync/sbsync/pkg/tree"
)

// member is a header with its content.
type member struct {
	Header
	content string
}

func file(name, content string) member {
	return member{Header{Name: name, Type: RegularFile, Mode: 0o644, Size: int64(len(content))}, content}
}

// archive writes members with a Writer.
func archive(t testing.TB, members ...member) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, m := range members {
		var err error
		if m.Type == RegularFile {
			err = w.WriteBytes(m.Header, []byte(m.content))
		} else {
			err = w.WriteHeader(m.Header)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Written() != int64(out.Len()) {
		t.Errorf("Written() = %d, the archive has %d bytes", w.Written(), out.Len())
	}
	return out.Bytes()
}

// readAll reads all members. The error is nil if Next ended with io.EOF.
func readAll(r *Reader) ([]member, error) {
	var members []member
	for {
		h, err := r.Next()
		if err == io.EOF {
			return members, nil
		}
		if err != nil {
			return members, err
		}
		content, err := io.ReadAll(struct{ io.Reader }{r})
		if err != nil {
			return members, err
		}
		members = append(members, member{h, string(content)})
	}
}

// variety is a member of every shape that has its own way of being written.
func variety() []member {
	at := func(sec int64, nsec int32) tree.Time { return tree.Time{Sec: sec, Nsec: nsec} }
	members := []member{
		{Header{Name: "d", Type: Directory, Mode: 0o700, Time: at(1e9, 0)}, ""},
		file("d/empty", ""),
		file("d/a", "content\n"),
		{Header{Name: "l/link", Type: SymbolicLink, Mode: 0o777, Link: "../outside"}, ""},
		{Header{Name: "l/dangling", Type: SymbolicLink, Mode: 0o777, Link: "/no/./where//"}, ""},
		{Header{Name: "l/hard", Type: HardLink, Mode: 0o644, Link: "d/a"}, ""},
		{Header{Name: "l/longlink", Type: SymbolicLink, Mode: 0o777, Link: strings.Repeat("l", 120)}, ""},
		{Header{Name: "l/link100", Type: SymbolicLink, Mode: 0o777, Link: strings.Repeat("l", 100)}, ""},
		{Header{Name: "d/special", Type: RegularFile, Mode: 0o7755}, ""},
		{Header{Name: "d/secret", Type: RegularFile, Mode: 0o600, Size: 1}, "s"},
		file(strings.Repeat("n", 150), "150-byte name"),
		file("\xff\xfe"+strings.Repeat("\x80", 148), "long and not UTF-8"),
		file("d/block", strings.Repeat("x", blockSize)),
		file("d/block+1", strings.Repeat("y", blockSize+1)),
		file("d/large", strings.Repeat("large", writeBuffer/4)),
	}
	for i, tm := range []tree.Time{at(0, 0), at(-1, 0), at(-1, 5e8), at(-2, 999_999_999), at(1, 1), at(1e9, 999_999_999),
		at(1<<33-1, 0), at(1<<33, 0), at(1<<40, 123_000_000), at(-1<<40, 7), at(-1<<63, 0), at(1<<63-1, 5)} {
		members = append(members, member{Header{Name: "t" + string(rune('a'+i)), Type: RegularFile, Mode: 0o600, Time: tm}, ""})
	}
	for _, n := range []int{99, 100, 101, 155, 156, 255, 256, 257, 300, 1000} {
		members = append(members, file(longPath(n), "deep"))
	}
	for _, n := range []int{154, 155, 156} { // around the longest prefix
		members = append(members, file(strings.Repeat("p", n)+"/"+strings.Repeat("n", 100), "prefix"))
	}
	return members
}

// longPath returns a path of n bytes with elements of up to 50.
func longPath(n int) string {
	p := strings.Repeat(strings.Repeat("p", 49)+"/", n/50) + strings.Repeat("q", n%50)
	return strings.TrimSuffix(p, "/") + strings.Repeat("r", n-len(strings.TrimSuffix(p, "/")))
}

func checkSame(t *testing.T, got, want []member) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("member %d:\n got %.300q %+v\nwant %.300q %+v", i, got[i].content, got[i].Header, want[i].content, want[i].Header)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d members, want %d", len(got), len(want))
	}
}

func TestRoundTrip(t *testing.T) {
	want := variety()
	data := archive(t, want...)
	for name, r := range map[string]io.Reader{
		"at once":       bytes.NewReader(data),
		"halves":        iotest.HalfReader(bytes.NewReader(data)),
		"byte by byte":  iotest.OneByteReader(bytes.NewReader(data)),
		"EOF with data": iotest.DataErrReader(bytes.NewReader(data)),
	} {
		got, err := readAll(NewReader(r, ReaderOptions{}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		checkSame(t, got, want)
	}
}

func TestRoundTripKeepsEveryByteOfNames(t *testing.T) {
	var want []member
	for c := 1; c < 256; c++ {
		if c == '/' {
			continue
		}
		short := "a" + string([]byte{byte(c)}) + "b"
		want = append(want, file(short, ""), file(strings.Repeat("x", 120)+short, ""),
			member{Header{Name: "l" + short, Type: SymbolicLink, Link: string([]byte{byte(c)})}, ""})
	}
	got, err := readAll(NewReader(bytes.NewReader(archive(t, want...)), ReaderOptions{}))
	if err != nil {
		t.Error(err)
	}
	checkSame(t, got, want)
}

func TestArchivesAreDeterministic(t *testing.T) {
	if !bytes.Equal(archive(t, variety()...), archive(t, variety()...)) {
		t.Error("the same members gave different archives")
	}
}

func TestUnreadContentIsSkipped(t *testing.T) {
	want := variety()
	r := NewReader(bytes.NewReader(archive(t, want...)), ReaderOptions{})
	for i, m := range want {
		h, err := r.Next()
		if err != nil || h != m.Header {
			t.Fatalf("member %d: got %+v, %v", i, h, err)
		}
		if i%2 == 0 && h.Size > 0 {
			if _, err := r.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("got %v, want io.EOF", err)
	}
}

// The first piece ends in padding, so that the buffer begins in the middle of
// a block from there on and headers lie across its end. The size of the others
// is odd, so that no header empties it before that.
func TestHeadersArriveInPieces(t *testing.T) {
	want := []member{file("first", "content")}
	for i := range 3 * readBuffer / blockSize {
		want = append(want, file("f"+strconv.Itoa(i), ""))
	}
	src := bytes.NewReader(archive(t, want...))
	size := blockSize + 100
	pieces := readerFunc(func(p []byte) (int, error) {
		n, err := src.Read(p[:min(len(p), size)])
		size = 1001
		return n, err
	})
	got, err := readAll(NewReader(pieces, ReaderOptions{}))
	if err != nil {
		t.Error(err)
	}
	checkSame(t, got, want)
}

func TestWriteTo(t *testing.T) {
	content := strings.Repeat("0123456789", readBuffer/5)
	r := NewReader(bytes.NewReader(archive(t, file("a", content), file("b", "end"))), ReaderOptions{})
	for _, want := range []string{content, "end"} {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if n, err := io.Copy(&got, r); err != nil || n != int64(len(want)) || got.String() != want {
			t.Errorf("copied %d bytes, %v", n, err)
		}
	}
}

func TestReadingGoesOnAfterAFailedDestination(t *testing.T) {
	r := NewReader(bytes.NewReader(archive(t, file("a", strings.Repeat("a", 5000)), file("b", "end"))), ReaderOptions{})
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	if _, err := r.WriteTo(writerFunc(func(p []byte) (int, error) { return 100, full })); err != full {
		t.Errorf("got %v, want %v", err, full)
	}
	if h, err := r.Next(); err != nil || h.Name != "b" {
		t.Errorf("got %+v, %v", h, err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
