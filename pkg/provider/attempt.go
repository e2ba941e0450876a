package provider

import (
	"io"
	"os"
	"sync"
)

// rewinder gives the same input to each attempt.
type rewinder struct {
	source io.ReadSeeker // nil if there is no input
	from   int64
}

// rewindable says whether r can be read again; nil can.
func rewindable(r io.Reader) (*rewinder, bool) {
	if r == nil {
		return &rewinder{}, true
	}
	seeker, ok := r.(io.ReadSeeker)
	if !ok {
		return nil, false
	}
	from, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil { // a pipe is an *os.File too
		return nil, false
	}
	return &rewinder{source: seeker, from: from}, true
}

// start returns the input for one attempt.
func (w *rewinder) start() *attemptReader { return &attemptReader{r: w.source} }

// rewind takes the input away from the attempt that has it and goes back to
// its beginning. It is false if the input is still being read.
func (w *rewinder) rewind(from *attemptReader) bool {
	if w.source == nil {
		return true
	}
	if !from.mu.TryLock() {
		return false
	}
	defer from.mu.Unlock()
	from.over = true
	_, err := w.source.Seek(w.from, io.SeekStart)
	return err == nil
}

// attemptReader is the input of one attempt. What an attempt left running can't
// read from it any more once it was rewound.
type attemptReader struct {
	mu   sync.Mutex
	r    io.Reader
	over bool
}

func (a *attemptReader) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return 0, os.ErrClosed
	}
	return a.r.Read(p)
}

// attemptWriter takes the output of one attempt, and nothing after it.
type attemptWriter struct {
	mu      sync.Mutex
	w       io.Writer
	written bool
	over    bool
}

func (a *attemptWriter) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return 0, os.ErrClosed
	}
	n, err := a.w.Write(p)
	a.written = a.written || n > 0 || err != nil
	return n, err
}

// undo makes the writer as it was before the attempt. It is false if it can't
// be, and then another attempt would garble it.
func (a *attemptWriter) undo() bool {
	if !a.mu.TryLock() {
		return false
	}
	defer a.mu.Unlock()
	a.over = true
	if !a.written {
		return true
	}
	r, ok := a.w.(interface{ Reset() })
	if ok {
		r.Reset()
	}
	return ok
}
