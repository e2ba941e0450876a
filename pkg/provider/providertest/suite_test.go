package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/local"
)

func TestFakePassesSuite(t *testing.T) {
	for name, opts := range map[string]Options{
		"exec only":     {},
		"all verbs":     {Stream: true, Files: true},
		"no stdin":      {NoStdin: true, TextOutput: true, MergedOutput: true, Files: true},
		"no half-close": {NoHalfClose: true, Stream: true},
		"limits":        {MaxStdin: 100_000, MaxStdout: 65_536, MaxArg: 30_000, MaxConcurrent: 2},
		"containerd":    {Stream: true, StopStdin: true, LoseTail: 4096},
		"wrapped":       {Base64Wrap: WrapCRLF},
		"busybox":       {Stream: true, BusyBox: true},
		"other user":    {Stream: true, OtherUser: true, Umask: 0o077},
	} {
		t.Run(name, func(t *testing.T) {
			NoLeaks(t)
			Suite(t, func(t *testing.T) (provider.Sandbox, string) {
				f := Open(t, opts)
				return f, f.Root()
			})
		})
	}
}

// recorder takes a check's failures instead of a test.
type recorder struct {
	mu       sync.Mutex
	failures []string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failuresOf runs one check against a sandbox.
func failuresOf(t *testing.T, name string, sb provider.Sandbox, dir string, limit time.Duration) []string {
	t.Helper()
	at := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
	if at < 0 {
		t.Fatalf("no check %q", name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := new(recorder)
	var wg sync.WaitGroup
	wg.Go(func() { checks[at].run(newBox(ctx, r, sb, dir, nil)) })
	wg.Wait()
	return r.failures
}

// liar changes what a sandbox does or says.
type liar struct {
	*Fake
	caps func(*provider.Capabilities)
	exec func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error)
}

type execFunc func(context.Context, provider.Command) (provider.Result, error)

func (l *liar) Capabilities() provider.Capabilities {
	caps := l.Fake.Capabilities()
	if l.caps != nil {
		l.caps(&caps)
	}
	return caps
}

func (l *liar) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	if l.exec == nil {
		return l.Fake.Exec(ctx, cmd)
	}
	return l.exec(ctx, cmd, l.Fake.Exec)
}

func (l *liar) Stream(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	if l.exec == nil {
		return l.Fake.Stream(ctx, cmd)
	}
	return l.exec(ctx, cmd, l.Fake.Stream)
}

// TestSuiteCatches: a suite that nothing fails is worth nothing.
func TestSuiteCatches(t *testing.T) {
	streaming := Options{Stream: true}
	for _, tc := range []struct {
		lie, check string
		opts       Options
		caps       func(*provider.Capabilities)
		exec       func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error)
	}{
		{lie: "exit code is lost", check: "exit codes", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			res, err := run(ctx, cmd)
			res.ExitCode = 0
			return res, err
		}},
		{lie: "a failed command is an error", check: "exit codes", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			res, err := run(ctx, cmd)
			if res.ExitCode != 0 {
				err = errors.New("failed")
			}
			return res, err
		}},
		{lie: "not found is an error", check: "command not found", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			if _, err := exec.LookPath(cmd.Args[0]); err != nil {
				return provider.Result{}, err
			}
			return run(ctx, cmd)
		}},
		{lie: "text output", check: "standard output", opts: Options{TextOutput: true}, caps: func(c *provider.Capabilities) { c.TextOutput = false }},
		{lie: "capped output", check: "standard output", opts: Options{CutStdout: 512 << 10}},
		{lie: "lost tail", check: "standard output", opts: Options{LoseTail: 100, HideEarlyExit: true}},
		{lie: "merged output", check: "standard error", opts: Options{MergedOutput: true}, caps: func(c *provider.Capabilities) { c.MergedOutput = false }},
		{lie: "stderr is dropped", check: "standard error", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			res, err := run(ctx, cmd)
			res.Stderr = nil
			return res, err
		}},
		{lie: "directory is ignored", check: "directory", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			cmd.Dir = ""
			return run(ctx, cmd)
		}},
		{lie: "environment is dropped", check: "environment", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			cmd.Env = nil
			return run(ctx, cmd)
		}},
		{lie: "double quotes", check: "hostile words", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			return run(ctx, joined(cmd, func(s string) string { return fmt.Sprintf("%q", s) }))
		}},
		{lie: "no quotes", check: "hostile words", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			return run(ctx, joined(cmd, func(s string) string {
				if strings.ContainsAny(s, "\n$ ") {
					return "'" + s + "'"
				}
				return s
			}))
		}},
		{lie: "short arguments", check: "long arguments", opts: Options{MaxArg: 1000}, caps: func(c *provider.Capabilities) { c.MaxArg = 0 }},
		{lie: "stdin is dropped", check: "input of all bytes", opts: Options{DropStdin: -1}},
		{lie: "stdin is dropped where there should be none", check: "no input", opts: Options{DropStdin: -1}, caps: func(c *provider.Capabilities) { c.Stdin = false }},
		{lie: "stdin is text", check: "input of all bytes", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			if cmd.Stdin != nil {
				all, _ := io.ReadAll(cmd.Stdin)
				cmd.Stdin = strings.NewReader(strings.ToValidUTF8(string(all), "?"))
			}
			return run(ctx, cmd)
		}},
		{lie: "no half-close", check: "no input", opts: Options{NoHalfClose: true}, caps: func(c *provider.Capabilities) { c.HalfClose = true }},
		{lie: "all input is read first", check: "input that nobody reads", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			if cmd.Stdin != nil {
				if _, err := io.Copy(io.Discard, io.LimitReader(untilDone{ctx, cmd.Stdin}, 1<<40)); err != nil {
					return provider.Result{}, err
				}
			}
			return run(ctx, cmd)
		}},
		{lie: "a failed input is an end", check: "input that fails", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			if cmd.Stdin != nil {
				all, _ := io.ReadAll(cmd.Stdin)
				cmd.Stdin = strings.NewReader(string(all))
			}
			return run(ctx, cmd)
		}},
		{lie: "a failed output is ignored", check: "output that fails", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			if cmd.Stdout != nil {
				to := cmd.Stdout
				cmd.Stdout = writerFunc(func(p []byte) (int, error) { to.Write(p); return len(p), nil })
			}
			return run(ctx, cmd)
		}},
		{lie: "too much output is cut", check: "output limit", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			limit := cmd.MaxOutput
			cmd.MaxOutput = 0
			res, err := run(ctx, cmd)
			if limit > 0 && int64(len(res.Stdout)) > limit {
				res.Stdout = res.Stdout[:limit]
			}
			return res, err
		}},
		{lie: "cancel leaves the command", check: "cancel", exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			if !strings.Contains(cmd.Args[2], "while") {
				return run(ctx, cmd)
			}
			ended := make(chan struct{})
			apart, cancel := context.WithTimeout(context.WithoutCancel(ctx), 25*time.Second)
			go func() { defer cancel(); run(apart, cmd); close(ended) }()
			<-ctx.Done()
			return provider.Result{}, ctx.Err()
		}},
		{lie: "one at a time", check: "many at once", opts: Options{MaxConcurrent: 3}, exec: func() func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			var one sync.Mutex
			return func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
				one.Lock()
				defer one.Unlock()
				return run(ctx, cmd)
			}
		}()},
		{lie: "the stream is collected", check: "stream is live", opts: streaming, exec: func(ctx context.Context, cmd provider.Command, run execFunc) (provider.Result, error) {
			var out strings.Builder
			to := cmd.Stdout
			cmd.Stdout = &out
			res, err := run(ctx, cmd)
			io.WriteString(to, out.String())
			return res, err
		}},
		{lie: "a cut stream", check: "stream to a slow reader", opts: Options{Stream: true, CutStreamOut: Cut{Bytes: 1 << 20}}},
		{lie: "a cut input", check: "stream of all bytes", opts: Options{Stream: true, CutStreamIn: Cut{Bytes: 1 << 10}}},
		{lie: "no half-close", check: "stream half-close", opts: Options{Stream: true, NoHalfClose: true}, caps: func(c *provider.Capabilities) { c.HalfClose = true }},
		{lie: "files get lost", check: "files", opts: Options{Files: true, LosePut: 1 << 20}},
		{lie: "verbs are missing", check: "capabilities", caps: func(c *provider.Capabilities) { c.Sync = true }},
		{lie: "less output than said", check: "capabilities", opts: Options{CutStdout: 1000}, caps: func(c *provider.Capabilities) { c.MaxStdout = 2000 }},
	} {
		t.Run(tc.check+"/"+tc.lie, func(t *testing.T) {
			t.Parallel() // most of the time is waiting for what never comes
			f := Open(t, tc.opts)
			limit := 5 * time.Second
			if tc.check == "cancel" {
				limit = time.Minute
			}
			failures := failuresOf(t, tc.check, &liar{Fake: f, caps: tc.caps, exec: tc.exec}, f.Root(), limit)
			if len(failures) == 0 {
				t.Errorf("not noticed")
			}
			t.Logf("%.300q", failures)
		})
	}
}

