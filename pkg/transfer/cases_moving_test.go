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
