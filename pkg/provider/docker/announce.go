package docker

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
)

// announced keeps the end of stderr: what comes after the first line, which has
// the process id.
type announced struct {
	provider.Tail
	word string
	head []byte // until the line has come
	done bool
	ran  bool // the line has come
	pid  chan int
}

func (a *announced) Write(b []byte) (int, error) {
	if a.done {
		return a.Tail.Write(b)
	}
	a.head = append(a.head, b...)
	line, rest, ended := bytes.Cut(a.head, []byte("\n"))
	if !ended && len(a.head) <= len(a.word)+24 {
		return len(b), nil
	}
	if number, ok := strings.CutPrefix(string(line), a.word+" "); ok {
		if pid, err := strconv.Atoi(number); err == nil && pid > 1 {
			a.pid <- pid
			a.ran, a.head = true, rest
		}
	}
	a.flush()
	return len(b), nil
}

// flush takes what came instead of the line for output.
func (a *announced) flush() {
	if !a.done {
		a.done = true
		a.Tail.Write(a.head)
		a.head = nil
	}
}

type launchState int

const (
	ran         launchState = iota
	noDirectory             // the directory could not be entered
	neverRan                // there was no shell
)

// state says how the launch went, once the command has ended.
func (a *announced) state() launchState {
	switch {
	case !a.ran:
		return neverRan
	case strings.HasSuffix(string(a.Bytes()), a.word+"\n"):
		return noDirectory
	}
	return ran
}

// noShell explains a command whose launch never said anything.
func (s *Sandbox) noShell(res provider.Result, stdout []byte) error {
	text := strings.TrimSpace(string(stdout) + string(res.Stderr))
	e := &provider.Error{Op: "exec", Err: shorten(fmt.Errorf("no shell could be run in container %q (exit code %d): %s", s.name, res.ExitCode, text))}
	switch {
	case strings.Contains(text, "unable to find user"), strings.Contains(text, "no matching entries in passwd"):
		e.Kind, e.Hint = provider.Usage, userHint
	case strings.Contains(text, "executable file not found"), strings.Contains(text, "no such file or directory"):
		e.Kind, e.Err = provider.Missing, fmt.Errorf("container %q has no sh", s.name)
		e.Hint = "the image has no shell, and sbsync needs one there; docker cp works without"
	case strings.Contains(text, "stopped container"), strings.Contains(text, "container init"), strings.Contains(text, "task not found"):
		return s.stoppedError("exec")
	}
	return e
}
