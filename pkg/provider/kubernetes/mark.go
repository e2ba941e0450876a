package kubernetes

import (
	"bytes"
	"io"
	"strconv"
	"sync"
	"time"
)

// markReader takes the line with the process number off the beginning of
// standard error.
type markReader struct {
	rest io.Writer // set before the first Write

	mu     sync.Mutex
	line   []byte
	passed bool
	pid    chan int // has the number once it is known
}

func newMarkReader() *markReader { return &markReader{pid: make(chan int, 1)} }

// wait returns the process number, or 0 if it does not arrive in time.
func (m *markReader) wait(most time.Duration) int {
	select {
	case pid := <-m.pid:
		return pid
	case <-time.After(most):
		return 0
	}
}

func (m *markReader) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.passed {
		return m.rest.Write(p)
	}
	m.line = append(m.line, p...)
	end := bytes.IndexByte(m.line, '\n')
	if end < 0 && bytes.HasPrefix(m.line, []byte(pidMark)[:min(len(pidMark), len(m.line))]) {
		return len(p), nil // not all of it is here
	}
	m.passed = true
	rest := m.line
	if number, ok := bytes.CutPrefix(m.line[:max(end, 0)], []byte(pidMark)); ok {
		pid, _ := strconv.Atoi(string(number))
		m.pid <- pid
		rest = m.line[end+1:]
	}
	if _, err := m.rest.Write(rest); err != nil {
		return 0, err
	}
	return len(p), nil
}
