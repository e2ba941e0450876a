//go:build e2e && linux

// Package scale carries what is large, and what is many.
package scale

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
)

var program string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "e2e-scale-")
	if err == nil {
		program, err = harness.Build(dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// way is a way to carry something.
type way struct{ verb, route string }

func (w way) args(from, to string, flags ...string) []string {
	args := append([]string{w.verb, "--route", w.route}, flags...)
	if w.verb == "push" {
		return append(args, from, "local:"+to)
	}
	return append(args, "local:"+from, to)
}

// everyWay runs a test for each, one after the other: they are heavy.
func everyWay(t *testing.T, test func(t *testing.T, w way, place *harness.Place)) {
	for _, w := range []way{{"push", "stream"}, {"push", "base64"}, {"pull", "stream"}, {"pull", "base64"}} {
		t.Run(w.verb+" "+w.route, func(t *testing.T) {
			place, err := harness.NewPlace(program, t.TempDir())
			must(t, err)
			test(t, w, place)
			if left := place.Gone(5 * time.Second); len(left) > 0 {
				t.Errorf("processes are left: %s", left)
			}
		})
	}
}

// bytedance/deer-flow#4811, kubernetes-client/python#2048: a whole file was held
// in memory. 1 GiB, mostly a hole, with 64 MiB for Go's heap.
func TestFlatMemory(t *testing.T) {
	const size, most = 1 << 30, 100 << 20
	everyWay(t, func(t *testing.T, w way, place *harness.Place) {
		source, target := place.Path("source"), place.Path("target")
		must(t, os.WriteFile(source, []byte("at the start\n"), 0o644))
		must(t, os.Truncate(source, size-4))
		f, err := os.OpenFile(source, os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteString("end\n")
		must(t, err)
		must(t, f.Close())

		cmd := place.Command(w.args(source, target)...)
		cmd.Env = append(cmd.Env, "GOMEMLIMIT=64MiB")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		// This process's own, from before the exec, is counted too: it is small.
		peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		t.Logf("at most %d MiB", peak>>20)
		if peak > most {
			t.Errorf("%d MiB were in memory", peak>>20)
		}
		if out, err := exec.Command("cmp", source, target).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// kubernetes/kubernetes#138518, kubernetes/kubectl#1617: tens of thousands of
// small files hung.
func TestManySmallFiles(t *testing.T) {
	const files = 45_000
	everyWay(t, func(t *testing.T, w way, place *harness.Place) {
		source, target := place.Path("source"), place.Path("target")
		must(t, harness.WriteMany(source, files))
		want, err := harness.Look(source)
		must(t, err)
		for _, flags := range [][]string{nil, {"--checksum"}} {
			if out, err := place.Command(w.args(source, target, flags...)...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got, err := harness.Look(target)
			must(t, err)
			if d := got.Different(want); d != "" {
				t.Error(d)
			}
		}
		if rubbish, err := place.Rubbish(); err != nil || len(rubbish) > 0 {
			t.Errorf("left behind: %v, %v", rubbish, err)
		}
	})
}
