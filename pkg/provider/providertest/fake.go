package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/local"
)

// Fake is a sandbox on this machine that misbehaves as its [Options] say. It
// wraps a real shell, so that what commands do is real.
type Fake struct {
	opts  Options
	root  string
	state string // scratch of its own: tools, temporary files of commands
	path  string // PATH of commands; empty means the environment's
	shell string // absolute, of this machine

	mu      sync.Mutex
	calls   int
	execs   int
	streams int
	running int
	peak    int
	fired   map[string]int
	recent  []time.Time // calls let through in the last second
}

// NewFake makes a fake sandbox. An error says what this machine lacks for it,
// with a hint. Close removes what was made.
func NewFake(opts Options) (*Fake, error) {
	f := &Fake{opts: opts, fired: make(map[string]int)}
	if opts.ReadOnly && os.Geteuid() == 0 {
		f.opts.OtherUser = true
	}
	if err := f.prepare(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Open is NewFake for a test: it fails the test on an error and closes the fake
// when the test ends.
func Open(t testing.TB, opts Options) *Fake {
	t.Helper()
	f, err := NewFake(opts)
	if err != nil {
		t.Fatalf("fake sandbox: %v (%s)", err, provider.HintOf(err))
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Root is the directory for targets to lie in.
func (f *Fake) Root() string { return f.root }

// TempDir is the TMPDIR of commands, to look for what they left.
func (f *Fake) TempDir() string { return filepath.Join(f.state, "tmp") }

// Execs, Streams and Calls return how often Exec, Stream and any verb were
// called.
func (f *Fake) Execs() int   { return f.count(&f.execs) }
func (f *Fake) Streams() int { return f.count(&f.streams) }
func (f *Fake) Calls() int   { return f.count(&f.calls) }

// Peak returns how many calls there were at once, at most.
func (f *Fake) Peak() int { return f.count(&f.peak) }

// Fired returns how often an option did harm, by its key in the configuration:
// "cut_stdout", "lose_tail". A test that wants a fault must see that it came.
// What the machine is like (the last group of options) does not count, but for
// "space_left".
func (f *Fake) Fired(key string) int {
	if key == "space_left" {
		marks, _ := os.ReadFile(filepath.Join(f.state, "space", "full"))
		return len(marks)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired[key]
}

func (f *Fake) count(n *int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *n
}

func (f *Fake) fire(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fired[key]++
}

// spend fires key and returns true for the first budget calls of it; for all if
// budget is less than 0.
func (f *Fake) spend(key string, budget int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if budget >= 0 && f.fired[key] >= budget {
		return false
	}
	f.fired[key]++
	return true
}

// Capabilities says what the options of the first group say.
func (f *Fake) Capabilities() provider.Capabilities {
	o := f.opts
	caps := provider.Capabilities{
		Stdin: !o.NoStdin, HalfClose: !o.NoHalfClose && !o.NoStdin,
		MaxStdin: o.MaxStdin, MaxStdout: o.MaxStdout,
		MergedOutput: o.MergedOutput, TextOutput: o.TextOutput,
		MaxArg: o.MaxArg, MaxConcurrent: o.MaxConcurrent,
		Stream: o.Stream, Files: o.Files, EarlyExit: o.LoseTail > 0 && !o.HideEarlyExit,
	}
	if !o.Stream {
		caps.Notes = append(caps.Notes, "stream: the fake was made without it")
	}
	if !o.Files {
		caps.Notes = append(caps.Notes, "files: the fake was made without it")
	}
	return caps
}

// Exec runs a command, faults included.
func (f *Fake) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	return f.call(ctx, &f.execs, func() (provider.Result, error) { return f.exec(ctx, cmd) })
}

// Stream runs a command with live streams, faults included.
func (f *Fake) Stream(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	if !f.opts.Stream {
		return provider.Result{}, provider.ErrNotImplemented
	}
	if cmd.Stdout == nil {
		return provider.Result{}, provider.New(provider.Usage, "stream: no stdout given", "")
	}
	return f.call(ctx, &f.streams, func() (provider.Result, error) { return f.stream(ctx, cmd) })
}

// exec runs a command through the faults of Exec.
func (f *Fake) exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	out, held := cmd.Stdout, (*provider.Collector)(nil)
	if out == nil {
		held = &provider.Collector{Max: cmd.MaxOutput}
		out = held
	}
	if f.opts.CutStdout > 0 {
		out = &capWriter{w: out, left: f.opts.CutStdout, over: func() { f.fire("cut_stdout") }}
	}
	if f.opts.MaxStdout > 0 {
		out = &capWriter{w: out, left: f.opts.MaxStdout, over: func() { f.fire("max_stdout") }}
	}
	var text *textWriter
	if f.opts.TextOutput {
		text = &textWriter{w: out}
		out = text
	}
	if f.opts.MaxStdin > 0 && cmd.Stdin != nil {
		cmd.Stdin = &boundedReader{r: cmd.Stdin, left: f.opts.MaxStdin}
	}
	cmd.Stdout = out
	res, err := f.run(ctx, cmd, nil)
	if text != nil && err == nil {
		err = text.end()
	}
	if held != nil && err == nil {
		res.Stdout = held.Bytes()
	}
	return res, err
}

// boundedReader fails when there is more to read than the provider accepts.
type boundedReader struct {
	r    io.Reader
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, provider.New(provider.TooLarge, "HTTP 413 Content Too Large", "")
	}
	return n, err
}

// stream runs a command through the faults of Stream.
func (f *Fake) stream(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	var outCut *cutter
	if c := f.opts.CutStreamOut; !c.none() && f.budget("cut_stream_out", c.Times) {
		outCut = &cutter{cut: c}
		cmd.Stdout = &cutWriter{w: cmd.Stdout, cut: outCut}
	}
	var inCut *cutter
	if c := f.opts.CutStreamIn; !c.none() && cmd.Stdin != nil && f.budget("cut_stream_in", c.Times) {
		inCut = &cutter{cut: c}
	}
	res, err := f.run(ctx, cmd, inCut)
	switch {
	case errors.Is(err, errCut):
		f.fire("cut_stream_out")
		if f.opts.CutStreamOut.Break {
			return res, provider.New(provider.Unreachable, "stream: connection lost", "")
		}
		return provider.Result{}, nil
	case errors.Is(err, errBroken):
		return res, provider.New(provider.Unreachable, "stream: connection lost", "")
	case err == nil && inCut != nil && inCut.done:
		res.ExitCode = 0
	}
	return res, err
}

// budget says whether a fault may still happen.
func (f *Fake) budget(key string, times int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return times == 0 || f.fired[key] < times
}

// run runs a command through the faults that Exec and Stream share.
func (f *Fake) run(ctx context.Context, cmd provider.Command, inCut *cutter) (provider.Result, error) {
	if cmd.Stdin != nil && f.opts.NoStdin {
		return provider.Result{}, provider.New(provider.NotImplemented, "exec: this sandbox takes no stdin", "")
	}
	for _, arg := range cmd.Args {
		if f.opts.MaxArg > 0 && len(arg) > f.opts.MaxArg {
			return provider.Result{}, provider.New(provider.TooLarge, fmt.Sprintf("exec: argument of %d bytes", len(arg)), "")
		}
	}
	var tail *tailWriter
	if f.opts.LoseTail > 0 {
		tail = &tailWriter{w: cmd.Stdout, size: f.opts.LoseTail}
		cmd.Stdout = tail
	}
	pump := f.input(&cmd, inCut)
	outputClosed := func() {
		if tail != nil {
			if lost, _ := tail.end(); lost > 0 {
				f.fire("lose_tail")
			}
		}
		if pump != nil && f.opts.StopStdin && pump.stop() {
			f.fire("stop_stdin")
		}
	}
	res, err := local.New(local.Options{Path: f.path, Adjust: f.adjust, OutputClosed: outputClosed}).Exec(ctx, f.inBox(cmd))
	if pump != nil {
		pump.end()
	}
	if tail != nil {
		if _, late := tail.end(); err == nil {
			err = late
		}
	}
	if err != nil {
		return res, err
	}
	return res, f.tellExit(ctx)
}

// input puts a pump in front of cmd's input if a fault needs one.
func (f *Fake) input(cmd *provider.Command, cut *cutter) *inputPump {
	if cmd.Stdin == nil {
		return nil
	}
	if f.opts.DropStdin != 0 && f.spend("drop_stdin", f.opts.DropStdin) {
		pump := newInputPump(cmd.Stdin)
		pump.cut, pump.onCut = &cutter{cut: Cut{Bytes: 0}, done: true}, func() {}
		pump.w.Close()
		cmd.Stdin = pump.r
		go pump.run()
		return pump
	}
	if cut == nil && !f.opts.NoHalfClose && !f.opts.StopStdin {
		return nil
	}
	pump := newInputPump(cmd.Stdin)
	pump.keepOpen, pump.hesitate = f.opts.NoHalfClose, f.opts.StopStdin
	pump.cut, pump.onCut = cut, func() { f.fire("cut_stream_in") }
	if f.opts.CutStreamIn.Break {
		pump.cutError = errBroken
	}
	cmd.Stdin = pump.r
	go pump.run()
	return pump
}

// inBox adds what the machine is like to cmd.
func (f *Fake) inBox(cmd provider.Command) provider.Command {
	env := map[string]string{"HOME": f.root, "TMPDIR": f.TempDir()}
	for name, value := range cmd.Env {
		env[name] = value
	}
	cmd.Env = env
	if cmd.Dir == "" {
		cmd.Dir = f.root
	}
	if f.opts.Umask != 0 && len(cmd.Args) > 0 {
		script := fmt.Sprintf(`umask %04o; exec "$@"`, f.opts.Umask)
		cmd.Args = append([]string{f.shell, "-c", script, "sh"}, cmd.Args...)
	}
	return cmd
}

// tellExit tells the end of a command, late or never.
func (f *Fake) tellExit(ctx context.Context) error {
	if f.opts.LoseExit != 0 && f.spend("lose_exit", f.opts.LoseExit) {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.opts.DelayExit > 0 {
		f.fire("delay_exit")
	}
	return wait(ctx, f.opts.DelayExit)
}

var (
	_ provider.Streamer = (*Fake)(nil)
	_ provider.Filer    = (*Fake)(nil)
)
