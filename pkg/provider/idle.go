package provider

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Idle returns sb with a deadline on silence: a call during which nothing of
// the input was read and nothing of the output written for the time d is ended
// with an error of kind [Timeout]. However long a call takes in all, it may go
// on as long as bytes move; time that the caller's own Write takes does not
// count. A d of 0 or less changes nothing.
//
// A command that is silent by nature must print something now and then, or be
// run under [Patient]. Operations of a [Syncer] can't be watched and have no
// deadline.
func Idle(sb Sandbox, d time.Duration) Sandbox {
	if d <= 0 {
		return sb
	}
	return &idle{passthrough: passTo(sb), limit: d}
}

type patientKey struct{}

// Patient returns a context whose calls have no [Idle] deadline: for commands
// of the user's, which may be silent for as long as they like.
func Patient(ctx context.Context) context.Context {
	return context.WithValue(ctx, patientKey{}, true)
}

type idle struct {
	passthrough
	limit time.Duration
}

func (i *idle) Exec(ctx context.Context, cmd Command) (Result, error) {
	return i.command(ctx, "exec", cmd, i.passthrough.Exec)
}

func (i *idle) Stream(ctx context.Context, cmd Command) (Result, error) {
	return i.command(ctx, "stream", cmd, i.passthrough.Stream)
}

func (i *idle) command(ctx context.Context, op string, cmd Command, run func(context.Context, Command) (Result, error)) (res Result, err error) {
	if cmd.Label != "" {
		op = cmd.Label
	}
	var held *Collector
	watched := cmd
	if cmd.Stdout == nil {
		held = &Collector{Max: cmd.MaxOutput} // to see the output arrive
		watched.Stdout = held
	}
	err = i.watch(ctx, op, func(ctx context.Context, w *watchdog) error {
		if cmd.Stdin != nil {
			watched.Stdin = watchedReader{cmd.Stdin, w}
		}
		watched.Stdout = watchedWriter{watched.Stdout, w}
		res, err = run(ctx, watched)
		return err
	})
	if held != nil {
		res.Stdout = held.Bytes()
	}
	return res, err
}

func (i *idle) PutFiles(ctx context.Context, files []PutFile) error {
	return i.watch(ctx, "put files", func(ctx context.Context, w *watchdog) error {
		watched := make([]PutFile, len(files))
		for n, f := range files {
			watched[n] = f
			watched[n].Open = func() (io.ReadCloser, error) {
				r, err := f.Open()
				if err != nil {
					return nil, err
				}
				return struct {
					io.Reader
					io.Closer
				}{watchedReader{r, w}, r}, nil
			}
		}
		return i.passthrough.PutFiles(ctx, watched)
	})
}

func (i *idle) GetFile(ctx context.Context, path string, offset int64, out io.Writer) error {
	return i.watch(ctx, "get file", func(ctx context.Context, w *watchdog) error {
		return i.passthrough.GetFile(ctx, path, offset, watchedWriter{out, w})
	})
}

// watch runs one call under a watchdog.
func (i *idle) watch(ctx context.Context, op string, run func(context.Context, *watchdog) error) error {
	if ctx.Value(patientKey{}) != nil {
		return run(ctx, new(watchdog)) // without a timer it never bites
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &watchdog{limit: i.limit, bite: cancel, fed: time.Now()}
	defer w.start().Stop()
	err := run(inner, w)
	if err != nil && ctx.Err() == nil && w.bitten() {
		return &Error{Kind: Timeout, Op: op, Err: fmt.Errorf("nothing moved for %v", i.limit),
			Hint: "the sandbox or the way to it hangs; if it is only slow, allow a longer silence"}
	}
	return err
}

// watchdog cancels a call when it was not fed for limit.
type watchdog struct {
	limit time.Duration
	bite  context.CancelFunc
	timer *time.Timer

	mu   sync.Mutex
	fed  time.Time
	busy int // writes of the caller that are under way
	bit  bool
}

func (w *watchdog) start() *time.Timer {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.limit, w.bark)
	return w.timer
}

// feed says that bytes moved. It only notes the time; the timer finds out when
// it runs off whether that was too long ago.
func (w *watchdog) feed(busy int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fed = time.Now()
	w.busy += busy
}

func (w *watchdog) bark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.limit
	if w.busy == 0 {
		left = w.limit - time.Since(w.fed)
	}
	if left <= 0 {
		w.bit = true
		w.bite()
		return
	}
	w.timer.Reset(left)
}

func (w *watchdog) bitten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bit
}

type watchedReader struct {
	r io.Reader
	w *watchdog
}

func (r watchedReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.w.feed(0)
	return n, err
}

// WriteTo lets a source that writes itself do so. Waiting for the command to
// take its input counts as silence, as in Read.
func (r watchedReader) WriteTo(w io.Writer) (int64, error) {
	return relay(fedWriter{w, r.w}, r.r)
}

// fedWriter feeds the watchdog with what was written.
type fedWriter struct {
	w   io.Writer
	dog *watchdog
}

func (f fedWriter) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	f.dog.feed(0)
	return n, err
}

type watchedWriter struct {
	out io.Writer
	w   *watchdog
}

func (w watchedWriter) Write(p []byte) (int, error) {
	w.w.feed(+1)
	defer w.w.feed(-1)
	return w.out.Write(p)
}
