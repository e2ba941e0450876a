package remote

import (
	"io"
	"os"
	"sync/atomic"
)

// SendInput copies a caller's standard input to a command, bufferSize bytes at a
// time. That the command takes no more is no error: its exit code tells more.
// Otherwise an error is that of reading; then the command's input must be left
// open, or it would take a cut input for a whole one.
func SendInput(to io.Writer, from io.Reader, bufferSize int) error {
	w := &input{w: to}
	var err error
	if source, ok := from.(io.WriterTo); ok {
		_, err = source.WriteTo(w)
	} else {
		_, err = io.CopyBuffer(w, from, make([]byte, bufferSize))
	}
	if w.refused {
		return nil
	}
	return err
}

// input hides the destination's ReadFrom, which would not tell errors of the two
// sides apart.
type input struct {
	w       io.Writer
	refused bool // a write failed
}

func (i *input) Write(b []byte) (int, error) {
	n, err := i.w.Write(b)
	i.refused = i.refused || err != nil
	return n, err
}

// Output is a caller's writer that is not written to any more once the call has
// returned. Only a Write that hangs may end later.
type Output struct {
	w       io.Writer
	revoked atomic.Bool
}

// NewOutput returns an Output on w.
func NewOutput(w io.Writer) *Output { return &Output{w: w} }

// Write fails with os.ErrClosed after Revoke.
func (o *Output) Write(b []byte) (int, error) {
	if o.revoked.Load() {
		return 0, os.ErrClosed
	}
	return o.w.Write(b)
}

// Revoke makes every further Write fail. It may be called at any time.
func (o *Output) Revoke() { o.revoked.Store(true) }
