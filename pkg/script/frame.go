package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

// frame takes a script's standard output apart while it arrives. Around the
// reply stand three marks, each with the session's random word:
//
//	\nsbsync-begin WORD\n  reply  \nsbsync-err WORD\n  standard error  \nsbsync-end WORD CODE\n
//
// What comes before the first and after the last mark is not the script's
// (standard error that a provider merged into the output, say).
type frame struct {
	begin, mid, end []byte
	out             io.Writer // receives the reply; nil: collected in body

	ended  chan struct{} // closed when the last mark was first seen
	closed chan struct{} // closed when the call returned
	giveUp func()        // ends a call that does not return after its reply

	mu     sync.Mutex
	late   *time.Timer // calls giveUp
	state  int
	hold   []byte // seen, but may be the start of a mark
	body   []byte
	stderr []byte
	code   int
	total  int64
	outErr error
}

const (
	beforeBegin = iota
	inBody
	inStderr
	inCode
	afterEnd
)

func newFrame(word string) *frame {
	return &frame{
		begin: []byte("\nsbsync-begin " + word + "\n"),
		mid:   []byte("\nsbsync-err " + word + "\n"),
		end:   []byte("\nsbsync-end " + word + " "),
		ended: make(chan struct{}), closed: make(chan struct{}), giveUp: func() {},
	}
}

// Write takes the next piece of standard output.
func (f *frame) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(p)
	f.total += int64(n)
	for len(p) > 0 {
		switch f.state {
		case beforeBegin:
			_, p = f.until(f.begin, p, nil)
		case inBody:
			_, p = f.until(f.mid, p, f.emit)
		case inStderr:
			_, p = f.until(f.end, p, f.complain)
		case inCode:
			p = f.readCode(p)
		default:
			p = nil
		}
		if f.outErr != nil {
			return n, f.outErr
		}
	}
	return n, nil
}

// until passes on what comes before the mark and moves to the next state when
// it finds it. Bytes that may be the start of a mark are held back.
func (f *frame) until(mark, p []byte, emit func([]byte)) (found bool, rest []byte) {
	if emit == nil {
		emit = func([]byte) {}
	}
	// A mark that straddles two writes is found in a copy of the seam.
	if len(f.hold) > 0 {
		k := min(len(p), len(mark)-1)
		seam := append(f.hold, p[:k]...)
		if i := bytes.Index(seam, mark); i >= 0 {
			emit(seam[:i])
			used := i + len(mark) - len(f.hold)
			f.hold = nil
			f.state++
			return true, p[used:]
		}
		if k < len(mark)-1 { // p is used up
			keep := holdFrom(seam, mark)
			emit(seam[:keep])
			f.hold = append([]byte(nil), seam[keep:]...)
			return false, nil
		}
		emit(f.hold)
		f.hold = nil
	}
	if i := bytes.Index(p, mark); i >= 0 {
		emit(p[:i])
		f.state++
		return true, p[i+len(mark):]
	}
	keep := holdFrom(p, mark)
	emit(p[:keep])
	f.hold = append([]byte(nil), p[keep:]...)
	return false, nil
}

// holdFrom returns where the longest end of b begins that is also a start of
// mark, len(b) if there is none.
func holdFrom(b, mark []byte) int {
	for i := max(0, len(b)-len(mark)+1); i < len(b); i++ {
		if b[i] == mark[0] && bytes.HasPrefix(mark, b[i:]) {
			return i
		}
	}
	return len(b)
}

func (f *frame) emit(b []byte) {
	if len(b) == 0 || f.outErr != nil {
		return
	}
	if f.out != nil {
		_, f.outErr = f.out.Write(b)
		return
	}
	if len(f.body)+len(b) > maxReport {
		f.outErr = &provider.Error{Kind: provider.TooLarge, Err: fmt.Errorf("a reply of more than %d bytes", maxReport)}
		return
	}
	f.body = append(f.body, b...)
}

// complain keeps the end of the script's standard error. The script itself
// sends no more than that, but the sandbox is not trusted.
func (f *frame) complain(b []byte) {
	f.stderr = append(f.stderr, b...)
	if extra := len(f.stderr) - provider.StderrTail; extra > 0 {
		f.stderr = append(f.stderr[:0], f.stderr[extra:]...)
	}
}

// maxCode is more than an exit code and its line end take.
const maxCode = 16

func (f *frame) readCode(p []byte) []byte {
	i := bytes.IndexByte(p, '\n')
	if i < 0 {
		f.hold = append(f.hold, p[:min(len(p), maxCode)]...)
		if len(f.hold) >= maxCode {
			f.outErr = fmt.Errorf("malformed reply: exit code %q", f.hold[:maxCode])
		}
		return nil
	}
	digits := strings.TrimSpace(string(f.hold) + string(p[:i]))
	f.hold = nil
	code, err := strconv.Atoi(digits)
	if err != nil {
		f.outErr = fmt.Errorf("malformed reply: exit code %q", digits)
		return nil
	}
	f.code, f.state = code, afterEnd
	select {
	case <-f.ended: // by an earlier attempt
	default:
		close(f.ended)
	}
	f.late = time.AfterFunc(exitGrace, f.giveUp)
	return p[i+1:]
}

// Reset forgets what arrived, before another attempt of the same command.
// Only commands whose reply is collected here are repeated.
func (f *frame) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopLate()
	f.state, f.hold, f.body, f.stderr, f.total, f.code, f.outErr = beforeBegin, nil, nil, nil, 0, 0, nil
}

func (f *frame) stopLate() {
	if f.late != nil {
		f.late.Stop()
	}
}

// close is called when no more output will come.
func (f *frame) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopLate()
	close(f.closed)
	if pw, ok := f.out.(*io.PipeWriter); ok {
		if f.state == afterEnd {
			pw.Close()
		} else {
			pw.CloseWithError(ErrCut)
		}
	}
}

// result turns the call's end into the script's.
func (f *frame) result(label string, res provider.Result, err error) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outErr != nil {
		return nil, fmt.Errorf("%s: %w", label, f.outErr)
	}
	if f.state == afterEnd {
		if f.code != 0 {
			return f.body, &ExitError{Label: label, Code: f.code, Stderr: string(f.stderr)}
		}
		return f.body, nil
	}
	if err != nil {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w", label, err)
	}
	if noShell(f.total, res) {
		return nil, &provider.Error{Kind: provider.Missing, Op: label,
			Err:  fmt.Errorf("the sandbox cannot run sh (exit code %d)", res.ExitCode),
			Hint: "sbsync needs a POSIX shell named sh in the sandbox; use an image that has one (BusyBox is enough)"}
	}
	return nil, &CutError{Label: label, Got: f.total, ExitCode: res.ExitCode, Stderr: string(res.Stderr)}
}

// noShell recognizes a sandbox without sh: 126 and 127 are what exec transports
// and shells answer for a program that can't be run or found.
func noShell(got int64, res provider.Result) bool {
	return got == 0 && (res.ExitCode == 126 || res.ExitCode == 127)
}
