package script

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
)

// PackFunction is a shell function that prints what it reads as text, after a
// line that says how. It compresses if its argument is "yes" and gzip is
// there. Its counterpart is [Unpack]. A base64 without -w fails before it reads
// anything, and then wraps its lines.
const PackFunction = `
text() { base64 -w0 2>/dev/null || base64; }
pack() {
	if [ "$1" = yes ] && have gzip; then printf 'gzip\n'; gzip -1c | text; else printf 'plain\n'; text; fi
	printf '\n-\n'
}
`

// PassFunction is the same for a session that streams: bytes as they are.
const PassFunction = `
pack() { printf 'raw\n'; cat; printf '\n-\n'; }
`

// Unpack reads what PackFunction or PassFunction printed: content gets the
// bytes, and rest is what follows. Both are read while they arrive; rest is
// valid once content was read to its end. size is how many bytes are expected,
// which is where raw content ends; if it is wrong, so is the rest.
func Unpack(r io.Reader, size int64) (content io.Reader, rest *bufio.Reader, err error) {
	br := bufio.NewReaderSize(r, 256<<10)
	kind, err := br.ReadString('\n')
	if err != nil {
		return nil, nil, noEOF(err)
	}
	d := &textReader{r: br}
	switch kind {
	case "plain\n":
		return d, br, nil
	case "raw\n":
		return io.LimitReader(br, size), br, nil
	case "gzip\n":
		return &lateGzip{src: d}, br, nil
	}
	return nil, nil, fmt.Errorf("malformed reply: %.20q", kind)
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// textReader decodes base64 text up to a line "-". Line breaks are passed
// over, wherever they are; any other byte is an error with its offset.
type textReader struct {
	r      *bufio.Reader
	offset int64
	quad   []byte // carried over: less than four characters
	out    []byte // decoded, not yet read
	buf    []byte
	done   bool
	padded bool
}

func (t *textReader) Read(p []byte) (int, error) {
	for len(t.out) == 0 {
		if t.done {
			return 0, io.EOF
		}
		if err := t.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, t.out)
	t.out = t.out[n:]
	return n, nil
}

// fill decodes what is buffered: long runs at once, the rest byte by byte.
func (t *textReader) fill() error {
	if _, err := t.r.Peek(1); err != nil {
		return noEOF(err)
	}
	text, _ := t.r.Peek(t.r.Buffered())
	if n := run(text) / 4 * 4; n > 0 && len(t.quad) == 0 && !t.padded {
		return t.decodeRun(text[:n])
	}
	used := 0
	for _, c := range text {
		used++
		if c == '\n' || c == '\r' {
			continue
		}
		if c == '-' {
			t.done = true
			break
		}
		if !(decodable(c) && !t.padded || c == '=') {
			return fmt.Errorf("base64: byte %q at offset %d", c, t.offset+int64(used-1))
		}
		t.padded = t.padded || c == '='
		if t.quad = append(t.quad, c); len(t.quad) == 4 {
			break
		}
	}
	t.offset += int64(used)
	t.r.Discard(used)
	return t.decode()
}

// run is how many bytes come before the first that is not plain base64 text, as
// far as is easily seen.
func run(text []byte) int {
	for _, c := range []byte("\n\r-=") {
		if i := bytes.IndexByte(text, c); i >= 0 {
			text = text[:i]
		}
	}
	return len(text)
}

func (t *textReader) decodeRun(text []byte) error {
	out, err := base64.StdEncoding.AppendDecode(t.buf[:0], text)
	if err != nil {
		var at base64.CorruptInputError
		if errors.As(err, &at) {
			return fmt.Errorf("base64: byte %q at offset %d", text[at], t.offset+int64(at))
		}
		return err
	}
	t.buf, t.out = out, out
	t.offset += int64(len(text))
	t.r.Discard(len(text))
	return nil
}

func (t *textReader) decode() error {
	n := len(t.quad) / 4 * 4
	if t.done {
		if rest := len(t.quad) % 4; rest == 1 || rest != 0 && t.padded {
			return errors.New("base64: the text is not whole")
		}
		for len(t.quad)%4 != 0 {
			t.quad = append(t.quad, '=')
		}
		n = len(t.quad)
		t.r.ReadString('\n') // what is left of the line "-"
	}
	out, err := base64.StdEncoding.Strict().AppendDecode(t.buf[:0], t.quad[:n])
	if err != nil {
		return fmt.Errorf("base64: near offset %d: %w", t.offset, err)
	}
	t.buf, t.out = out, out
	t.quad = append(t.quad[:0], t.quad[n:]...)
	return nil
}

// lateGzip expands; it reads the header with the first Read.
type lateGzip struct {
	src io.Reader
	zip *gzip.Reader
}

func (l *lateGzip) Read(p []byte) (int, error) {
	if l.zip == nil {
		zip, err := gzip.NewReader(l.src)
		if err != nil {
			return 0, fmt.Errorf("gzip: %w", noEOF(err))
		}
		l.zip = zip
	}
	n, err := l.zip.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("gzip: %w", err)
	}
	return n, err
}
