//go:build unix

package transfer_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// Reports on the seed system, paperclipai/paperclip.

// paperclipai/paperclip#8903. The directory on the host that is pulled into is
// somebody's: its mode stays, and if a tool of the sandbox fails, what it said
// is shown.
func TestCase_P04(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Pull, providertest.Options{OtherUser: true})
		writeTree(t, w.source, map[string]string{"f": "f\n", "d/g": "g\n"})
		own(t, w.f, w.source)
		must(t, os.Chmod(w.source, 0o700))
		writeTree(t, w.target, map[string]string{"mine": "mine\n"})
		for _, mode := range []os.FileMode{0o777, 0o700} {
			must(t, os.Chmod(w.target, mode))
			must(t, os.Chmod(filepath.Join(w.target, "mine"), 0o600))
			before, err := os.Stat(w.target)
			must(t, err)
			w.mustRun()
			after, err := os.Stat(w.target)
			must(t, err)
			if !os.SameFile(before, after) || before.Mode() != after.Mode() {
				t.Errorf("from %v to %v", before.Mode(), after.Mode())
			}
		}
		wantNames(t, w.target, "d/ d/g f mine")
		w.clean()

		if !k.stream {
			return // whose errors are TestMissingTools'
		}
		// BusyBox's xargs runs its own tar without looking at PATH.
		tool, only := "tar", `case "$*" in *--version*) exec "$REAL" "$@" ;; esac`+"\n"
		if k.busybox {
			tool, only = "xargs", `case "$*" in *tar*) ;; *) exec "$REAL" "$@" ;; esac`+"\n"
		}
		sb := k.machine(t, map[string]string{tool: only + "cat >/dev/null; echo 'this is why' >&2\nexit 2\n"})
		_, err := run(t, sb, transfer.Pull, w.source, filepath.Join(w.host, "new"), w.opt)
		if err == nil || !strings.Contains(err.Error(), "this is why") {
			t.Errorf("it does not show what %s said: %v", tool, err)
		}
	})
}

// paperclipai/paperclip#8581. A link that is followed leads to something huge:
// the limit holds before anything is sent, and it is named.
func TestCase_P05(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		// What is left out under its own name comes under that of the link.
		writeTree(t, w.source, map[string]string{"a": "a\n", "bin/tool": "-> ../store/huge", "store/huge": "", ".sbsyncignore": "/store\n"})
		must(t, os.Truncate(filepath.Join(w.source, "store/huge"), 100<<20))
		w.opt.Symlinks = transfer.Follow
		for _, limits := range []transfer.Limits{{File: 1 << 20}, {Total: 1 << 20}} {
			w.opt.Limits = limits
			moved := int64(0)
			w.opt.Observer = &watcher{t: t, progress: func(_ int, n int64) { moved = n }}
			_, err := w.run()
			wantKind(t, err, provider.TooLarge)
			if err != nil && limits.File > 0 && !strings.Contains(err.Error(), "tool") {
				t.Errorf("it is not named: %v", err)
			}
			if moved != 0 || exists(w.target) {
				t.Errorf("%d bytes were moved", moved)
			}
		}
		w.clean()
	})
}

// paperclipai/paperclip#9972. A credential is never readable by others, not for
// an instant: not while it is staged either, with a usual umask.
func TestCase_P06(t *testing.T) {
	for _, single := range []bool{true, false} {
		everywhereNamed(t, fmt.Sprint("single ", single), func(t *testing.T, k kindOfSandbox) {
			w := newWay(t, k, transfer.Push, providertest.Options{})
			writeTree(t, w.source, map[string]string{"dir/token": noise(600 << 10), "other": "o\n"})
			must(t, os.Chmod(filepath.Join(w.source, "dir/token"), 0o600))
			if single {
				w.source, w.target = filepath.Join(w.source, "dir/token"), filepath.Join(w.f.Root(), "token")
			}
			w.opt.ChunkBytes = 64 << 10
			ctx, stop := context.WithCancel(t.Context())
			var watch sync.WaitGroup
			var looks, open atomic.Int64
			look := func() {
				looks.Add(1)
				open.Add(int64(len(readableByOthers(w.f.Root(), "other"))))
			}
			watch.Go(func() {
				for ctx.Err() == nil {
					look()
				}
			})
			_, _, err := w.runMeddled(func(n int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
				look()
				defer look()
				return run(cmd)
			})
			stop()
			watch.Wait()
			must(t, err)
			if open.Load() > 0 {
				t.Errorf("%d of %d looks found it readable", open.Load(), looks.Load())
			}
			w.clean()
		})
	}
}

