package script

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestDecode(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 50)
	text := base64.StdEncoding.EncodeToString(long)
	var lf, crlf strings.Builder
	for i := 0; i < len(text); i += 76 {
		line := text[i:min(i+76, len(text))]
		lf.WriteString(line + "\n")
		crlf.WriteString(line + "\r\n")
	}
	for name, s := range map[string]string{
		"one line": text, "wrapped": lf.String(), "wrapped with CRLF": crlf.String(),
		"no newline at the end": strings.TrimSpace(lf.String()), "no padding": strings.TrimRight(text, "="),
		"blank lines": "\n\r\n" + text + "\n\n",
	} {
		if got, err := Decode([]byte("x"), []byte(s)); err != nil || string(got) != "x"+string(long) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for s, want := range map[string]string{
		"QU JD": "offset 2", "QUJD\n-": "offset 5", "QUJ\x00": "offset 3", "QQ=": "padding", "QQ=\n": "padding", "Q": "base64",
		"QR==": "base64", "QQ==QQ==": "base64", "=": "base64",
	} {
		if _, err := Decode(nil, []byte(s)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", s, err, want)
		}
	}
}

// reference decodes with encoding/base64 alone.
func reference(text []byte) ([]byte, bool) {
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		if out, err := enc.Strict().DecodeString(string(text)); err == nil {
			return out, true
		}
	}
	return nil, false
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"", "QQ==", "QUI=", "QUJD\r\nQUI", "QQ=", "====", "A\nB\nC\nD", "QR=="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Decode(nil, text)
		want, ok := reference(text)
		if (err == nil) != ok || ok && !bytes.Equal(got, want) {
			t.Errorf("%q: got %q, %v; encoding/base64 says %q, %v", text, got, err, want, ok)
		}
		// What is read from a reply is decoded by other code, to the same.
		if bytes.IndexByte(text, '-') < 0 {
			content, rest, err := Unpack(io.MultiReader(strings.NewReader("plain\n"), bytes.NewReader(text), strings.NewReader("\n-\nrest")), 0)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(content)
			if (err == nil) != ok || ok && !bytes.Equal(got, want) {
				t.Errorf("in a reply, %q: got %q, %v; encoding/base64 says %q, %v", text, got, err, want, ok)
			}
			if left, _ := io.ReadAll(rest); ok && string(left) != "rest" {
				t.Errorf("%q: rest %q", text, left)
			}
		}
	})
}

// packed is what the shell's pack prints.
func packed(content []byte, kind string, wrap int) string {
	raw := content
	if kind == "gzip" {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(content)
		z.Close()
		raw = b.Bytes()
	}
	text := base64.StdEncoding.EncodeToString(raw)
	var b strings.Builder
	for i := 0; i < len(text); i += wrap {
		b.WriteString(text[i:min(i+wrap, len(text))] + "\n")
	}
	if kind == "raw" {
		return "raw\n" + string(content) + "\n-\n"
	}
	return kind + "\n" + b.String() + "\n-\n"
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte("hello"), uint8(0), uint8(76), []byte("plain\nQQ==\n-\n"))
	f.Add([]byte("-\n\r"), uint8(1), uint8(1), []byte("gzip\nH4sIAAAA\n-\n"))
	f.Add([]byte{}, uint8(2), uint8(0), []byte("raw\n"))
	f.Fuzz(func(t *testing.T, content []byte, kind, wrap uint8, hostile []byte) {
		name := []string{"plain", "gzip", "raw"}[kind%3]
		text := packed(content, name, int(wrap)+1) + "digest\n"
		got, rest, err := Unpack(iotest.OneByteReader(strings.NewReader(text)), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(got)
		if err != nil || !bytes.Equal(b, content) {
			t.Fatalf("%q: got %q, %v", text, b, err)
		}
		left, _ := io.ReadAll(rest)
		if want := map[bool]string{true: "\n-\ndigest\n", false: "digest\n"}[name == "raw"]; string(left) != want {
			t.Fatalf("%q: rest %q, want %q", text, left, want)
		}
		// Whatever a sandbox sends: no panic, and an end.
		if got, _, err := Unpack(bytes.NewReader(hostile), 10); err == nil {
			io.CopyN(io.Discard, got, 1<<20)
		}
	})
}

func TestUnpackRefuses(t *testing.T) {
	for _, text := range []string{"", "plain", "zstd\nQQ==\n-\n", "plain\nQQ==", "plain\nQ\n-\n", "plain\nQ!\n-\n", "gzip\nQUJD\n-\n", "plain\nQQ=\n-\n"} {
		content, _, err := Unpack(strings.NewReader(text), 1)
		if err == nil {
			_, err = io.ReadAll(content)
		}
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestEncoderReadsAgain(t *testing.T) {
	content := bytes.Repeat([]byte("some bytes "), 20_000)
	for _, sentinel := range []bool{false, true} {
		e := newEncoder(bytes.NewReader(content), sentinel)
		io.CopyN(io.Discard, e, 100_000)
		if _, err := e.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(iotest.HalfReader(e))
		if err != nil {
			t.Fatal(err)
		}
		text, found := bytes.CutSuffix(text, []byte("\n.\n.\n"))
		if found != sentinel {
			t.Errorf("sentinel: %v", found)
		}
		if got, err := Decode(nil, text); err != nil || !bytes.Equal(got, content) {
			t.Errorf("sentinel %v: %v", sentinel, err)
		}
		if _, err := e.Seek(1, io.SeekStart); err == nil {
			t.Error("seek to the middle")
		}
	}
}
