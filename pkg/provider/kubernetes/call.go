package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/remote"
)

const (
	// killTime is how long the end of a command that was given up is waited for.
	killTime = 5 * time.Second
	// markTime is how long the process number of such a command is waited for.
	markTime = 2 * time.Second
	// closeTime is how long copying may go on after its connection was closed.
	// Only a Write of the caller's that hangs takes longer.
	closeTime = 2 * time.Second
	// pieceSize is the most that is sent in one piece: client-go's and
	// containerd's size of a WebSocket message.
	pieceSize = 32 << 10
)

// run runs args as they are. A mark, if there is one, learns the process.
func (s *sandbox) run(ctx context.Context, args []string, cmd provider.Command, mark *remote.Announced) (provider.Result, error) {
	if err := ctx.Err(); err != nil {
		return provider.Result{}, err
	}
	op := cmd.Label
	if op == "" {
		op = "exec"
	}
	st, err := s.open(ctx, s.protocol, args, cmd.Stdin != nil)
	if err != nil {
		if ctx.Err() != nil {
			return provider.Result{}, ctx.Err()
		}
		var known *provider.Error
		if errors.As(err, &known) {
			return provider.Result{}, err
		}
		return provider.Result{}, apiError(op, err)
	}
	c := newCall(st, op, cmd, mark)
	err = c.wait(ctx)
	if err != nil && mark != nil {
		s.end(mark)
	}
	c.close()
	return c.result(err)
}

// end ends a command that was given up, and all of its group. It comes before
// its connection is closed: a command must not take that for its input's end.
func (s *sandbox) end(process *remote.Announced) {
	select {
	case <-process.Known():
	case <-time.After(markTime):
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTime)
	defer cancel()
	_, _ = s.run(ctx, []string{"sh", "-c", remote.KillCommand("KILL", process.PID())}, provider.Command{}, nil)
}

// call is one command under way.
type call struct {
	st     *streams
	op     string
	held   *provider.Collector // nil if the caller takes the output
	stderr *provider.Tail
	out    *remote.Output
	failed chan error // at most one each: input not read, stdout or stderr not written
	done   chan error // of collect, once
	copies sync.WaitGroup
}

// newCall starts copying.
func newCall(st *streams, op string, cmd provider.Command, mark *remote.Announced) *call {
	c := &call{st: st, op: op, failed: make(chan error, 3), done: make(chan error, 1)}
	w := cmd.Stdout
	if w == nil {
		c.held = &provider.Collector{Max: cmd.MaxOutput}
		w = c.held
	}
	c.out, c.stderr = remote.NewOutput(w), new(provider.Tail)
	var stderr io.Writer = c.stderr
	if mark != nil {
		c.stderr, stderr = &mark.Tail, mark
	}
	if st.stdin != nil {
		go c.feed(cmd.Stdin)
	}
	errs := make(chan error, 2)
	c.copies.Go(func() { errs <- c.copyOut(c.out, st.stdout) })
	c.copies.Go(func() {
		err := c.copyOut(stderr, st.stderr)
		if mark != nil {
			mark.Flush()
		}
		errs <- err
	})
	c.copies.Go(func() { c.done <- c.collect(errs) })
	return c
}

// wait waits for the command's end, or for what makes it useless to go on. A
// failure on this side counts more than how the command ended.
func (c *call) wait(ctx context.Context) error {
	var err error
	select {
	case err = <-c.done:
	case err = <-c.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case failed := <-c.failed:
		return failed
	default:
	}
	if err != nil && !isExit(err) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// close ends the connection and all copying of output, so that the caller's
// Stdout is written to no more. Only the caller's Stdin may still be in a Read,
// which nothing can end; what that returns goes nowhere.
func (c *call) close() {
	c.st.close()
	over := make(chan struct{})
	go func() { c.copies.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(closeTime):
	}
	c.out.Revoke()
}

func (c *call) result(err error) (provider.Result, error) {
	res := provider.Result{Stderr: c.stderr.Bytes()}
	var exit *exitError
	if errors.As(err, &exit) {
		res.ExitCode, err = exit.code, nil
	}
	if err == nil && c.held != nil {
		res.Stdout = c.held.Bytes()
	}
	return res, err
}

// feed sends the input. If it can't be read it is not ended, lest it be taken for
// whole.
func (c *call) feed(from io.Reader) {
	if err := remote.SendInput(pieces{c.st.stdin}, from, pieceSize); err != nil {
		c.failed <- fmt.Errorf("%s: read stdin: %w", c.op, err)
		return
	}
	_ = c.st.stdin.Close()
}

// pieces writes no more than pieceSize at once.
type pieces struct{ w io.Writer }

func (p pieces) Write(b []byte) (n int, err error) {
	for n < len(b) {
		end := min(n+pieceSize, len(b))
		if _, err := p.w.Write(b[n:end]); err != nil {
			return n, err
		}
		n = end
	}
	return n, nil
}

// collect waits for both outputs' ends and for the status. Nothing else is taken
// for the command's success.
func (c *call) collect(copied <-chan error) error {
	status, err := io.ReadAll(io.LimitReader(c.st.status, 1<<20))
	cut := errors.Join(<-copied, <-copied)
	if len(status) == 0 {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return lost(c.op, err)
	}
	ended := statusError(c.op, status)
	if cut != nil && (ended == nil || isExit(ended)) {
		return lost(c.op, cut)
	}
	return ended
}

// copyOut reports a writer that fails at once, a reader that fails in the end.
func (c *call) copyOut(to io.Writer, from io.Reader) error {
	buf := make([]byte, 2*pieceSize)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				c.failed <- fmt.Errorf("%s: write stdout: %w", c.op, werr)
				return werr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
