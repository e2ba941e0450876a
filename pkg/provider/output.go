package provider

import (
	"fmt"
	"sync"
)

// Tail is a writer that keeps the last [StderrTail] bytes written to it: a
// command's standard error, for drivers. It is safe for concurrent use.
type Tail struct {
	mu   sync.Mutex
	buf  []byte // a ring once it is full
	next int    // where the ring continues
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if n >= StderrTail {
		t.buf, t.next = append(t.buf[:0], p[n-StderrTail:]...), 0
		return n, nil
	}
	if room := StderrTail - len(t.buf); room > 0 {
		fill := min(room, len(p))
		t.buf = append(t.buf, p[:fill]...)
		p = p[fill:]
	}
	for len(p) > 0 {
		copied := copy(t.buf[t.next:], p)
		t.next = (t.next + copied) % StderrTail
		p = p[copied:]
	}
	return n, nil
}

// Bytes returns a copy of what is kept.
func (t *Tail) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := make([]byte, 0, len(t.buf))
	kept = append(kept, t.buf[t.next:]...)
	return append(kept, t.buf[:t.next]...)
}

// Collector is a writer that holds a command's standard output, for drivers:
// up to Max bytes, or [DefaultMaxOutput] if Max is 0. A write beyond that fails
// with an error of kind [TooLarge] and keeps nothing of it. It is not safe for
// concurrent use.
type Collector struct {
	Max int64
	buf []byte
}

// Write holds p.
func (c *Collector) Write(p []byte) (int, error) {
	limit := c.Max
	if limit <= 0 {
		limit = DefaultMaxOutput
	}
	if int64(len(c.buf))+int64(len(p)) > limit {
		return 0, &Error{Kind: TooLarge, Err: fmt.Errorf("the command wrote more than %d bytes", limit)}
	}
	c.buf = append(c.buf, p...)
	return len(p), nil
}

// Bytes returns what is held, without a copy.
func (c *Collector) Bytes() []byte { return c.buf }