// untilDone reads until ctx ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// joined makes one shell string of a command, as drivers of text transports do.
func joined(cmd provider.Command, quote func(string) string) provider.Command {
	words := make([]string, len(cmd.Args))
	for i, arg := range cmd.Args {
		words[i] = quote(arg)
	}
	cmd.Args = []string{"sh", "-c", strings.Join(words, " ")}
	return cmd
}

func TestNoLeaksNotices(t *testing.T) {
	r := &leakRecorder{TB: t}
	NoLeaks(r)
	// A process whose parent is gone, and a goroutine.
	res, err := local.New(local.Options{}).Exec(t.Context(), script(`(sleep 1000 >/dev/null 2>&1 & echo $!)`))
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	go func() { <-stop }()
	r.cleanup()
	close(stop)
	pid := strings.TrimSpace(string(res.Stdout))
	if _, err := local.New(local.Options{}).Exec(t.Context(), script(`kill "$1"`, pid)); err != nil {
		t.Error(err)
	}
	text := strings.Join(r.failures, "\n")
	if !strings.Contains(text, "TestNoLeaksNotices") {
		t.Errorf("the goroutine was not noticed: %s", text)
	}
	if runtime.GOOS == "linux" && !strings.Contains(text, pid+" sleep 1000") {
		t.Errorf("process %s was not noticed: %s", pid, text)
	}
}

// leakRecorder takes the failures of NoLeaks.
type leakRecorder struct {
	testing.TB
	recorder
	cleanup func()
}

func (r *leakRecorder) Helper()                           {}
func (r *leakRecorder) Cleanup(f func())                  { r.cleanup = f }
func (r *leakRecorder) Error(args ...any)                 { r.recorder.Errorf("%s", fmt.Sprint(args...)) }
func (r *leakRecorder) Errorf(format string, args ...any) { r.recorder.Errorf(format, args...) }
func (r *leakRecorder) Logf(format string, args ...any)   {}
func (r *leakRecorder) Fatalf(format string, args ...any) { r.recorder.Fatalf(format, args...) }

func BenchmarkFake(b *testing.B) {
	Benchmark(b, func(b *testing.B) (provider.Sandbox, string) {
		f := Open(b, Options{Stream: true, Files: true})
		return f, f.Root()
	})
}
