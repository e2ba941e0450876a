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

	"github.com/sbsync/sbsync/pkg/tree"
)

// Files change while they are read (B46, B48): the archive stays valid, what
// follows included, and the result tells.
func TestWriteFileKeepsItsPromise(t *testing.T) {
	large := strings.Repeat("x", 3*writeBuffer)
	broken := errors.New("input/output error")
	tests := map[string]struct {
		size   int64
		r      io.Reader
		want   string // content, zeros trimmed
		result FileResult
	}{
		"exact":           {5, strings.NewReader("exact"), "exact", FileResult{Read: 5}},
		"empty":           {0, strings.NewReader(""), "", FileResult{}},
		"large":           {int64(len(large)), strings.NewReader(large), large, FileResult{Read: int64(len(large))}},
		"in pieces":       {700, iotest.OneByteReader(strings.NewReader(large[:700])), large[:700], FileResult{Read: 700}},
		"end with data":   {5, iotest.DataErrReader(strings.NewReader("exact")), "exact", FileResult{Read: 5}},
		"grown":           {4, strings.NewReader("grown"), "grow", FileResult{Read: 4, Grown: true}},
		"grown from none": {0, strings.NewReader("x"), "", FileResult{Grown: true}},
		"endless":         {1000, endless{}, strings.Repeat("e", 1000), FileResult{Read: 1000, Grown: true}},
		"short":           {10, strings.NewReader("short"), "short", FileResult{Read: 5, Short: true}},
		"short to none":   {2000, strings.NewReader(""), "", FileResult{Short: true}},
		"short by much":   {3 * writeBuffer, strings.NewReader("x"), "x", FileResult{Read: 1, Short: true}},
		"read error": {10, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), "abc",
			FileResult{Read: 3, Short: true, Err: broken}},
		"error after all": {3, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), "abc", FileResult{Read: 3}},
		"no progress": {3, readerFunc(func([]byte) (int, error) { return 0, nil }), "",
			FileResult{Short: true, Err: io.ErrNoProgress}},
	}
	for name, test := range tests {
		var out bytes.Buffer
		w := NewWriter(&out)
		result, err := w.WriteFile(Header{Name: "f", Type: RegularFile, Size: test.size}, test.r)
		if err != nil || result != test.result {
			t.Errorf("%s: got %+v, %v, want %+v", name, result, err, test.result)
		}
		if err := errors.Join(w.WriteBytes(Header{Name: "after", Type: RegularFile}, []byte("ok")), w.Close()); err != nil {
			t.Error(err)
		}
		got, err := readAll(NewReader(&out, ReaderOptions{}))
		if err != nil || len(got) != 2 || got[1].content != "ok" {
			t.Errorf("%s: the archive is damaged: %d members, %v", name, len(got), err)
			continue
		}
		if c := got[0].content; int64(len(c)) != test.size || strings.TrimRight(c, "\x00") != test.want {
			t.Errorf("%s: %d bytes of content, want %d", name, len(c), test.size)
		}
	}
}

// endless is a file that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'e'
	}
	return len(p), nil
}

