package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/remote"
)

const (
	// killAfter is how long a command has to end after SIGTERM.
	killAfter = 2 * time.Second
	// closeAfter bounds what may come after SIGKILL, and after the channel was
	// closed.
	closeAfter = 2 * time.Second
	// bufferSize is that of one read of the caller's stdin and of the command's
	// stdout. The library cuts what it sends to 32 KiB packets, and its window
	// is 2 MiB, neither of which can be changed.
	bufferSize = 256 << 10
)

// process is a command that runs, and the copying to and from it.
type process struct {
	*session
	link   *link
	label  string
	stderr *remote.Announced
	held   *provider.Collector // nil if the caller takes the output
	out    *remote.Output

	exited chan error // of Wait, once
	input  chan error // what reading the caller's stdin failed with, at most once
	output chan error // one for each of stdout and stderr, nil at their end
	copies int        // how many more come from output
}

func newProcess(s *session, l *link, cmd provider.Command, word string) *process {
	p := &process{session: s, link: l, label: cmd.Label, exited: make(chan error, 1), input: make(chan error, 1), output: make(chan error, 2), copies: 2}
	if p.label == "" {
		p.label = "exec"
	}
	p.stderr = remote.NewAnnounced(word, maxGreeting)
	w := cmd.Stdout
	if w == nil {
		p.held = &provider.Collector{Max: cmd.MaxOutput}
		w = p.held
	}
	p.out = remote.NewOutput(w)
	go func() { p.exited <- p.Wait() }()
	go func() { p.output <- drain(p.out, p.session.stdout, bufferSize) }()
	go func() {
		err := drain(p.stderr, p.session.stderr, provider.StderrTail)
		p.stderr.Flush()
		p.output <- err
	}()
	if cmd.Stdin == nil {
		p.stdin.Close()
	} else {
		go p.feed(cmd.Stdin)
	}
	return p
}

// feed copies the caller's stdin. If reading it fails, the stream is left open,
// so that the command never takes a cut input for a whole one.
func (p *process) feed(from io.Reader) {
	if err := remote.SendInput(p.stdin, from, bufferSize); err != nil {
		p.input <- err
		return
	}
	p.stdin.Close()
}

// drain copies until the stream ends. How it ended is Wait's to tell.
func drain(w io.Writer, from io.Reader, bufferSize int) error {
	buf := make([]byte, bufferSize)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if err != nil {
			return nil
		}
	}
}

// run waits for the end, or brings it about.
func (p *process) run(ctx context.Context) (provider.Result, error) {
	var ended, failed error
	exited := false
	for !exited || p.copies > 0 {
		select {
		case ended = <-p.exited:
			exited = true
		case err := <-p.output:
			p.copies--
			failed = p.explain("write stdout", err)
		case err := <-p.input:
			failed = p.explain("read stdin", err)
		case <-ctx.Done():
			failed = ctx.Err()
		}
		if failed != nil {
			p.end(exited)
			return provider.Result{Stderr: p.stderr.Bytes()}, failed
		}
	}
	select {
	case err := <-p.input:
		return provider.Result{Stderr: p.stderr.Bytes()}, p.explain("read stdin", err)
	default:
	}
	return p.result(ended)
}

// result reads what Wait said.
func (p *process) result(ended error) (provider.Result, error) {
	res := provider.Result{Stderr: p.stderr.Bytes()}
	if p.held != nil {
		res.Stdout = p.held.Bytes()
	}
	var exit *ssh.ExitError
	switch {
	case ended == nil:
		return res, nil
	case errors.As(ended, &exit):
		res.ExitCode = exit.ExitStatus() // 128+n after signal n
		return res, nil
	case p.gone():
		return provider.Result{Stderr: res.Stderr}, p.link.lostError()
	}
	return provider.Result{Stderr: res.Stderr}, &provider.Error{Kind: provider.Unreachable, Op: p.label,
		Err: fmt.Errorf("%s closed the command's channel without an exit code", p.link.target)}
}

// gone says whether the connection has ended. Its channels end a moment before
// it does.
func (p *process) gone() bool {
	select {
	case <-p.link.lost:
		return true
	case <-time.After(100 * time.Millisecond):
		return false
	}
}

func (p *process) explain(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", p.label, verb, err)
}

// end ends the command and what copies for it, in bounded time. Closing the
// channel comes last: it ends the command's input as a whole one would.
func (p *process) end(exited bool) {
	if !exited {
		exited = p.signal("TERM", killAfter) || p.signal("KILL", closeAfter)
	}
	p.Close()
	if !exited {
		late, cancel := context.WithTimeout(context.Background(), closeAfter)
		defer cancel()
		p.await(late)
	}
	p.out.Revoke()
}

// signal sends a signal, if the process id has arrived or still comes, and
// waits for the end.
func (p *process) signal(name string, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		select {
		case <-p.stderr.Known():
			p.link.kill(ctx, name, p.stderr.PID())
		case <-p.link.lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	exited := p.await(ctx)
	cancel()
	<-sent
	return exited
}

// await waits for the command to exit, and goes on taking its streams' ends.
func (p *process) await(ctx context.Context) bool {
	for {
		select {
		case <-p.exited:
			return true
		case <-p.output:
			p.copies--
		case <-ctx.Done():
			return false
		}
	}
}

// maxGreeting is how much login scripts may print before the command's launch.
const maxGreeting = 64 << 10
