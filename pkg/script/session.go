package script

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Session runs scripts in one sandbox. It is safe for concurrent use.
type Session struct {
	sb      provider.Sandbox
	stream  provider.Streamer // nil: replies and inputs travel as text over Exec
	caps    provider.Capabilities
	noIn    atomic.Bool  // stdin was seen not to arrive
	maxOut  atomic.Int64 // output that one exec delivers; 0: no limit seen
	lastCut atomic.Int64 // length of the last reply that was cut
}

// NewSession returns a session. With asText it uses Exec alone and encodes
// what it sends and gets, even if the sandbox could stream.
func NewSession(sb provider.Sandbox, asText bool) *Session {
	s := &Session{sb: sb, caps: sb.Capabilities()}
	s.maxOut.Store(s.caps.MaxStdout)
	if st, ok := provider.StreamerOf(sb); ok && !asText && s.caps.HalfClose {
		s.stream = st
	}
	return s
}

// Streams says whether bytes travel as they are, over a live stream.
func (s *Session) Streams() bool { return s.stream != nil }

// Capabilities returns the sandbox's.
func (s *Session) Capabilities() provider.Capabilities { return s.caps }

// StdinLost makes the session send all further input in arguments.
func (s *Session) StdinLost() { s.noIn.Store(true) }

// UsesStdin says whether input travels on standard input, not in arguments.
func (s *Session) UsesStdin() bool { return s.stream != nil || s.caps.Stdin && !s.noIn.Load() }

// Script is one POSIX shell script.
type Script struct {
	// Label names it in messages.
	Label string
	// Body is the text. What it prints is the reply; on a session that does
	// not stream it must print text only. It runs in a subshell, with the
	// functions of prelude.go, LC_ALL=C, TZ=UTC0 and umask 077. An exit code
	// other than 0 makes Run return an *ExitError.
	Body string
	// Input is what `input "$@"` prints in the body: nil means none. On a
	// session that streams any reader will do, otherwise it has to be an
	// io.ReadSeeker.
	Input io.Reader
	// InputSize, if it is set on a session that streams, is the length of
	// Input; the script then waits at its end until its whole reply arrived.
	InputSize int64
	// Consume reads the reply while it arrives; if nil, Run returns it. An
	// error ends the script.
	Consume func(body io.Reader) error
	// Heartbeat lets the script print empty lines while it works, for one that
	// may be silent for long. They come anywhere in the reply.
	Heartbeat bool
	// Idempotent says that the script may be run again after a temporary
	// error, by the sandbox's own retry wrapper. With Consume it never is.
	Idempotent bool
}

// ExitError says that a script ran to its end with an exit code other than 0.
type ExitError struct {
	Label  string
	Code   int
	Stderr string // the end of what it printed there
}

func (e *ExitError) Error() string {
	text := strings.TrimSpace(e.Stderr)
	if text == "" {
		text = fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Label + ": " + text
}

// CutError says that a reply did not arrive whole, although the provider
// reported nothing wrong. Another attempt may succeed.
type CutError struct {
	Label    string
	Got      int64 // bytes of output that arrived
	ExitCode int   // what the provider said
	Stderr   string
}

func (e *CutError) Error() string {
	text := fmt.Sprintf("%s: the reply is incomplete: %d bytes arrived, the end did not (exit code %d)", e.Label, e.Got, e.ExitCode)
	if tail := strings.TrimSpace(e.Stderr); tail != "" {
		text += ": " + tail
	}
	return text
}

// Temporary is true: another attempt may succeed.
func (e *CutError) Temporary() bool { return true }

// Unwrap says that it is of kind Integrity, and that [ErrCut] is the cause.
func (e *CutError) Unwrap() error { return &provider.Error{Kind: provider.Integrity, Err: ErrCut} }

// exitGrace is how long a provider may take to report the exit of a script
// whose whole reply has arrived; then the call is given up, the reply kept.
// Exit events were seen to come 2 to 35 s late (containers/conmon#119).
const exitGrace = 3 * time.Second

// Run runs a script and returns its reply.
func (s *Session) Run(ctx context.Context, sc Script) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	word := Word()
	fr := newFrame(word)
	cmd := provider.Command{Label: sc.Label, Stdout: fr, Idempotent: sc.Idempotent && sc.Consume == nil}
	if err := s.prepare(&cmd, sc, word, fr); err != nil {
		return nil, err
	}

	var consumed chan error
	if sc.Consume != nil {
		consumed = make(chan error, 1)
		pr, pw := io.Pipe()
		fr.out = pw
		go func() {
			err := sc.Consume(pr)
			pr.CloseWithError(errConsumed(err))
			if err != nil {
				cancel()
			}
			consumed <- err
		}()
	}
	fr.giveUp = cancel // a reply that is complete outlives a call that does not end
	res, err := s.call(ctx, cmd)
	fr.close()
	if consumed != nil {
		cerr := <-consumed
		if cerr != nil && errors.Is(cerr, ErrCut) {
			if _, err := fr.result(sc.Label, res, err); err != nil {
				return nil, err // which says why it was cut
			}
		}
		if cerr != nil {
			return nil, cerr
		}
	}
	return fr.result(sc.Label, res, err)
}