func TestWriterRefusesHeaders(t *testing.T) {
	bad := map[string]Header{
		"no name":             {Type: RegularFile},
		"root":                {Name: ".", Type: Directory},
		"dot":                 {Name: "./a", Type: RegularFile},
		"absolute":            {Name: "/a", Type: RegularFile},
		"parent":              {Name: "a/../b", Type: RegularFile},
		"slash at the end":    {Name: "d/", Type: Directory},
		"NUL in name":         {Name: "a\x00b", Type: RegularFile},
		"NUL in long name":    {Name: strings.Repeat("n", 150) + "\x00", Type: RegularFile},
		"NUL in link":         {Name: "s", Type: SymbolicLink, Link: "a\x00"},
		"link to nothing":     {Name: "s", Type: SymbolicLink},
		"hard link outside":   {Name: "h", Type: HardLink, Link: "../x"},
		"file with link":      {Name: "f", Type: RegularFile, Link: "x"},
		"directory with size": {Name: "d", Type: Directory, Size: 1},
		"link with size":      {Name: "s", Type: SymbolicLink, Link: "x", Size: 1},
		"content missing":     {Name: "f", Type: RegularFile, Size: 1},
		"negative size":       {Name: "f", Type: RegularFile, Size: -1},
		"no type":             {Name: "f"},
		"device":              {Name: "f", Type: '3'},
		"nanoseconds":         {Name: "f", Type: RegularFile, Time: tree.Time{Nsec: 1e9}},
		"negative nanos":      {Name: "f", Type: RegularFile, Time: tree.Time{Nsec: -1}},
	}
	var out bytes.Buffer
	w := NewWriter(&out)
	for name, h := range bad {
		if err := w.WriteHeader(h); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, typ := range []Type{Directory, SymbolicLink, HardLink} {
		if _, err := w.WriteFile(Header{Name: "x", Type: typ, Link: "x"}, strings.NewReader("")); err == nil {
			t.Errorf("%s with content: accepted", typ)
		}
	}
	if _, err := w.WriteFile(Header{Name: "f", Type: RegularFile, Size: -1}, strings.NewReader("")); err == nil {
		t.Error("negative size: accepted")
	}
	if w.Written() != 0 {
		t.Errorf("%d bytes written for refused headers", w.Written())
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestWriteErrorsStay(t *testing.T) {
	broken := errors.New("broken pipe")
	left := writeBuffer + 100
	w := NewWriter(writerFunc(func(p []byte) (int, error) {
		if len(p) > left {
			return left, broken
		}
		left -= len(p)
		return len(p), nil
	}))
	_, err := w.WriteFile(Header{Name: "f", Type: RegularFile, Size: 10 * writeBuffer}, endless{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if w.Written() != writeBuffer+100 {
		t.Errorf("Written() = %d, want %d", w.Written(), writeBuffer+100)
	}
	for name, again := range map[string]error{"WriteHeader": w.WriteHeader(Header{Name: "d", Type: Directory}),
		"WriteBytes": w.WriteBytes(Header{Name: "b", Type: RegularFile}, nil), "Flush": w.Flush(), "Close": w.Close()} {
		if !errors.Is(again, broken) {
			t.Errorf("%s: got %v, want %v", name, again, broken)
		}
	}
}

func TestShortWriteIsAnError(t *testing.T) {
	w := NewWriter(writerFunc(func(p []byte) (int, error) { return len(p) - 1, nil }))
	if err := w.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got %v, want %v", err, io.ErrShortWrite)
	}
}

func TestWriteAfterClose(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteHeader(Header{Name: "d", Type: Directory}); err == nil {
		t.Error("wrote after Close")
	}
	if out.Len() != endSize {
		t.Errorf("%d bytes, want %d", out.Len(), endSize)
	}
}

func TestFlushMakesMembersArrive(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	if err := errors.Join(w.WriteBytes(Header{Name: "f", Type: RegularFile}, []byte("x")), w.Flush()); err != nil {
		t.Fatal(err)
	}
	if out.Len() != 2*blockSize {
		t.Errorf("%d bytes arrived, want %d", out.Len(), 2*blockSize)
	}
}

// archive/tar judges: the same members, nobody's files (B53), and no extended
// attributes (P02).
func TestStandardReaderAgrees(t *testing.T) {
	want := variety()
	r := tar.NewReader(bytes.NewReader(archive(t, want...)))
	for _, m := range want {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%.100q: %v", m.Name, err)
		}
		content, err := io.ReadAll(r)
		if err != nil || string(content) != m.content {
			t.Errorf("%.100q: other content, %v", m.Name, err)
		}
		if h.Name != m.Name || h.Linkname != m.Link || h.Typeflag != byte(m.Type) || h.Mode != int64(m.Mode) || h.Size != m.Size {
			t.Errorf("got %+v, want %+v", h, m.Header)
		}
		if !h.ModTime.Equal(time.Unix(m.Time.Sec, int64(m.Time.Nsec))) {
			t.Errorf("%.100q: got %v, want %+v", m.Name, h.ModTime, m.Time)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%.100q: owner %d:%d %q:%q", m.Name, h.Uid, h.Gid, h.Uname, h.Gname)
		}
		for key := range h.PAXRecords {
			if key != paxSize && key != paxTime {
				t.Errorf("%.100q: PAX record %q", m.Name, key)
			}
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("got %v, want io.EOF", err)
	}
}

// BusyBox has the header alone, so its time must not lie in the future of the
// real one.
func TestHeaderTimeIsRoundedDown(t *testing.T) {
	for _, tm := range []tree.Time{{Sec: 5, Nsec: 999_999_999}, {Sec: -5, Nsec: 1}} {
		data := archive(t, member{Header{Name: "f", Type: RegularFile, Time: tm}, ""})
		block := data[len(data)-endSize-blockSize:]
		if sec, ok := parseNumber(block[offTime : offTime+lenTime]); !ok || sec != tm.Sec {
			t.Errorf("%+v: header has %d", tm, sec)
		}
	}
}

func TestPAXRecordLengthsCountThemselves(t *testing.T) {
	for n := range 1200 {
		value := bytes.Repeat([]byte("v"), n)
		b := appendPAX(nil, "key", value)
		key, got, rest, ok := nextPAX(b)
		if !ok || string(key) != "key" || !bytes.Equal(got, value) || len(rest) != 0 {
			t.Fatalf("%d bytes: %.20q", n, b)
		}
	}
}

func TestDecimalTimes(t *testing.T) {
	tests := []struct {
		text string
		want tree.Time
		ok   bool
	}{
		{"0", tree.Time{}, true},
		{"1.5", tree.Time{Sec: 1, Nsec: 5e8}, true},
		{"-1.5", tree.Time{Sec: -2, Nsec: 5e8}, true},
		{"-0.25", tree.Time{Sec: -1, Nsec: 75e7}, true},
		{"1.0000000019", tree.Time{Sec: 1, Nsec: 1}, true},
		{"-1.0000000019", tree.Time{Sec: -2, Nsec: 999_999_998}, true},
		{"-1.0000000001", tree.Time{Sec: -2, Nsec: 999_999_999}, true},
		{"-1.9999999999", tree.Time{Sec: -2}, true},
		{"9223372036854775807", tree.Time{Sec: 1<<63 - 1}, true},
		{"-9223372036854775808", tree.Time{Sec: -1 << 63}, true},
		{"-9223372036854775808.5", tree.Time{}, false},
		{"9223372036854775808", tree.Time{}, false},
		{"", tree.Time{}, false},
		{"-", tree.Time{}, false},
		{"+1", tree.Time{}, false},
		{"--1", tree.Time{}, false},
		{"1.", tree.Time{}, false},
		{".5", tree.Time{}, false},
		{"1.5.5", tree.Time{}, false},
		{"1.-5", tree.Time{}, false},
		{"1e3", tree.Time{}, false},
		{"0x10", tree.Time{}, false},
		{"NaN", tree.Time{}, false},
	}
	for _, test := range tests {
		if got, ok := parseDecimal(test.text); ok != test.ok || ok && got != test.want {
			t.Errorf("%q: got %+v, %v", test.text, got, ok)
		}
	}
}
