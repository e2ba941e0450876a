package transfer

import (
	"io"
	"sync"
)

// feed is a standard input that is produced while it is read. It implements
// io.WriterTo, so that drivers which copy with io.Copy have it written
// straight into their pipe.
type feed struct {
	produce func(w io.Writer) error
	once    sync.Once
	pr      *io.PipeReader
	mu      sync.Mutex
	err     error
	done    chan struct{}
}

func newFeed(produce func(w io.Writer) error) *feed {
	return &feed{produce: produce, done: make(chan struct{})}
}

// WriteTo produces everything into w.
func (f *feed) WriteTo(w io.Writer) (int64, error) {
	cw := &countingWriter{w: w}
	f.once.Do(func() { f.run(cw) })
	return cw.n, f.failure()
}

// Read produces into a pipe and reads from it.
func (f *feed) Read(p []byte) (int, error) {
	f.once.Do(func() {
		pr, pw := io.Pipe()
		f.pr = pr
		go func() {
			f.run(&countingWriter{w: pw})
			pw.CloseWithError(f.failure())
		}()
	})
	return f.pr.Read(p)
}

func (f *feed) run(w *countingWriter) {
	err := f.produce(w)
	if w.failed {
		err = nil
	}
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	close(f.done)
}

// failure is the producer's own error. A reader that went away is not its.
func (f *feed) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// stop ends the producer and waits for it.
func (f *feed) stop() {
	started := true
	f.once.Do(func() { started = false })
	if !started {
		return
	}
	if f.pr != nil {
		f.pr.Close()
	}
	<-f.done
}

// countingWriter counts, and remembers whether a write failed.
type countingWriter struct {
	w      io.Writer
	n      int64
	failed bool
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.failed = c.failed || err != nil
	return n, err
}
