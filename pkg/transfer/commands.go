package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
)

// commands runs an operation's post-upload commands, verbatim and in order.
// The first that fails ends the operation.
func (r *runner) commands(ctx context.Context, op Operation) error {
	for i, c := range op.Commands {
		if err := r.command(ctx, op, c); err != nil {
			// Nobody knows whether it may run twice.
			return &provider.Error{Kind: provider.KindOf(err), Final: true, Op: fmt.Sprintf("command %d of operation %q", i+1, op.ID), Err: err}
		}
	}
	return nil
}

func (r *runner) command(ctx context.Context, op Operation, c PostCommand) error {
	dir := c.Dir
	if dir == "" && len(op.Files) > 0 {
		if dir = op.Files[0].Target; op.Files[0].Kind == FileKind {
			dir = path.Dir(dir)
		}
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
		defer cancel()
	}
	r.phase("command")
	args := []string{"sh", "-c", c.Command}
	if dir != "" {
		// Some providers ignore the directory (paperclipai/paperclip#10263).
		args = []string{"sh", "-c", `cd -- "$1" && exec sh -c "$2"`, "sh", dir, c.Command}
	}
	var out provider.Tail // a command may print any amount
	res, err := r.sandbox.Exec(provider.Patient(ctx), provider.Command{Label: "command", Args: args, Dir: dir, Stdout: &out})
	if err != nil {
		if errors.Is(context.Cause(ctx), errTimeout) {
			return &provider.Error{Kind: provider.Timeout, Final: true, Err: fmt.Errorf("not done after %v", c.Timeout)}
		}
		return err
	}
	if res.ExitCode != 0 {
		return fmt.Errorf("exit code %d%s", res.ExitCode, tails(out.Bytes(), res.Stderr))
	}
	return nil
}

var errTimeout = errors.New("the command's time is up")

// tails shows the end of a command's two streams.
func tails(stdout, stderr []byte) string {
	var b strings.Builder
	for _, s := range []struct {
		name string
		text []byte
	}{{"stdout", stdout}, {"stderr", stderr}} {
		if text := strings.TrimSpace(string(s.text[max(0, len(s.text)-1000):])); text != "" {
			fmt.Fprintf(&b, "; %s: %s", s.name, text)
		}
	}
	return b.String()
}

// spool copies standard input to a temporary file, since a file's size has to
// be known before it is sent. The caller calls remove. A read that is under way
// when ctx ends is left behind: nothing can interrupt it on every system.
func spool(ctx context.Context, in *os.File) (name string, remove func(), err error) {
	f, err := os.CreateTemp("", "sbsync-stdin-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.Remove(f.Name()) }
	copied := make(chan error, 1)
	go func() {
		_, err := f.ReadFrom(in)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		copied <- err
	}()
	select {
	case err = <-copied:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return f.Name(), remove, nil
}
