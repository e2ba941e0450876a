//go:build unix

package transfer_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// docker/desktop-linux#146, moby/moby#42884. A file that was small when it was
// listed is large when it is read: it does not go into an archive in memory.
// Growing while it is read is TestFileChangesWhileItIsRead.
func TestCase_B46(t *testing.T) {
	const size = 150 << 20
	for _, tools := range []string{"tar", "no tar"} {
		runtime.GC()
		w := newWay(t, kindOfSandbox{name: "base64"}, transfer.Push, providertest.Options{})
		if tools == "no tar" {
			w.f = openFake(t, providertest.Options{Without: []string{"tar"}})
			w.target = filepath.Join(w.f.Root(), "dst")
		}
		writeTree(t, w.source, map[string]string{"a": "a\n", "moving": "small\n", "z": "z\n"})
		var once sync.Once
		var largest atomic.Int64
		w.opt.Observer = &watcher{t: t, phase: func(phase string) {
			if phase == "send" {
				once.Do(func() { must(t, os.Truncate(w.source+"/moving", size)) })
			}
		}, progress: func(int, int64) {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			largest.Store(max(largest.Load(), int64(m.HeapInuse)))
		}}
		w.mustRun()
		if n := largest.Load(); n > size*2/3 {
			t.Errorf("%s: %d MiB of memory for a file of %d MiB", tools, n>>20, size>>20)
		}
		compare{}.same(t, w.source, w.target)
		w.clean()
	}
}

// devspace-sh/devspace#820. A file is written every 10 ms while pushes go on one
// after the other: none is fatal, and once it rests the target has it.
func TestCase_B49(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{"busy": "", "other": "o\n"})
		busy := filepath.Join(w.source, "busy")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				os.WriteFile(busy, []byte(strings.Repeat(fmt.Sprintf("version %d\n", i), i%3000)), 0o644)
				time.Sleep(10 * time.Millisecond)
			}
		})
		for i := range 8 {
			if _, err := w.run(); err != nil {
				wantKind(t, err, provider.Partial, provider.Integrity)
				if i == 0 && provider.KindOf(err) == provider.Integrity {
					continue // another attempt is left to the user here
				}
			}
			if got := readFile(t, filepath.Join(w.target, "other")); got != "o" {
				t.Errorf("the other file holds %q", got)
			}
		}
		stop()
		writer.Wait()
		w.mustRun()
		w.k.compare().same(t, w.source, w.target)
		w.clean()
	})
}

// kubernetes/kubernetes#78892. A program that runs is replaced: it goes on with
// the old file. Readers see one version or the other and nothing else.
func TestCase_B50(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		sleep, err := exec.LookPath("sleep")
		must(t, err)
		program, err := os.ReadFile(sleep)
		must(t, err)
		writeTree(t, w.source, map[string]string{"prog": string(program) + "v2", "data": strings.Repeat("2", 1<<20)})
		writeTree(t, w.target, map[string]string{"prog": string(program), "data": strings.Repeat("1", 1<<20)})
		must(t, os.Chmod(w.source+"/prog", 0o755))
		must(t, os.Chmod(w.target+"/prog", 0o755))
		running := exec.Command(filepath.Join(w.target, "prog"), "600")
		must(t, startProgram(running))
		defer running.Wait()
		defer running.Process.Kill()

		ctx, stop := context.WithCancel(t.Context())
		var reader sync.WaitGroup
		reader.Go(func() {
			for ctx.Err() == nil {
				b, err := os.ReadFile(w.target + "/data")
				if err != nil || len(b) != 1<<20 || strings.Trim(string(b), string(b[:1])) != "" {
					t.Errorf("a reader sees %d bytes, %v", len(b), err)
					return
				}
			}
		})
		for i := range 4 {
			writeTree(t, w.source, map[string]string{"data": strings.Repeat(fmt.Sprint(i), 1<<20)})
			w.mustRun()
		}
		stop()
		reader.Wait()
		if got, _ := os.ReadFile(w.target + "/prog"); string(got) != string(program)+"v2" {
			t.Error("the program was not replaced")
		}
		old, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", running.Process.Pid))
		if err == nil && !strings.HasSuffix(old, " (deleted)") {
			t.Errorf("the running program is %q now", old)
		}
	})
}

// startProgram starts a program that was written a moment ago. Another process
// may have been forked meanwhile with the file still open for writing.
func startProgram(c *exec.Cmd) error {
	for attempt := 0; ; attempt++ {
		err := c.Start()
		if err == nil || attempt == 50 || !strings.Contains(err.Error(), "text file busy") {
			return err
		}
		*c = *exec.Command(c.Path, c.Args[1:]...)
		time.Sleep(20 * time.Millisecond)
	}
}

// MinaProtocol/mina#7113, itzg/docker-mc-backup#49. A tar that ends with 1, since a
// file changed while it was read, has sent all of it: what arrived is kept, and
// it is told. A tar that ends with 2 has failed.
func TestCase_B48(t *testing.T) {
	for _, k := range []kindOfSandbox{kindsOfSandboxes[0], kindsOfSandboxes[2]} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			// BusyBox's xargs runs its own tar without looking at PATH.
			tool, only := "tar", `case "$*" in *--version*) exec "$REAL" "$@" ;; esac`+"\n"
			if k.busybox {
				tool, only = "xargs", `case "$*" in *tar*) ;; *) exec "$REAL" "$@" ;; esac`+"\n"
			}
			for _, test := range []struct {
				name, script string
				kind         provider.Kind
			}{
				{"changed", `"$REAL" "$@"; echo "tar: ./dir/b: file changed as we read it" >&2; exit 1`, provider.Partial},
				{"changed, exit 2", `"$REAL" "$@"; echo "tar: ./dir/b: file changed as we read it" >&2; echo "tar: write error" >&2; exit 2`, provider.Partial},
				{"no reason", `"$REAL" "$@"; exit 1`, provider.Integrity},
				{"failed", `"$REAL" "$@"; echo "tar: something else" >&2; exit 2`, provider.Integrity},
				{"failed and cut", `"$REAL" "$@" | head -c 2000; echo "tar: ./dir/b: file changed as we read it" >&2; exit 1`, provider.Integrity},
			} {
				sb := k.machine(t, map[string]string{tool: only + test.script})
				o := newOldAndNewIn(t, t.TempDir(), t.TempDir(), transfer.Pull, threeFiles())
				rep, err := run(t, sb, transfer.Pull, o.source, o.target, k.options())
				if provider.KindOf(err) != test.kind {
					t.Errorf("%s: %v of kind %s, want %s", test.name, err, provider.KindOf(err), test.kind)
				}
				if test.kind != provider.Partial {
					o.unchanged()
					continue
				}
				if len(rep.Problems) != 1 || rep.Problems[0].Path != "dir/b" {
					t.Errorf("%s: problems %v", test.name, rep.Problems)
				}
				if got := readFile(t, filepath.Join(o.target, "dir/b")); got != strings.TrimSpace(noise(300<<10)) {
					t.Errorf("%s: the file was not kept", test.name)
				}
				noScratch(t, o.dirs...)
			}
		})
	}
}
