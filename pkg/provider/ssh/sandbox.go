package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/remote"
)

const (
	// maxSessions leaves two of sshd's MaxSessions (10 by default) for commands
	// that are just ending.
	maxSessions = 8
	// busyWait is how long to wait for a session where the server has fewer.
	busyWait = 30 * time.Second
)

// Sandbox is a host. It is safe for concurrent use.
type Sandbox struct {
	dialer *dialer
	word   string        // marks what command lines print for us
	gate   chan struct{} // one for each session that is open
	ended  chan struct{} // a session has ended, for those that wait for one

	mu     sync.Mutex // held while connecting
	link   *link
	closed bool
}

func newSandbox(d *dialer) *Sandbox {
	return &Sandbox{dialer: d, word: remote.Word(), gate: make(chan struct{}, maxSessions), ended: make(chan struct{}, 1)}
}

// Capabilities says that all of Exec and Stream works.
func (s *Sandbox) Capabilities() provider.Capabilities {
	return provider.Capabilities{Stdin: true, HalfClose: true, Stream: true, MaxArg: maxArg, MaxArgs: maxArgs, MaxConcurrent: maxSessions}
}

// Close ends the connection. Commands that run lose their streams.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.link != nil {
		s.link.shut()
		s.link = nil
	}
	return nil
}

// Exec runs a command through the user's login shell, which must be a POSIX
// one. An end by signal n gives 128+n.
//
// When ctx ends first, the command's process group gets SIGTERM, and SIGKILL two
// seconds later, by further commands. A connection that was lost is an error of kind
// [provider.Unreachable]; the next command connects anew.
func (s *Sandbox) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	return s.run(ctx, cmd)
}

// Stream is Exec, which is live and binary-safe already.
func (s *Sandbox) Stream(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	if cmd.Stdout == nil {
		return provider.Result{}, usage("stream: no stdout given", "")
	}
	return s.run(ctx, cmd)
}

func (s *Sandbox) run(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	line, err := commandLine(cmd, s.word)
	if err != nil {
		return provider.Result{}, err
	}
	select {
	case s.gate <- struct{}{}:
	case <-ctx.Done():
		return provider.Result{}, ctx.Err()
	}
	defer s.leave()
	if err := ctx.Err(); err != nil {
		return provider.Result{}, err
	}
	session, link, err := s.start(ctx, line)
	if err != nil {
		return provider.Result{}, err
	}
	p := newProcess(session, link, cmd, s.word)
	res, err := p.run(ctx)
	if err == nil && cmd.Dir != "" && p.stderr.NoDirectory(res.ExitCode) {
		return provider.Result{}, &provider.Error{Kind: provider.NotFound, Op: "exec", Err: fmt.Errorf("directory %q: %w", cmd.Dir, fs.ErrNotExist)}
	}
	return res, err
}

// leave gives a session back and wakes one command that waits for it.
func (s *Sandbox) leave() {
	<-s.gate
	select {
	case s.ended <- struct{}{}:
	default:
	}
}

// start starts a command. Where the server allows fewer sessions than usual, it
// waits for one.
func (s *Sandbox) start(ctx context.Context, line string) (*session, *link, error) {
	late := time.NewTimer(busyWait)
	defer late.Stop()
	for {
		link, err := s.connected(ctx)
		if err != nil {
			return nil, nil, err
		}
		session, err := link.start(ctx, line, s.word)
		if !errors.Is(err, errBusy) {
			return session, link, err
		}
		// The server may take a moment to notice that a session has ended.
		select {
		case <-s.ended:
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-late.C:
			return nil, nil, &provider.Error{Kind: provider.Unreachable, Op: "exec", Err: fmt.Errorf("%s: %w", link.target, errBusy),
				Hint: "raise MaxSessions in the host's sshd_config"}
		}
	}
}

// connected returns the connection, or makes a new one if there is none.
func (s *Sandbox) connected(ctx context.Context) (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, provider.New(provider.Unreachable, "the sandbox was closed", "")
	}
	if s.link != nil && s.link.alive() {
		return s.link, nil
	}
	if s.link != nil {
		s.link.shut()
		s.link = nil
	}
	link, err := s.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	s.link = link
	return link, nil
}

// greet runs the first command. A host that lets nobody run commands does not
// always refuse: with "ForceCommand internal-sftp" it says yes, and runs
// something else.
func (s *Sandbox) greet(ctx context.Context) error {
	res, err := s.run(ctx, provider.Command{Args: []string{"printf", "%s-%s", "sbsync", "here"}, Label: "greet", MaxOutput: 1 << 20})
	if err != nil {
		return err
	}
	target := s.dialer.hosts[len(s.dialer.hosts)-1]
	if strings.Contains(string(res.Stdout), "sbsync-here") {
		return nil
	}
	e := &provider.Error{Kind: provider.NotImplemented, Op: fmt.Sprintf("open %s", target)}
	e.Err = fmt.Errorf("it runs no commands of ours (exit code %d, output %.60q%.200q)", res.ExitCode, res.Stdout, res.Stderr)
	e.Hint = "the account may be for SFTP only (ForceCommand internal-sftp), or have no POSIX login shell; sbsync needs to run commands"
	return e
}
