package docker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/client"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/remote"
)

const (
	// killAfter is how long a command has to end after SIGTERM.
	killAfter = 2 * time.Second
	// closeAfter bounds what may come after SIGKILL.
	closeAfter = 2 * time.Second
	// bufferSize is that of one read of the caller's stdin. The daemon copies
	// 32 KiB at a time, whatever we send.
	bufferSize = 256 << 10
	// The exit code is there a moment after the output has ended. The daemon is
	// asked at once, and then at growing intervals.
	firstPoll, lastPoll = 2 * time.Millisecond, 200 * time.Millisecond
)

// process is a command that runs, and the copying to and from it.
type process struct {
	*Sandbox
	started
	label  string
	stderr *remote.Announced
	held   *provider.Collector // nil if the caller takes the output
	out    *firstBytes

	input  chan error // what reading the caller's stdin failed with, at most once
	output chan error // what the caller did not take, or nil at the end; once
	broken error      // how the connection ended, unless by its end
}

func newProcess(s *Sandbox, e started, cmd provider.Command) *process {
	p := &process{Sandbox: s, started: e, label: cmd.Label, input: make(chan error, 1), output: make(chan error, 1)}
	if p.label == "" {
		p.label = "exec"
	}
	p.stderr = remote.NewAnnounced(s.word, 0)
	w := cmd.Stdout
	if w == nil {
		p.held = &provider.Collector{Max: cmd.MaxOutput}
		w = p.held
	}
	p.out = &firstBytes{Output: remote.NewOutput(w)}
	go func() {
		p.output <- p.drain()
		// Until its output has been read, the daemon says that a command runs.
		io.Copy(io.Discard, p.conn.Reader)
	}()
	if cmd.Stdin != nil {
		go p.feed(cmd.Stdin)
	}
	return p
}

// feed copies the caller's stdin. If reading it fails, the stream is left open,
// so that the command never takes a cut input for a whole one.
func (p *process) feed(from io.Reader) {
	if err := remote.SendInput(p.conn.Conn, from, bufferSize); err != nil {
		p.input <- err
		return
	}
	p.conn.CloseWrite()
}

// drain takes the output apart until it ends. An error is the caller's; one of
// the connection shows when the exit code is asked for.
func (p *process) drain() error {
	// The library's own buffer has 4 KiB.
	err := demux(p.out, p.stderr, bufio.NewReaderSize(p.conn.Reader, outputSize))
	p.stderr.Flush()
	if p.out.err != nil {
		return p.out.err
	}
	p.broken = err
	return nil
}

// run waits for the end, or brings it about.
func (p *process) run(ctx context.Context) (provider.Result, error) {
	var failed error
	select {
	case err := <-p.output:
		if failed = p.explain("write stdout", err); failed == nil {
			return p.result(ctx)
		}
	case err := <-p.input:
		failed = p.explain("read stdin", err)
	case <-ctx.Done():
		failed = ctx.Err()
	}
	p.end()
	return provider.Result{Stderr: p.stderr.Bytes()}, failed
}

// result asks how the command ended, whose output has ended.
func (p *process) result(ctx context.Context) (provider.Result, error) {
	res := provider.Result{Stderr: p.stderr.Bytes()}
	code, err := p.exitCode(ctx)
	if err != nil {
		if ctx.Err() != nil {
			p.end()
			return res, ctx.Err()
		}
		p.conn.Close()
		return res, err
	}
	p.conn.Close()
	select {
	case err := <-p.input:
		return res, p.explain("read stdin", err)
	default:
	}
	if p.broken != nil {
		return res, &provider.Error{Kind: provider.Unreachable, Op: p.label, Err: fmt.Errorf("the output broke off: %w", p.broken)}
	}
	if res.ExitCode = code; p.held != nil {
		res.Stdout = p.held.Bytes()
	}
	return res, nil
}

// exitCode waits until the daemon has noticed the command's end.
func (p *process) exitCode(ctx context.Context) (int, error) {
	for wait := firstPoll; ; wait = min(2*wait, lastPoll) {
		seen, err := p.daemon.ExecInspect(ctx, p.started.id, client.ExecInspectOptions{})
		if err != nil {
			return 0, p.lostError(err)
		}
		if !seen.Running {
			return seen.ExitCode, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// lostError says that nobody knows how the command ended: the daemon does not
// answer, or is another one by now.
func (p *process) lostError(err error) error {
	err = p.daemon.explain(p.label, err)
	if provider.KindOf(err) != provider.NotFound {
		return err
	}
	return &provider.Error{Kind: provider.Unreachable, Op: p.label, Err: fmt.Errorf("the Docker daemon at %s has been restarted, or the container is gone", p.daemon.host)}
}

func (p *process) explain(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", p.label, verb, err)
}

// end ends the command and what copies for it, in bounded time. Closing the
// connection comes last: it ends the command's input as a whole one would, and
// does not end the command (moby/moby#9098).
func (p *process) end() {
	if !p.signal("TERM", killAfter) {
		p.signal("KILL", closeAfter)
	}
	p.conn.Close()
	p.out.Revoke()
}

// signal sends a signal, if the process id has arrived or still comes, and says
// whether the command has ended.
func (p *process) signal(name string, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	select {
	case <-p.stderr.Known():
		p.kill(ctx, name)
	case <-p.output: // it has ended, or will not say any more
		p.output <- nil
	case <-ctx.Done():
	}
	_, err := p.exitCode(ctx)
	return err == nil
}

// kill runs kill in the container. runc gives each exec a session, and so a
// process group, of its own.
func (p *process) kill(ctx context.Context, signal string) {
	opt := client.ExecCreateOptions{User: p.user, Cmd: []string{"sh", "-c", remote.KillCommand(signal, p.stderr.PID())}}
	if e, err := p.daemon.ExecCreate(ctx, p.Sandbox.id, opt); err == nil {
		p.daemon.ExecStart(ctx, e.ID, client.ExecStartOptions{Detach: true})
	}
}

// firstBytes is the caller's writer, which also keeps what was written first:
// the daemon says there why it could not run the command.
type firstBytes struct {
	*remote.Output
	err  error // of the first write that failed
	head []byte
}

// headSize is how much is kept.
const headSize = 1 << 10

func (f *firstBytes) Write(b []byte) (int, error) {
	if room := headSize - len(f.head); room > 0 {
		f.head = append(f.head, b[:min(room, len(b))]...)
	}
	n, err := f.Output.Write(b)
	if err != nil && f.err == nil {
		f.err = err
	}
	return n, err
}
