package remote

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Word returns a word that nothing else prints, for [Launch].
func Word() string { return "sbsync-" + rand.Text() }

// noDirectory is the exit code of a launch that could not enter its directory.
const noDirectory = 126

// Launch is what a command's script begins with: the first line of its standard
// error is the word and the process id. dir is the directory to enter, as shell
// text, or empty; if that fails, the second line is the word alone.
func Launch(word, dir string) string {
	text := "echo " + word + " $$ >&2; "
	if dir != "" {
		text += fmt.Sprintf("cd %s || { echo %s >&2; exit %d; }; ", dir, word, noDirectory)
	}
	return text
}

// KillCommand is shell text that sends a signal to a process and, if it leads
// one, to all of its group.
func KillCommand(signal string, pid int) string {
	return fmt.Sprintf("kill -%s -%d 2>/dev/null || kill -%s %d", signal, pid, signal, pid)
}

// Announced keeps the end of a command's standard error, without the line that
// [Launch] prints. What comes before that line is of interest only if it never
// comes: a login script's greeting, say, or the word of why nothing was launched.
type Announced struct {
	provider.Tail
	word  string
	noise int // how much may come before the line

	mu    sync.Mutex
	head  []byte // until the line has come
	done  bool
	pid   int
	known chan struct{} // closed when pid is known
}

// NewAnnounced waits for the word; noise is how many bytes may come before it.
func NewAnnounced(word string, noise int) *Announced {
	return &Announced{word: word, noise: noise, known: make(chan struct{})}
}

// maxNumber is more than the line has beside the word.
const maxNumber = 24

// Write never fails.
func (a *Announced) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return a.Tail.Write(b)
	}
	a.head = append(a.head, b...)
	_, after, found := bytes.Cut(a.head, []byte(a.word+" "))
	if line, rest, ended := bytes.Cut(after, []byte("\n")); found && ended {
		if pid, err := strconv.Atoi(string(line)); err == nil && pid > 1 {
			a.pid, a.head = pid, rest
			close(a.known)
		}
		a.flush()
	} else if len(a.head) > a.noise+len(a.word)+maxNumber {
		a.flush()
	}
	return len(b), nil
}

// Flush is called when standard error has ended: what came instead of the line
// is what there is.
func (a *Announced) Flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flush()
}

func (a *Announced) flush() {
	if !a.done {
		a.done = true
		a.Tail.Write(a.head)
		a.head = nil
	}
}

// Known is closed when the process id has arrived.
func (a *Announced) Known() <-chan struct{} { return a.known }

// PID is the process id, or 0 if it has not arrived.
func (a *Announced) PID() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pid
}

// NoDirectory says whether a command that ended with an exit code never ran,
// since its directory could not be entered.
func (a *Announced) NoDirectory(exit int) bool {
	return exit == noDirectory && strings.HasSuffix(string(a.Bytes()), a.word+"\n")
}
