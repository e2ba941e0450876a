package script

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
)

// maxReport bounds what a report may decode to: about two million entries of a
// listing. The sandbox is not trusted to stop by itself.
const maxReport = 512 << 20

// replyOverhead is room for the marks and the header line around a page.
const replyOverhead = 1 << 10

// Report runs a script whose output may hold any bytes and returns them. On a
// session that does not stream the output travels as compressed text, in as
// many calls as the provider's output limit makes necessary; the script then
// runs once for each, with its Input read from the start, and all must print
// the same.
func (s *Session) Report(ctx context.Context, sc Script) ([]byte, error) {
	if s.stream != nil {
		return s.Run(ctx, sc)
	}
	for attempt := 0; ; attempt++ {
		text, err := s.pages(ctx, sc)
		if err == nil {
			return text, nil
		}
		if !errors.Is(err, errUnstable) {
			return nil, err
		}
		if attempt == 2 {
			return nil, &provider.Error{Kind: provider.Integrity, Op: sc.Label, Err: err}
		}
	}
}

var errUnstable = errors.New("the output changed from one call to the next")

func (s *Session) pages(ctx context.Context, sc Script) ([]byte, error) {
	first, err := s.page(ctx, sc, 0)
	if err != nil {
		return nil, err
	}
	text := first.text
	for int64(len(text)) < first.size {
		next, err := s.page(ctx, sc, int64(len(text)))
		if err != nil {
			return nil, err
		}
		if next.size != first.size || next.sum != first.sum || len(next.text) == 0 {
			return nil, errUnstable
		}
		text = append(text, next.text...)
	}
	if int64(len(text)) != first.size {
		return nil, &CutError{Label: sc.Label, Got: int64(len(text))}
	}
	raw, err := Decode(nil, text)
	if err != nil {
		return nil, &provider.Error{Kind: provider.Integrity, Op: sc.Label, Err: err}
	}
	if !first.gzip {
		return raw, nil
	}
	return gunzip(sc.Label, raw)
}

func gunzip(label string, raw []byte) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, &provider.Error{Kind: provider.Integrity, Op: label, Err: err}
	}
	out, err := io.ReadAll(io.LimitReader(zr, maxReport+1))
	if err != nil {
		return nil, &provider.Error{Kind: provider.Integrity, Op: label, Err: err}
	}
	if len(out) > maxReport {
		return nil, &provider.Error{Kind: provider.TooLarge, Op: label, Err: fmt.Errorf("more than %d bytes", maxReport)}
	}
	return out, nil
}

// page is a part of a report's text, with what is known of the whole.
type page struct {
	text []byte
	size int64
	sum  string
	gzip bool
}

// pageAttempts is how often a page whose reply is cut is asked for: the second
// time shows whether it was an accident.
const pageAttempts = 4

// page fetches the text from an offset on, as much as one call delivers. If
// the provider turns out to deliver less than was thought, it learns from that.
func (s *Session) page(ctx context.Context, sc Script, offset int64) (page, error) {
	for attempt := 1; ; attempt++ {
		if seeker, ok := sc.Input.(io.Seeker); ok {
			if _, err := seeker.Seek(0, io.SeekStart); err != nil {
				return page{}, err
			}
		}
		ps := pageScript(sc, offset, s.maxOut.Load())
		ps.Idempotent = sc.Idempotent || offset > 0 // it has run before
		reply, err := s.Run(ctx, ps)
		var cut *CutError
		if errors.As(err, &cut) && attempt < pageAttempts {
			s.NoteCut(cut.Got)
			continue
		}
		if err != nil {
			return page{}, err
		}
		return parsePage(sc.Label, reply)
	}
}

// MaxOutput is how many bytes of text one call delivers as far as is known; 0
// means that no limit is known.
func (s *Session) MaxOutput() int64 { return s.maxOut.Load() }

func pageScript(sc Script, offset, limit int64) Script {
	cut := "printf %s \"$o\""
	if offset > 0 {
		cut += " | tail -c +" + strconv.FormatInt(offset+1, 10)
	}
	if limit > 0 {
		cut += " | head -c " + strconv.FormatInt(max(limit-replyOverhead, 1), 10)
	}
	// The exit code of the body would get lost in the pipe, so it travels as
	// the last line of the collected text.
	sc.Body = `printf x | base64 >/dev/null 2>&1 || die ` + strconv.Itoa(ExitNoBase64) + ` 'base64 not found'
if have gzip; then z=gzip; pack() { gzip -1c; }; else z=plain; pack() { cat; }; fi
produce() {
` + sc.Body + `
}
o=$( { r=$( { { (produce "$@"); printf %s "$?" >&4; } | pack | base64 >&5; } 4>&1 ); } 5>&1; echo "#$r")
r=${o##*#}; [ "$r" = 0 ] || exit "$r"
o=${o%#*}
set -- $(printf %s "$o" | { cksum || sha256sum || md5sum || echo -; } 2>/dev/null)
printf '%s %s %s\n' "$z" "${#o}" "$1"
` + cut + "\n"
	return sc
}

func parsePage(label string, reply []byte) (page, error) {
	head, text, ok := bytes.Cut(reply, []byte("\n"))
	f := strings.Fields(string(head))
	if !ok || len(f) != 3 {
		return page{}, &provider.Error{Kind: provider.Integrity, Op: label, Err: fmt.Errorf("malformed reply %.40q", head)}
	}
	size, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil || size < 0 || size > maxReport/3*4 {
		return page{}, &provider.Error{Kind: provider.Integrity, Op: label, Err: fmt.Errorf("malformed reply %.40q", head)}
	}
	return page{text: text, size: size, sum: f[2], gzip: f[0] == "gzip"}, nil
}
