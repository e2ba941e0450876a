package providertest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

type member struct{ name, content string }

// tarOf makes an archive, with extension headers where names are long.
func tarOf(t testing.TB, members ...member) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		if err := w.WriteHeader(&tar.Header{Name: m.name, Size: int64(len(m.content)), Mode: 0o644, Format: tar.FormatPAX}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, m.content)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var longName = strings.Repeat("long/", 60) + "name" // needs an extension header

func fourMembers(t testing.TB) string {
	return tarOf(t, member{"a", "aaaa"}, member{longName, strings.Repeat("b", 1000)}, member{"empty", ""}, member{"d", strings.Repeat("d", 600)})
}

// cutAt returns what passes of text when it comes in pieces of size bytes.
func cutAt(c Cut, text string, size int) (string, bool) {
	cut := &cutter{cut: c}
	var passed []byte
	for piece := range slices.Chunk([]byte(text), size) {
		n := cut.pass(piece)
		passed = append(passed, piece[:n]...)
		if cut.done {
			break
		}
	}
	return string(passed), cut.done
}

func TestCutter(t *testing.T) {
	archive := fourMembers(t)
	whole := len(archive)
	firstEnds := 1024 // header, 4 bytes padded
	secondEnds := strings.Index(archive, "empty\x00")
	for name, tc := range map[string]struct {
		cut  Cut
		want int
	}{
		"none":                {Cut{}, whole},
		"bytes":               {Cut{Bytes: 700}, 700},
		"bytes, at the end":   {Cut{Bytes: int64(whole)}, whole},
		"bytes, after it":     {Cut{Bytes: int64(whole) + 1}, whole},
		"after one member":    {Cut{Members: 1}, firstEnds},
		"after two members":   {Cut{Members: 2}, secondEnds},
		"after three":         {Cut{Members: 3}, secondEnds + 512},
		"after five":          {Cut{Members: 5}, whole},
		"inside the first":    {Cut{Inside: 1}, 512 + 2},
		"inside the second":   {Cut{Inside: 2}, secondEnds - 1024 + 500},
		"inside the third":    {Cut{Inside: 3}, secondEnds + 512 + 512 + 300}, // it is empty, so the fourth
		"inside one too many": {Cut{Inside: 5}, whole},
	} {
		for _, size := range []int{1, 7, 512, 1000, whole} {
			got, done := cutAt(tc.cut, archive, size)
			if got != archive[:tc.want] || done != (tc.want < whole || name == "bytes, at the end") {
				t.Errorf("%s, pieces of %d: %d bytes pass (done %v), want %d", name, size, len(got), done, tc.want)
			}
		}
	}
	if got, done := cutAt(Cut{Members: 1}, strings.Repeat("no archive", 1000), 100); done || len(got) != 10_000 {
		t.Errorf("what is no archive is cut")
	}
}

