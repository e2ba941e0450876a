//go:build e2e && linux

// Package scale carries what is large, and what is many.
package scale

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, nil)) }

// everyWay runs a test for each, one after the other: they are heavy.
func everyWay(t *testing.T, test func(t *testing.T, w harness.Way, place *harness.Place)) {
	for _, w := range harness.Ways() {
		t.Run(w.Verb+" "+w.Route, func(t *testing.T) {
			place, err := harness.NewPlace(t.TempDir())
			harness.Must(t, err)
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
	everyWay(t, func(t *testing.T, w harness.Way, place *harness.Place) {
		source, target := place.Path("source"), place.Path("target")
		harness.Must(t, os.WriteFile(source, []byte("at the start\n"), 0o644))
		harness.Must(t, os.Truncate(source, size-4))
		f, err := os.OpenFile(source, os.O_APPEND|os.O_WRONLY, 0)
		harness.Must(t, err)
		_, err = f.WriteString("end\n")
		harness.Must(t, err)
		harness.Must(t, f.Close())

		cmd := place.Command(w.Args(source, target)...)
		cmd.Env = append(cmd.Env, "GOMEMLIMIT=64MiB")
		peak := harness.Peak(t, cmd)
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
	everyWay(t, func(t *testing.T, w harness.Way, place *harness.Place) {
		source, target := place.Path("source"), place.Path("target")
		harness.Must(t, harness.WriteMany(source, files))
		want, err := harness.Look(source)
		harness.Must(t, err)
		for _, flags := range [][]string{nil, {"--checksum"}} {
			if out, err := place.Command(w.Args(source, target, flags...)...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got, err := harness.Look(target)
			harness.Must(t, err)
			if d := got.Different(want); d != "" {
				t.Error(d)
			}
		}
		if rubbish, err := place.Rubbish(); err != nil || len(rubbish) > 0 {
			t.Errorf("left behind: %v, %v", rubbish, err)
		}
	})
}
