//go:build unix

package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
	"github.com/sbsync/sbsync/pkg/tree"
)

// meddler is a sandbox with a hook around its calls. Calls count from 1.
type meddler struct {
	*providertest.Fake
	// around runs a call with run, or does not.
	around func(n int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error)

	mu    sync.Mutex
	calls int
}

func (m *meddler) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	return m.call(cmd, func(c provider.Command) (provider.Result, error) { return m.Fake.Exec(ctx, c) })
}

func (m *meddler) Stream(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	return m.call(cmd, func(c provider.Command) (provider.Result, error) { return m.Fake.Stream(ctx, c) })
}

func (m *meddler) call(cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
	m.mu.Lock()
	m.calls++
	n := m.calls
	m.mu.Unlock()
	return m.around(n, cmd, run)
}

func lost() error { return provider.New(provider.Unreachable, "connection lost", "") }

// runMeddled is way.run with a meddler in between.
func (w way) runMeddled(around func(n int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error)) (*transfer.Report, int, error) {
	w.t.Helper()
	m := &meddler{Fake: w.f, around: around}
	rep, err := run(w.t, m, w.dir, w.source, w.target, w.opt)
	return rep, m.calls, err
}

// Each call in turn fails once: before it does anything, or after it has done
// everything and the answer gets lost. The result is the same, and so is what
// is said of it.
func TestEveryCallMayFailOnce(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
			everywhereNamed(t, fmt.Sprintf("%s, late %v", dir, late), func(t *testing.T, k kindOfSandbox) {
				if k.busybox && !late {
					return // nothing ran, so no tool matters
				}
				w := newWay(t, k, dir, providertest.Options{})
				files := threeFiles()
				files["odd\nname"] = "o\n"
				writeTree(t, w.source, files)
				must(t, os.Link(filepath.Join(w.source, "a"), filepath.Join(w.source, "dir/hard")))
				w.opt.Policy, w.opt.Retries, w.opt.Checksum, w.opt.ChunkBytes = transfer.Mirror, 2, true, 100<<10
				setUp := func() {
					must(t, os.RemoveAll(w.target))
					writeTree(t, w.target, map[string]string{"a": "old a\n", "dir/c": "c\n", "extra/e": "e\n"})
					must(t, os.Chmod(filepath.Join(w.target, "dir/c"), 0o600))
				}
				setUp()
				want := w.mustRun()
				calls := want.Calls
				for n := 1; n <= calls; n++ {
					setUp()
					var warned []string
					w.opt.Observer = &watcher{t: t, warn: func(p tree.Problem) { warned = append(warned, p.Path) }}
					rep, _, err := w.runMeddled(func(i int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
						if i == n && !late {
							return provider.Result{}, lost()
						}
						if i != n {
							return run(cmd)
						}
						cmd.Stdout = &untilEnd{w: cmd.Stdout}
						_, err := run(cmd)
						return provider.Result{}, errors.Join(lost(), err)
					})
					if err != nil {
						t.Fatalf("call %d: %v", n, err)
					}
					k.compare().same(t, w.source, w.target)
					got := fmt.Sprint(rep.Files, rep.Links, rep.Dirs, rep.Bytes, rep.Changed, rep.Deleted, rep.Unchanged)
					if exp := fmt.Sprint(want.Files, want.Links, want.Dirs, want.Bytes, want.Changed, want.Deleted, want.Unchanged); got != exp {
						t.Errorf("call %d: the report says %s, without the failure it says %s", n, got, exp)
					}
					if len(warned)+len(rep.Problems)+len(rep.Warnings) != 0 || rep.Operations[0].FilesTransferred != want.Files || rep.Route != want.Route {
						t.Errorf("call %d: %+v", n, rep)
					}
					w.clean()
					if t.Failed() {
						t.FailNow()
					}
				}
			})
		}
	}
}

// untilEnd loses the connection right before it is told how a script ended.
type untilEnd struct {
	w    io.Writer
	held []byte
}

