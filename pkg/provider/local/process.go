package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/remote"
)

const (
	// killAfter is how long a process group has to end after SIGTERM.
	killAfter = 2 * time.Second
	// reapAfter bounds what can take long after SIGKILL: a process stuck in
	// the kernel, or a caller's Write that does not return.
	reapAfter = 2 * time.Second
	// bufferSize is that of one read of standard output, and of stdin.
	bufferSize = 256 << 10
)

// process is a command that was started, and the copying to and from it.
type process struct {
	cmd    *exec.Cmd
	label  string
	ours   []*os.File // our pipe ends
	stderr provider.Tail
	held   *provider.Collector // nil if the caller takes the output

	exited chan error // of cmd.Wait, once
	stdin  chan error // what reading the caller's stdin failed with, at most once
	output chan error // one for each of stdout and stderr, nil at their end
	copies int        // how many more come from output
	stdout *remote.Output
}

// start starts c with cmd's streams connected. Regular files become the
// command's own, everything else is copied through pipes.
func start(c *exec.Cmd, cmd provider.Command, opts Options) (*process, error) {
	p := &process{cmd: c, label: cmd.Label, exited: make(chan error, 1), stdin: make(chan error, 1), output: make(chan error, 2)}
	var theirs []*os.File
	defer func() { closeAll(theirs) }()

	in, out, errs, err := p.connect(cmd, &theirs)
	if err == nil {
		if opts.Adjust != nil {
			opts.Adjust(c)
		}
		err = c.Start()
	}
	if err != nil {
		closeAll(p.ours)
		return nil, err
	}
	p.copy(in, out, errs, cmd, opts)
	return p, nil
}

// connect makes the pipes. The command's ends are added to theirs, our ends are
// kept and returned; an end is nil where no copying is needed.
func (p *process) connect(cmd provider.Command, theirs *[]*os.File) (in, out, errs *os.File, err error) {
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	c := p.cmd
	if f := regular(cmd.Stdin); f != nil {
		c.Stdin = f
	} else if cmd.Stdin != nil {
		r, w := pipe()
		c.Stdin, in = r, w
		*theirs, p.ours = append(*theirs, r), append(p.ours, w)
		enlarge(w)
	}
	if f := regular(cmd.Stdout); f != nil {
		c.Stdout = f
	} else {
		r, w := pipe()
		c.Stdout, out = w, r
		*theirs, p.ours = append(*theirs, w), append(p.ours, r)
		enlarge(r)
	}
	r, w := pipe()
	c.Stderr, errs = w, r
	*theirs, p.ours = append(*theirs, w), append(p.ours, r)
	return in, out, errs, err
}

// copy starts the goroutines that move the bytes.
func (p *process) copy(in, out, errs *os.File, cmd provider.Command, opts Options) {
	go func() { p.exited <- p.cmd.Wait() }()
	if in != nil {
		go p.feed(in, cmd.Stdin)
	}
	if out != nil {
		w := cmd.Stdout
		if w == nil {
			p.held = &provider.Collector{Max: cmd.MaxOutput}
			w = p.held
		}
		p.stdout = remote.NewOutput(w)
		p.copies++
		go func() {
			err := drain(p.stdout, out, bufferSize)
			if opts.OutputClosed != nil && err == nil {
				opts.OutputClosed()
			}
			p.output <- err
		}()
	}
	p.copies++
	go func() { p.output <- drain(&p.stderr, errs, provider.StderrTail) }()
}

// feed copies the caller's stdin to the command. If reading fails, the pipe is
// left open, so that the command never takes a cut input for a whole one; the
// group is ended instead.
func (p *process) feed(in *os.File, from io.Reader) {
	if err := remote.SendInput(in, from, bufferSize); err != nil {
		p.stdin <- err
		return
	}
	in.Close()
}

// drain copies until end-of-file. A read that fails because the file was
// closed under it is an end too.
func drain(w io.Writer, from *os.File, bufferSize int) error {
	buf := make([]byte, bufferSize)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if err == io.EOF || errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// run waits for the end, or brings it about.
func (p *process) run(ctx context.Context) (provider.Result, error) {
	defer closeAll(p.ours)
	var failed error
	exited := false
	for !exited || p.copies > 0 {
		select {
		case <-p.exited:
			exited = true
		case err := <-p.output:
			p.copies--
			failed = p.explain("write stdout", err)
		case err := <-p.stdin:
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
	case err := <-p.stdin:
		return provider.Result{Stderr: p.stderr.Bytes()}, p.explain("read stdin", err)
	default:
	}
	res := provider.Result{ExitCode: exitCode(p.cmd.ProcessState), Stderr: p.stderr.Bytes()}
	if p.held != nil {
		res.Stdout = p.held.Bytes()
	}
	return res, nil
}

func (p *process) explain(verb string, err error) error {
	if err == nil {
		return nil
	}
	label := p.label
	if label == "" {
		label = "exec"
	}
	return fmt.Errorf("%s: %s: %w", label, verb, err)
}

// end ends the process group and what copies for it, and waits for both, in
// bounded time.
func (p *process) end(exited bool) {
	done := make(chan struct{})
	if exited {
		close(done)
	} else {
		go func() { <-p.exited; close(done) }()
	}
	endGroup(p.cmd.Process, done)
	late, cancel := context.WithTimeout(context.Background(), reapAfter)
	defer cancel()
	select {
	case <-done:
	case <-late.Done():
	}
	closeAll(p.ours)
	for late.Err() == nil && p.copies > 0 {
		select {
		case <-p.output:
			p.copies--
		case <-late.Done():
		}
	}
	if p.stdout != nil {
		p.stdout.Revoke()
	}
}

// regular returns v if it is an open regular file, which can be handed to a
// process as it is. A terminal can't (a group in the background may not read
// it), and a pipe would lose its non-blocking mode.
func regular(v any) *os.File {
	f, ok := v.(*os.File)
	if !ok || f == nil {
		return nil
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return f
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