// ErrCut is what reading a reply that does not arrive whole ends with. A
// consumer that returns it, since it wants more than arrived, has the script's
// own error take its place.
var ErrCut = errors.New("the reply is incomplete")

func errConsumed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reply refused: %w", err)
}

// call makes the provider call.
func (s *Session) call(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	if s.stream != nil {
		return s.stream.Stream(ctx, cmd)
	}
	return s.sb.Exec(ctx, cmd)
}

// prepare fills in the command's arguments and standard input.
func (s *Session) prepare(cmd *provider.Command, sc Script, word string, fr *frame) error {
	mode := inputNone
	var data []string
	switch {
	case s.stream != nil:
		// The script's last act is to wait for the end of its input, which
		// comes once its whole reply has arrived: a command that exits before
		// its output was read loses the tail of it on containerd.
		switch wait := waitFor(fr.ended, fr.closed); {
		case sc.Input == nil:
			mode, cmd.Stdin = inputAck, wait
		case sc.InputSize > 0:
			mode, cmd.Stdin = inputBounded, io.MultiReader(sc.Input, wait)
		default:
			mode, cmd.Stdin = inputRaw, sc.Input
		}
	case sc.Input == nil && s.caps.EarlyExit && s.UsesStdin() && s.caps.HalfClose:
		mode, cmd.Stdin = inputAck, waitFor(fr.ended, fr.closed)
	case sc.Input == nil:
	case s.UsesStdin():
		mode = inputStdin
		src, ok := sc.Input.(io.ReadSeeker)
		if !ok {
			return errors.New("script: input over exec must be seekable")
		}
		if !s.caps.HalfClose {
			mode = inputSentinel
		}
		cmd.Stdin = newEncoder(src, mode == inputSentinel)
	default:
		mode = inputArgs
		var err error
		if data, err = s.arguments(sc.Input); err != nil {
			return fmt.Errorf("%s: %w", sc.Label, err)
		}
	}
	text := wrap(sc.Body, word, mode, sc.InputSize, s.caps.EarlyExit, sc.Heartbeat)
	if len(text) > s.maxArg() {
		return fmt.Errorf("%s: script of %d bytes is longer than one argument may be (%d)", sc.Label, len(text), s.maxArg())
	}
	cmd.Args = append([]string{"sh", "-c", text, "sbsync"}, data...)
	return nil
}

func (s *Session) maxArg() int {
	if s.caps.MaxArg > 0 {
		return s.caps.MaxArg
	}
	return 131071
}

// MaxBody is how long a Body may be.
func (s *Session) MaxBody() int { return s.maxArg() - 4<<10 }

// MaxInput is how many raw bytes one script's Input should have at most, and
// whether that is a hard limit.
func (s *Session) MaxInput() (n int64, hard bool) {
	if s.UsesStdin() {
		return s.caps.MaxStdin / 4 * 3, false
	}
	total := s.caps.MaxArgs
	if total == 0 {
		total = 1 << 20
	}
	// The script itself and a word of bookkeeping per argument take room too.
	return int64(total-16<<10) / 4 * 3, true
}

// arguments returns input as base64 text in arguments that are each short
// enough.
func (s *Session) arguments(input io.Reader) ([]string, error) {
	limit, _ := s.MaxInput()
	raw, err := io.ReadAll(io.LimitReader(input, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("input of more than %d bytes does not fit into arguments", limit)
	}
	text, err := io.ReadAll(newEncoder(strings.NewReader(string(raw)), false))
	if err != nil {
		return nil, err
	}
	size := min(s.maxArg(), 120<<10) / 4 * 4
	var args []string
	for len(text) > 0 {
		n := min(size, len(text))
		args = append(args, string(text[:n]))
		text = text[n:]
	}
	return args, nil
}

// Word returns 16 random characters of a to z and 2 to 7.
func Word() string {
	var b [10]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// waitFor is a standard input without content that ends when either channel is
// closed.
func waitFor(a, b <-chan struct{}) io.Reader { return &waitReader{a, b} }

type waitReader struct{ a, b <-chan struct{} }

func (w *waitReader) Read([]byte) (int, error) {
	select {
	case <-w.a:
	case <-w.b:
	}
	return 0, io.EOF
}

// NoteCut takes note that a reply was cut after so many bytes. Two replies cut
// at the same length show a limit: then it says that it makes sense to ask for
// less at a time. A single one may be an accident.
func (s *Session) NoteCut(got int64) bool {
	limit := s.maxOut.Load()
	if limit > 0 && got >= limit {
		return true // another worker has learned it
	}
	if got < 4*replyOverhead || s.lastCut.Swap(got) != got {
		return false
	}
	s.maxOut.Store(got)
	return true
}