func (u *untilEnd) Write(p []byte) (int, error) {
	u.held = append(u.held, p...)
	if bytes.Contains(u.held, []byte("\nsbsync-end ")) {
		return 0, lost()
	}
	keep := min(len(u.held), 20)
	_, err := u.w.Write(u.held[:len(u.held)-keep])
	u.held = bytes.Clone(u.held[len(u.held)-keep:])
	return len(p), err
}

// A problem is told once, however often the mapping is tried.
func TestProblemsAreToldOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Push, providertest.Options{})
		writeTree(t, w.source, map[string]string{"a": "a\n", "l": "-> a"})
		w.opt.Symlinks, w.opt.Retries = transfer.Skip, 3
		told := 0
		w.opt.Observer = &watcher{t: t, warn: func(tree.Problem) { told++ }}
		rep, _, err := w.runMeddled(func(i int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
			res, err := run(cmd)
			if i <= 2 {
				return res, lost()
			}
			return res, err
		})
		if err != nil || told != 1 || len(rep.Problems) != 1 || rep.Skipped != 1 || rep.Files != 1 {
			t.Errorf("told %d times, %+v, %v", told, rep, err)
		}
	})
}

// Retries do not multiply: a sandbox that is gone is asked as often as was said,
// not that often for each layer.
func TestRetriesDoNotMultiply(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, threeFiles())
		w.opt.Retries = 1
		want := w.mustRun().Calls
		must(t, os.RemoveAll(w.target))
		for from := 1; from <= want; from++ {
			_, calls, err := w.runMeddled(func(i int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
				if i >= from {
					return provider.Result{}, lost()
				}
				return run(cmd)
			})
			wantKind(t, err, provider.Unreachable)
			// The failed call twice, by each of four workers at most, and twice
			// the clean-up.
			if more := calls - from; more > 12 {
				t.Errorf("gone from call %d on: %d more calls", from, more)
			}
		}
	})
}

// Chunks that run twice do no harm.
func TestEveryCommandRunsTwice(t *testing.T) {
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		for _, k := range kindsOfSandboxes {
			if k.stream {
				continue
			}
			t.Run(fmt.Sprint(dir, k.name), func(t *testing.T) {
				t.Parallel()
				w := newWay(t, k, dir, providertest.Options{})
				writeTree(t, w.source, threeFiles())
				w.opt.ChunkBytes = 100 << 10
				_, _, err := w.runMeddled(func(_ int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
					if !strings.HasPrefix(cmd.Label, "chunk") && !strings.HasPrefix(cmd.Label, "piece") && !strings.HasPrefix(cmd.Label, "fetch") && cmd.Label != "upload" {
						return run(cmd)
					}
					first := cmd
					first.Stdout = io.Discard
					if cmd.Stdin != nil {
						text, err := io.ReadAll(cmd.Stdin)
						if err != nil {
							return provider.Result{}, err
						}
						first.Stdin, cmd.Stdin = bytes.NewReader(text), bytes.NewReader(text)
					}
					if _, err := run(first); err != nil {
						return provider.Result{}, err
					}
					return run(cmd)
				})
				must(t, err)
				compare{wholeSeconds: k.busybox}.same(t, w.source, w.target)
				w.clean()
			})
		}
	}
}

// A bit that flips on the way is found by digest, on the base64 route always and
// on the stream route with --verify.
func TestCorruptionOnTheWay(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{"big": noise(900 << 10), "small": "small\n"})
		writeTree(t, w.target, map[string]string{"small": "old\n"})
		before := describeTree(t, w.target)
		w.opt.ChunkBytes, w.opt.Verify, w.opt.Retries = 256<<10, true, 1
		flip := func(times int) func(int, provider.Command, func(provider.Command) (provider.Result, error)) (provider.Result, error) {
			var mu sync.Mutex
			take := func() bool {
				mu.Lock()
				defer mu.Unlock()
				times--
				return times >= 0
			}
			return func(_ int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
				if w.dir == transfer.Push && cmd.Stdin != nil {
					cmd.Stdin = &flipper{r: cmd.Stdin, at: 120_000, take: take}
				} else if w.dir == transfer.Pull && cmd.Stdout != nil {
					cmd.Stdout = &flipper{w: cmd.Stdout, at: 120_000, take: take}
				}
				return run(cmd)
			}
		}
		rep, _, err := w.runMeddled(flip(1 << 30))
		wantKind(t, err, provider.Integrity)
		if rep.Files != 0 {
			t.Errorf("%d files are reported", rep.Files)
		}
		if after := describeTree(t, w.target); len(after) != len(before) || after["small"] != before["small"] {
			t.Errorf("the old tree was changed: %v", after)
		}
		w.clean()
		_, _, err = w.runMeddled(flip(1))
		must(t, err)
		w.k.compare().same(t, w.source, w.target)
		w.clean()
	})
}

