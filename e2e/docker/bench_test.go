//go:build e2e && linux

package docker

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
)

// Without the flag the comparison runs once, on little data, so that it is known
// to work; its figures mean nothing then.
var (
	peers = flag.Bool("peers", false, "compare with docker cp on much data")
	runs  = flag.Int("runs", 5, "of which the median counts, with -peers")
)

// scaled is what a number is without -peers.
func scaled(full, small int) int {
	if *peers {
		return full
	}
	return small
}

// load is something to carry.
type load struct {
	name string
	make func(dir string) error
}

func loads(t *testing.T) []load {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	size, files := scaled(256, 4), scaled(5000, 200)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	goSource := filepath.Join(strings.TrimSpace(string(root)), "src")
	if !*peers {
		goSource = filepath.Join(goSource, "encoding")
	}
	return []load{
		{fmt.Sprintf("file of %d MiB", size), func(dir string) error { return harness.WriteFile(rng, dir+"/one", size<<20) }},
		{fmt.Sprintf("%d small files", files), func(dir string) error { return harness.WriteMany(dir, files) }},
		{"Go source " + filepath.Base(goSource), func(dir string) error { return exec.Command("cp", "-a", goSource, dir).Run() }},
	}
}

// timed runs a command, which must succeed.
func timed(t *testing.T, cmd *exec.Cmd) time.Duration {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, out.String())
	}
	return time.Since(start)
}

// cp is docker cp.
func (b *box) cp(from, to string) *exec.Cmd {
	cmd := exec.Command("docker", "cp", from, to)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+engine.host(), "DOCKER_CONFIG="+engine.path("config"))
	return cmd
}

// TestAgainstPeers prints medians, and how many times as long as docker cp's
// sbsync's are. The two take turns.
func TestAgainstPeers(t *testing.T) {
	b := run(t, "gnu")
	b.docker("exec", b.name, "mkdir", "/srv") // docker cp makes no parents
	for _, l := range loads(t) {
		t.Run(l.name, func(t *testing.T) {
			dir := t.TempDir()
			source := dir + "/source"
			if err := l.make(source); err != nil {
				t.Fatal(err)
			}
			ours, theirs := map[string][]time.Duration{}, map[string][]time.Duration{}
			for n := range scaled(*runs, 1) {
				there, back := fmt.Sprintf("/srv/there-%d", n), fmt.Sprintf("%s/back-%d", dir, n)
				push := func() *exec.Cmd { return b.sbsync("push", "-q", source, "docker:"+b.name+":"+there) }
				theirs["1 push"] = append(theirs["1 push"], timed(t, b.cp(source, b.name+":"+there+"-cp")))
				ours["1 push"] = append(ours["1 push"], timed(t, push()))
				theirs["2 pull"] = append(theirs["2 pull"], timed(t, b.cp(b.name+":"+there+"-cp", back+"-cp")))
				ours["2 pull"] = append(ours["2 pull"], timed(t, b.sbsync("pull", "-q", "docker:"+b.name+":"+there, back)))
				ours["3 push of nothing new"] = append(ours["3 push of nothing new"], timed(t, push()))
				same(t, back, source)
				b.docker("exec", b.name, "rm", "-rf", there, there+"-cp")
				for _, d := range []string{back, back + "-cp"} {
					if err := os.RemoveAll(d); err != nil {
						t.Fatal(err)
					}
				}
			}
			show(t, ours, theirs)
		})
	}
}

func show(t *testing.T, ours, theirs map[string][]time.Duration) {
	median := func(all []time.Duration) time.Duration {
		slices.Sort(all)
		return all[len(all)/2]
	}
	for _, step := range []string{"1 push", "2 pull"} {
		a, b := median(ours[step]), median(theirs[step])
		t.Logf("%s: sbsync %v  docker cp %v  ratio %.2f", step, a.Round(time.Millisecond), b.Round(time.Millisecond), float64(a)/float64(b))
	}
	again, first := median(ours["3 push of nothing new"]), median(theirs["1 push"])
	t.Logf("3 push of nothing new: sbsync %v  docker cp, which sends all again, %v  ratio %.2f",
		again.Round(time.Millisecond), first.Round(time.Millisecond), float64(again)/float64(first))
}

// Memory does not grow with what is carried.
func TestFlatMemory(t *testing.T) {
	b := run(t, "gnu")
	peak := func(sizeMiB int) (push, pull int64) {
		file, there := b.Path("source"), "docker:"+b.name+":/srv/there"
		// Not by this process: a child's Maxrss counts its parent's from before
		// the exec.
		if out, err := exec.Command("sh", "-c", fmt.Sprintf("head -c %dM /dev/urandom >%s", sizeMiB, file)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		measure := func(args ...string) int64 {
			cmd := b.sbsync(args...)
			timed(t, cmd)
			return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		}
		return measure("push", "-q", file, there), measure("pull", "-q", there, b.Path("back"))
	}
	large := scaled(1024, 100)
	push, pull := peak(10)
	pushLarge, pullLarge := peak(large)
	t.Logf("10 MiB: push %d MiB, pull %d MiB; %d MiB: push %d MiB, pull %d MiB", push>>20, pull>>20, large, pushLarge>>20, pullLarge>>20)
	// The collector lets a heap double before it begins.
	const slack = 24 << 20
	if pushLarge > push+slack || pullLarge > pull+slack {
		t.Error("memory grows with the size")
	}
}
