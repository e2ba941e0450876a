package tarball

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sbsync/sbsync/pkg/tree"
)

// lively is an archive of all kinds of records, small enough to cut anywhere.
func lively(t *testing.T) []byte {
	return archive(t, file("a", "1"), file("b", strings.Repeat("2", 600)),
		member{Header{Name: strings.Repeat("n", 150), Type: RegularFile, Time: tree.Time{Sec: 1, Nsec: 1}}, ""},
		member{Header{Name: "s", Type: SymbolicLink, Link: strings.Repeat("l", 150)}, ""}, file("z", ""))
}

// cuts yields lengths below n: around every block boundary, some inside of
// blocks, and all of the last ones.
func cuts(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			in := i % blockSize
			if (in <= 1 || in == blockSize-1 || i%97 == 0 || i > n-20) && !yield(i) {
				return
			}
		}
	}
}

// Every tar takes an archive that was cut between two members for whole (M1,
// B03). So each byte that is missing must be noticed.
func TestEveryCutIsNoticed(t *testing.T) {
	const trailer = "\nend 0\n"
	data := lively(t)
	for n := range cuts(len(data)) {
		_, err := readAll(NewReader(bytes.NewReader(data[:n]), ReaderOptions{}))
		checkKind(t, "without trailer", err, io.ErrUnexpectedEOF)
	}
	data = concat(data, data, []byte(trailer))
	for n := range cuts(len(data)) {
		r := NewReader(bytes.NewReader(data[:n]), ReaderOptions{Trailer: "end "})
		_, err := readAll(r)
		checkKind(t, "with trailer", err, io.ErrUnexpectedEOF)
		if r.Trailer() != "" {
			t.Errorf("trailer %q after %d bytes", r.Trailer(), n)
		}
	}
}

// A tar that is killed leaves a cut archive, and the shell after it still
// prints the trailer.
func TestEveryCutBeforeTheTrailerIsNoticed(t *testing.T) {
	data := lively(t)
	for n := range cuts(len(data)) {
		if n < blockSize {
			continue // too little to tell
		}
		r := NewReader(bytes.NewReader(append(bytes.Clone(data[:n]), "\nend 137\n"...)), ReaderOptions{Trailer: "end "})
		if _, err := readAll(r); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d of %d: got %v", n, len(data), err)
		}
	}
	r := NewReader(strings.NewReader(string(plain)+"end 137\n"), ReaderOptions{Trailer: "end "})
	_, err := readAll(r)
	checkKind(t, "cut between members", err, io.ErrUnexpectedEOF)
	if r.Trailer() != "137" {
		t.Errorf("trailer %q, want 137", r.Trailer())
	}
}

func TestTrailer(t *testing.T) {
	one, two := archive(t, file("a", "1")), archive(t, file("b", "2"))
	zeros := func(n int) []byte { return make([]byte, n) }
	tests := map[string]struct {
		stream  []byte
		members int
		trailer string
	}{
		"at once":             {concat(one, []byte("end 0\n")), 1, " 0"},
		"on a line":           {concat(one, []byte("\nend 0\n")), 1, " 0"},
		"after more zeros":    {concat(one, zeros(8192), []byte("\nend 0\n")), 1, " 0"},
		"after odd zeros":     {concat(one, zeros(77), []byte("end 0\n")), 1, " 0"},
		"two archives":        {concat(one, two, []byte("\nend 0\n")), 2, " 0"},
		"padded archives":     {concat(one, zeros(8192), two, zeros(512), []byte("\nend 0\n")), 2, " 0"},
		"with empty archives": {concat(endBlocks, one, endBlocks, endBlocks, two, endBlocks, []byte("\nend 0\n")), 2, " 0"},
		"no archive":          {[]byte("\nend 2\n"), 0, " 2"},
		"only empty archives": {concat(endBlocks, zeros(9216), []byte("end 2\n")), 0, " 2"},
		"nothing after it":    {concat(one, []byte("end\n")), 1, ""},
		"longest":             {concat(one, []byte("end"+strings.Repeat("x", 253)+"\n")), 1, strings.Repeat("x", 253)},
		"like a name":         {concat(raw('0', "\nen", 0), raw('0', "en", 0), endBlocks, []byte("\nend 0\n")), 2, " 0"},
	}
	for name, test := range tests {
		for _, chunked := range []bool{false, true} {
			// The stream stays open after the trailer: more than its line must
			// not be waited for.
			var stream io.Reader = bytes.NewReader(test.stream)
			if chunked {
				stream = iotest.OneByteReader(stream)
			}
			r := NewReader(io.MultiReader(stream, iotest.ErrReader(errors.New("read past the trailer"))), ReaderOptions{Trailer: "end"})
			got, err := readAll(r)
			if err != nil || len(got) != test.members || r.Trailer() != test.trailer {
				t.Errorf("%s: %d members, trailer %q, %v", name, len(got), r.Trailer(), err)
			}
		}
	}
}

func TestTrailerThatIsTooLong(t *testing.T) {
	for _, end := range []string{"\n", ""} {
		r := NewReader(strings.NewReader("end"+strings.Repeat("x", 254)+end), ReaderOptions{Trailer: "end"})
		_, err := readAll(r)
		checkKind(t, "too long", err, ErrCorrupt)
	}
}

func TestTrailerThatCannotBeFound(t *testing.T) {
	for _, trailer := range []string{"a\nb", "\n", "\x00", strings.Repeat("x", MaxTrailer+1)} {
		if _, err := NewReader(strings.NewReader(trailer+"\n"), ReaderOptions{Trailer: trailer}).Next(); err == nil || err == io.EOF {
			t.Errorf("%.10q: got %v, want an error", trailer, err)
		}
	}
}

func TestErrorsOfTheStreamPass(t *testing.T) {
	lost := errors.New("connection lost")
	data := lively(t)
	for n := range cuts(len(data)) {
		r := NewReader(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(lost)), ReaderOptions{})
		if _, err := readAll(r); !errors.Is(err, lost) {
			t.Fatalf("after %d bytes: got %v", n, err)
		}
	}
	stuck := NewReader(readerFunc(func([]byte) (int, error) { return 0, nil }), ReaderOptions{})
	if _, err := stuck.Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got %v, want %v", err, io.ErrNoProgress)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