// flipper changes one byte that goes through it, into another that is as valid
// in base64 text.
type flipper struct {
	r    io.Reader
	w    io.Writer
	at   int64
	seen int64
	take func() bool
}

func (f *flipper) flip(p []byte) {
	if i := f.at - f.seen; i >= 0 && i < int64(len(p)) && f.take() {
		if p[i] == 'A' {
			p[i] = 'B'
		} else {
			p[i] = 'A'
		}
	}
	f.seen += int64(len(p))
}

func (f *flipper) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	f.flip(p[:n])
	return n, err
}

func (f *flipper) Write(p []byte) (int, error) {
	q := bytes.Clone(p)
	f.flip(q)
	return f.w.Write(q)
}

// Many calls at once are no more than the sandbox says it takes.
func TestConcurrency(t *testing.T) {
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		w := newWay(t, kindOfSandbox{name: "base64"}, dir, providertest.Options{MaxConcurrent: 2})
		writeTree(t, w.source, map[string]string{"big": noise(1 << 20), "b": noise(300 << 10), "c": noise(300 << 10)})
		w.opt.ChunkBytes = 64 << 10
		w.mustRun()
		if p := w.f.Peak(); p > 2 {
			t.Errorf("%s: %d calls at once", dir, p)
		}
	}
}

// Small files cost a constant number of calls, a large one as many as it has
// chunks (P01).
func TestCallsOfTheBase64Route(t *testing.T) {
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		t.Run(string(dir)+", small files", func(t *testing.T) {
			t.Parallel()
			w := newWay(t, kindOfSandbox{name: "base64"}, dir, providertest.Options{})
			for i := range 5000 {
				p := filepath.Join(w.source, fmt.Sprint("dir", i%50), fmt.Sprint("file", i))
				if i < 50 {
					must(t, os.MkdirAll(filepath.Dir(p), 0o755))
				}
				must(t, os.WriteFile(p, []byte(fmt.Sprintf("content of file %d\n", i)), 0o644))
			}
			rep := w.mustRun()
			if rep.Files != 5000 || w.f.Calls() > 12 || rep.Calls != w.f.Calls() {
				t.Errorf("%d files with %d calls, reported as %d", rep.Files, w.f.Calls(), rep.Calls)
			}
			w.clean()
		})
		t.Run(string(dir)+", a large file", func(t *testing.T) {
			t.Parallel()
			const chunk, size = 1 << 20, 5<<20 + 1
			w := newWay(t, kindOfSandbox{name: "base64"}, dir, providertest.Options{})
			must(t, os.WriteFile(w.source, []byte(noise(size)), 0o644))
			w.opt.ChunkBytes = chunk
			w.mustRun()
			if n := w.f.Calls(); n > 3+(size+chunk-1)/chunk {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// What a transfer that fails says is what had happened by then.
func TestReportOfAFailure(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, threeFiles())
		rep, calls, err := w.runMeddled(func(i int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
			if i > 1 {
				return provider.Result{}, lost()
			}
			return run(cmd)
		})
		wantKind(t, err, provider.Unreachable)
		if rep == nil || rep.Files+rep.Links+rep.Dirs != 0 || rep.Bytes != 0 || rep.Calls != calls || len(rep.Operations) != 1 || rep.Operations[0].FilesTransferred != 0 {
			t.Errorf("%+v", rep)
		}
		if errors.Is(err, context.Canceled) {
			t.Error("looks like an interrupt")
		}
		if exists(w.target) {
			t.Error("something was made")
		}
	})
}
