package providertest

import (
	"errors"
	"io"
	"sync"
	"time"
	"unicode/utf8"
)

// errCut ends a stream at a [Cut].
var errCut = errors.New("cut")

// cutWriter fails with errCut at the cut.
type cutWriter struct {
	w   io.Writer
	cut *cutter
}

func (c *cutWriter) Write(p []byte) (int, error) {
	n := c.cut.pass(p)
	written, err := c.w.Write(p[:n])
	if err == nil && c.cut.done {
		err = errCut
	}
	return written, err
}

// capWriter passes left bytes on and swallows what comes after them.
type capWriter struct {
	w    io.Writer
	left int64
	over func() // called once, when something is swallowed
}

func (c *capWriter) Write(p []byte) (int, error) {
	pass := p[:min(c.left, int64(len(p)))]
	if len(pass) < len(p) && c.over != nil {
		c.over()
		c.over = nil
	}
	c.left -= int64(len(pass))
	if n, err := c.w.Write(pass); err != nil {
		return n, err
	}
	return len(p), nil
}

// textWriter replaces what is not UTF-8 by U+FFFD.
type textWriter struct {
	w    io.Writer
	rest []byte // the beginning of a character
}

func (t *textWriter) Write(p []byte) (int, error) {
	return len(p), t.convert(append(t.rest, p...), false)
}

// end converts what was held.
func (t *textWriter) end() error { return t.convert(t.rest, true) }

func (t *textWriter) convert(in []byte, last bool) error {
	out := make([]byte, 0, len(in))
	for len(in) > 0 && (last || utf8.FullRune(in)) {
		r, size := utf8.DecodeRune(in)
		out = utf8.AppendRune(out, r)
		in = in[size:]
	}
	t.rest = append([]byte(nil), in...)
	_, err := t.w.Write(out)
	return err
}

// tailWriter holds the last bytes back until the command has been quiet for a
// while. Those held when it ends are lost.
type tailWriter struct {
	w    io.Writer
	size int64

	mu    sync.Mutex
	held  []byte
	err   error
	quiet *time.Timer
	over  bool
}

// quietTime is how long a command must be quiet for its output to get through:
// much longer than a process needs from its last write to its exit, even on a
// busy machine.
const quietTime = 150 * time.Millisecond

func (t *tailWriter) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return 0, t.err
	}
	t.held = append(t.held, p...)
	if extra := int64(len(t.held)) - t.size; extra > 0 {
		t.deliver(int(extra))
	}
	if t.quiet == nil {
		t.quiet = time.AfterFunc(quietTime, t.release)
	} else {
		t.quiet.Reset(quietTime)
	}
	return len(p), t.err
}

func (t *tailWriter) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.deliver(len(t.held))
	}
}

func (t *tailWriter) deliver(n int) {
	if n == 0 || t.err != nil {
		return
	}
	_, t.err = t.w.Write(t.held[:n])
	t.held = append(t.held[:0], t.held[n:]...)
}

// end drops what is held and returns how much that was, and what writing
// failed with before.
func (t *tailWriter) end() (lost int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lost = len(t.held)
	t.over, t.held = true, nil
	if t.quiet != nil {
		t.quiet.Stop()
	}
	return lost, t.err
}