// withSize returns an archive whose first header has this size field.
func withSize(t testing.TB, field string) string {
	h := []byte(fourMembers(t))
	copy(h[124:136], field)
	copy(h[148:156], "        ")
	sum := 0
	for _, b := range h[:blockSize] {
		sum += int(b)
	}
	copy(h[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return string(h)
}

// No size may make the cutter go round for ever.
func TestCutterAgainstStrangeSizes(t *testing.T) {
	for _, field := range []string{"-0000000001\x00", "-7777777777\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff", "77777777777\x00"} {
		archive := withSize(t, field)
		if got, done := cutAt(Cut{Members: 1}, archive, 1000); done || got != archive {
			t.Errorf("size %q: %d of %d bytes pass, done %v", field, len(got), len(archive), done)
		}
	}
}

func FuzzCutter(f *testing.F) {
	f.Add([]byte(fourMembers(f)), 1, 0, 100)
	f.Add([]byte(fourMembers(f)), 0, 2, 511)
	f.Add(append([]byte(fourMembers(f))[:600], 0xff), 1, 1, 7)
	f.Add([]byte(withSize(f, "-0000000001\x00")), 1, 0, 100)
	f.Fuzz(func(t *testing.T, text []byte, members, inside, size int) {
		cut := Cut{Members: members, Inside: inside}
		whole, done := cutAt(cut, string(text), max(1, len(text)))
		if !strings.HasPrefix(string(text), whole) || !done && len(whole) != len(text) {
			t.Fatalf("%d of %d bytes, done %v", len(whole), len(text), done)
		}
		if size > 0 {
			if pieces, again := cutAt(cut, string(text), size); pieces != whole || again != done {
				t.Fatalf("in pieces of %d: %d bytes, in one: %d", size, len(pieces), len(whole))
			}
		}
	})
}

func TestCutStreamOut(t *testing.T) {
	archive := fourMembers(t)
	for name, tc := range map[string]struct {
		cut  Cut
		want int
	}{
		"bytes":   {Cut{Bytes: 700}, 700},
		"members": {Cut{Members: 1}, 1024},
		"inside":  {Cut{Inside: 1}, 514},
	} {
		f := Open(t, Options{Stream: true, CutStreamOut: tc.cut})
		if err := os.WriteFile(filepath.Join(f.Root(), "archive"), []byte(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		// The command waits for an acknowledgement that can't come.
		in, toCommand := io.Pipe()
		var out bytes.Buffer
		cmd := script("cat archive; read ack; exit 9")
		cmd.Stdin, cmd.Stdout = in, &out
		res, err := f.Stream(t.Context(), cmd)
		toCommand.Close()
		if err != nil || res.ExitCode != 0 || out.String() != archive[:tc.want] {
			t.Errorf("%s: %d bytes, exit code %d, error %v", name, out.Len(), res.ExitCode, err)
		}
		fired(t, f, "cut_stream_out", 1)
	}
}

func TestCutStreamIn(t *testing.T) {
	archive := fourMembers(t)
	for name, tc := range map[string]struct {
		cut  Cut
		want int
	}{
		"bytes":   {Cut{Bytes: 700}, 700},
		"members": {Cut{Members: 1}, 1024},
		"inside":  {Cut{Inside: 1}, 514},
	} {
		f := Open(t, Options{Stream: true, CutStreamIn: tc.cut})
		cmd := script("cat >got; exit 9")
		rest := strings.NewReader(archive)
		cmd.Stdin, cmd.Stdout = rest, io.Discard
		res, err := f.Stream(t.Context(), cmd)
		got, _ := os.ReadFile(filepath.Join(f.Root(), "got"))
		if err != nil || res.ExitCode != 0 || string(got) != archive[:tc.want] {
			t.Errorf("%s: %d bytes, exit code %d, error %v", name, len(got), res.ExitCode, err)
		}
		fired(t, f, "cut_stream_in", 1)
	}
}

func TestCutOnceAndBreak(t *testing.T) {
	f := Open(t, Options{Stream: true, CutStreamOut: Cut{Bytes: 2, Times: 1, Break: true}, CutStreamIn: Cut{Bytes: 3, Times: 1, Break: true}})
	for i, want := range []struct {
		out   string
		fails bool
	}{{"ab", true}, {"abcd", false}} {
		var out bytes.Buffer
		cmd := script("echo abcd | head -c 4; sleep 0")
		cmd.Stdout = &out
		_, err := f.Stream(t.Context(), cmd)
		if out.String() != want.out || want.fails != (provider.KindOf(err) == provider.Unreachable) {
			t.Errorf("output %d: %q, error %v", i, out.String(), err)
		}
	}
	for i, fails := range []bool{true, false} {
		cmd := scriptWith("abcd", "cat >got; true")
		cmd.Stdout = io.Discard
		if _, err := f.Stream(t.Context(), cmd); fails != (provider.KindOf(err) == provider.Unreachable) {
			t.Errorf("input %d: error %v", i, err)
		}
	}
	fired(t, f, "cut_stream_out", 1)
	fired(t, f, "cut_stream_in", 1)
}