// readableByOthers returns the files below root with content that others than
// the owner could open: by their own mode and that of all directories above.
func readableByOthers(root, but string) (found []string) {
	filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return nil
		}
		info, err := os.Lstat(p)
		switch {
		case err != nil:
		case d.IsDir() && info.Mode()&0o011 == 0:
			return fs.SkipDir
		case info.Mode().IsRegular() && info.Size() > 1000 && info.Mode()&0o044 != 0 && d.Name() != but:
			found = append(found, p)
		}
		return nil
	})
	return found
}

// paperclipai/paperclip#10354. The time that the run has is the time that its
// commands have; one that says its own keeps it.
func TestCase_P11(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Push, providertest.Options{})
		writeTree(t, w.source, map[string]string{"f": "f\n"})
		try := func(limit time.Duration, c transfer.PostCommand) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			opt := w.opt
			opt.Observer = logger{t}
			start := time.Now()
			_, err := transfer.Run(ctx, transfer.Push, transfer.Target{Sandbox: w.f, Name: "fake"},
				[]transfer.Operation{{ID: "op", Files: []transfer.Mapping{{Source: w.source, Target: w.target}}, Commands: []transfer.PostCommand{c}}}, opt)
			return time.Since(start), err
		}
		d, err := try(5*time.Second, transfer.PostCommand{Command: "exec sleep 600"})
		if err == nil || d > 60*time.Second {
			t.Errorf("after %v: %v", d, err)
		}
		if !exists(filepath.Join(w.target, "f")) {
			t.Error("the time was up before the command began")
		}
		d, err = try(10*time.Minute, transfer.PostCommand{Command: "exec sleep 600", Timeout: 100 * time.Millisecond})
		if wantKind(t, err, provider.Timeout); d > 60*time.Second || err != nil && !strings.Contains(err.Error(), "100ms") {
			t.Errorf("after %v: %v", d, err)
		}
	})
}

// paperclipai/paperclip#11736. Work at once is bounded, all of it has settled when
// the run returns, and of several errors the first mapping's is told.
func TestCase_P16(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		from, to := filepath.Dir(w.source), filepath.Dir(w.target)
		var files []transfer.Mapping
		for _, name := range []string{"a", "b", "c", "d"} {
			writeTree(t, filepath.Join(from, name), map[string]string{"large": noise(700 << 10), "f": "f\n"})
			files = append(files, transfer.Mapping{Source: filepath.Join(from, name), Target: filepath.Join(to, "to", name)})
		}
		// b and d can't be put where something else is.
		writeTree(t, filepath.Join(to, "to"), map[string]string{"b/f/in the way": "", "d": "a file\n"})
		var busy, most atomic.Int64
		m := &meddler{Fake: w.f, around: func(_ int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
			if n := busy.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer busy.Add(-1)
			return run(cmd)
		}}
		w.opt.ChunkBytes = 64 << 10
		rep, err := runOps(t, m, w.dir, w.opt, transfer.Operation{ID: "one", Files: files})
		wantKind(t, err, provider.Refused)
		if err != nil && (!strings.Contains(err.Error(), filepath.Join("to", "b")) || strings.Contains(err.Error(), filepath.Join("to", "d"))) {
			t.Errorf("not the first error: %v", err)
		}
		if busy.Load() != 0 || most.Load() > 16 {
			t.Errorf("%d calls are under way, %d were", busy.Load(), most.Load())
		}
		if rep == nil || !exists(filepath.Join(to, "to/a/large")) {
			t.Error("what came before the error did not land")
		}
		w.clean()
	})
}

