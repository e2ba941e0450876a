package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/moby/moby/client"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/remote"
)

// maxConcurrent is how many commands may run at once. Each has a connection of
// its own, and the daemon sets no limit.
const maxConcurrent = 8

// Sandbox is a container. It is safe for concurrent use.
type Sandbox struct {
	daemon *daemon
	id     string
	name   string // as the target has it
	user   string // empty is the container's
	word   string // marks what the commands' shell prints for us
}

func newSandbox(d *daemon, id, name, user string) *Sandbox {
	return &Sandbox{daemon: d, id: id, name: name, user: user, word: remote.Word()}
}

// Capabilities says that all of Exec and Stream works.
func (s *Sandbox) Capabilities() provider.Capabilities {
	return provider.Capabilities{Stdin: true, HalfClose: true, Stream: true, MaxArg: maxArg, MaxConcurrent: maxConcurrent}
}

// Close frees connections. Commands that run go on.
func (s *Sandbox) Close() error { return s.daemon.Close() }

// Exec runs a command in the container. An end by signal n gives 128+n.
//
// When ctx ends first, the command's process group gets SIGTERM, and SIGKILL two
// seconds later, by further commands: the API has no way to end an exec. A
// connection that was lost is an error of kind [provider.Unreachable].
func (s *Sandbox) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	return s.run(ctx, cmd)
}

// Stream is Exec, which is live and binary-safe already.
func (s *Sandbox) Stream(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	if cmd.Stdout == nil {
		return provider.Result{}, provider.New(provider.Usage, "stream: no stdout given", "")
	}
	return s.run(ctx, cmd)
}

func (s *Sandbox) run(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	opt, err := s.options(cmd)
	if err != nil {
		return provider.Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return provider.Result{}, err
	}
	e, err := s.start(ctx, opt)
	if err != nil {
		return provider.Result{}, err
	}
	p := newProcess(s, e, cmd)
	res, err := p.run(ctx)
	if err != nil {
		return res, err
	}
	switch {
	case p.stderr.NoDirectory(res.ExitCode):
		return provider.Result{}, &provider.Error{Kind: provider.NotFound, Op: "exec", Err: fmt.Errorf("directory %q: %w", cmd.Dir, fs.ErrNotExist)}
	case p.stderr.PID() == 0:
		return provider.Result{}, s.noShell(res, p.out.head)
	}
	if res.ExitCode == killed && !s.runs(ctx) {
		return provider.Result{Stderr: res.Stderr}, s.stoppedError(p.label)
	}
	return res, nil
}

// killed is the exit code of what SIGKILL has ended: by somebody there, or with
// the whole container.
const killed = 137

// runs says whether the container still runs, as far as the daemon knows a
// moment later: it hears of the commands' end first.
func (s *Sandbox) runs(ctx context.Context) bool {
	for range 5 {
		found, err := s.daemon.ContainerInspect(ctx, s.id, client.ContainerInspectOptions{})
		if err != nil || found.Container.State != nil && !found.Container.State.Running {
			return false
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (s *Sandbox) stoppedError(op string) error {
	return &provider.Error{Kind: provider.Unreachable, Op: op, Final: true, Err: fmt.Errorf("container %q has been stopped", s.name), Hint: "run it again with --start"}
}

// started is an exec whose streams are attached.
type started struct {
	id   string
	conn client.HijackedResponse
}

// start starts a command. A context that ends does not wait for the daemon;
// what has begun then is ended by itself.
func (s *Sandbox) start(ctx context.Context, opt client.ExecCreateOptions) (started, error) {
	type outcome struct {
		started
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), provider.DialTimeout)
		defer cancel()
		e, err := s.attach(late, opt)
		done <- outcome{e, err}
	}()
	select {
	case o := <-done:
		return o.started, o.err
	case <-ctx.Done():
		go func() {
			if o := <-done; o.err == nil {
				newProcess(s, o.started, provider.Command{}).end()
			}
		}()
		return started{}, ctx.Err()
	}
}

func (s *Sandbox) attach(ctx context.Context, opt client.ExecCreateOptions) (started, error) {
	created, err := s.daemon.ExecCreate(ctx, s.id, opt)
	if err != nil {
		return started{}, s.late(s.daemon.explain("exec", err))
	}
	attached, err := s.daemon.ExecAttach(ctx, created.ID, client.ExecAttachOptions{})
	if err != nil {
		return started{}, s.late(s.daemon.explain("exec", err))
	}
	return started{created.ID, attached.HijackedResponse}, nil
}

// late says that the daemon took too long. The context is our own there.
func (s *Sandbox) late(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &provider.Error{Kind: provider.Unreachable, Op: "exec", Err: fmt.Errorf("the Docker daemon at %s has not answered for %v", s.daemon.host, provider.DialTimeout)}
	}
	return err
}