// paperclipai/paperclip#10263. The directory that commands start in is none of
// ours: another one than was asked for, full of files of the same names, or gone.
func TestCase_P19(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		decoy := filepath.Join(t.TempDir(), "decoy")
		writeTree(t, decoy, map[string]string{"a": "decoy\n", "dir/b": "decoy\n", "src/a": "decoy\n", "dst/a": "decoy\n"})
		must(t, filepath.WalkDir(filepath.Dir(decoy), func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(p, 0o777)
			}
			return err
		}))
		before := describeTree(t, decoy)
		for name, prefix := range map[string]string{
			"elsewhere": `cd "$0" && exec "$@"`,
			"gone":      `mkdir "$0/gone" && cd "$0/gone" && rmdir "$0/gone" && exec "$@"`,
		} {
			w := w
			w.source, w.target = w.source+name, w.target+name
			writeTree(t, w.source, threeFiles())
			writeTree(t, w.target, map[string]string{"a": "old a\n", "stale": "s\n"})
			w.opt.Policy = transfer.Mirror
			m := &meddler{Fake: w.f, around: func(_ int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
				cmd.Dir = ""
				cmd.Args = append([]string{"sh", "-c", prefix, decoy}, cmd.Args...)
				return run(cmd)
			}}
			op := transfer.Operation{ID: "op", Files: []transfer.Mapping{{Source: w.source, Target: w.target}}}
			if w.dir == transfer.Push {
				op.Commands = []transfer.PostCommand{{Command: "pwd -P >where"}}
			}
			_, err := runOps(t, m, w.dir, w.opt, op)
			must(t, err)
			if w.dir == transfer.Push {
				where, err := filepath.EvalSymlinks(w.target)
				must(t, err)
				if got := readFile(t, filepath.Join(w.target, "where")); got != where {
					t.Errorf("%s: the command ran in %q", name, got)
				}
				must(t, os.Remove(filepath.Join(w.target, "where")))
			}
			w.k.compare().same(t, w.source, w.target)
			w.clean()
		}
		now := describeTree(t, decoy)
		for p, d := range before {
			if p != "" && now[p] != d || len(now) != len(before) {
				t.Errorf("%q was changed where the commands started", p)
			}
		}
	})
}

// paperclipai/paperclip#13434. What a way can't do is refused before anything is
// sent, or done by another way, with the same result.
func TestCase_P22(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{"d/f": "f\n", "file": "-> d/f", "dir": "-> d", "deep/up": "-> ../d"})
		want := filepath.Join(w.host, "want")
		writeTree(t, want, map[string]string{"d/f": "f\n", "file": "f\n", "dir/f": "f\n", "deep/up/f": "f\n"})
		w.opt.Symlinks, w.opt.Route = transfer.Follow, transfer.Sync
		_, err := w.run()
		if err == nil || provider.HintOf(err) == "" || exists(w.target) {
			t.Errorf("the provider has no way of its own: %v", err)
		}
		w.opt.Route = transfer.Auto
		w.mustRun()
		compare{noTimes: true}.same(t, want, w.target)
		w.clean()
	})
}

// Read in paperclipai/paperclip: mv -f onto a directory moves the file into it. A
// directory that comes to be at the target in the meantime is an error, and
// nothing gets into it.
func TestCase_P25(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		for name, before := range map[string]string{"new": "", "over a file": "old\n"} {
			w := w
			w.source, w.target = w.source+name, w.target+name
			writeTree(t, filepath.Dir(w.source), map[string]string{filepath.Base(w.source): noise(100 << 10)})
			if before != "" {
				writeTree(t, filepath.Dir(w.target), map[string]string{filepath.Base(w.target): before})
			}
			var once sync.Once
			w.opt.Observer = &watcher{t: t, phase: func(phase string) {
				if phase == "send" {
					once.Do(func() {
						os.Remove(w.target)
						must(t, os.Mkdir(w.target, 0o755))
					})
				}
			}}
			if _, err := w.run(); err == nil {
				t.Errorf("%s: no error", name)
			}
			wantNames(t, w.target, "")
			w.clean()
		}
	})
}
