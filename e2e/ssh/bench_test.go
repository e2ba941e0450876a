//go:build e2e && linux

package ssh

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
	peers = flag.Bool("peers", false, "compare with rsync and scp on much data")
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
	make func(t *testing.T, dir string)
}

func loads(t *testing.T) []load {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	check := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	size, files := scaled(256, 4), scaled(5000, 200)
	all := []load{
		{fmt.Sprintf("file of %d MiB", size), func(t *testing.T, dir string) {
			check(t, harness.WriteFile(rng, dir+"/one", size<<20))
		}},
		{fmt.Sprintf("%d small files", files), func(t *testing.T, dir string) {
			check(t, harness.WriteMany(dir, files))
		}},
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	check(t, err)
	goSource := filepath.Join(strings.TrimSpace(string(root)), "src")
	if !*peers {
		goSource = filepath.Join(goSource, "encoding")
	}
	return append(all, load{"Go source " + filepath.Base(goSource), func(t *testing.T, dir string) {
		check(t, exec.Command("cp", "-a", goSource, dir).Run())
	}})
}

// tool pushes and pulls in its own way.
type tool struct {
	name       string
	push, pull func(s *server, from, to string) *exec.Cmd
	again      bool // it can tell what has not changed
}

func tools() []tool {
	rsync := func(s *server, from, to string) *exec.Cmd {
		return exec.Command("rsync", "-a", "-e", "ssh -F "+s.Path("config"), from+"/", to+"/")
	}
	scp := func(s *server, from, to string) *exec.Cmd {
		return exec.Command("scp", "-q", "-r", "-F", s.Path("config"), from, to)
	}
	return []tool{
		{"sbsync", func(s *server, from, to string) *exec.Cmd { return s.sbsync("push", "-q", from, "ssh:box:"+to) },
			func(s *server, from, to string) *exec.Cmd { return s.sbsync("pull", "-q", "ssh:box:"+from, to) }, true},
		{"rsync -a", func(s *server, from, to string) *exec.Cmd { return rsync(s, from, "box:"+to) },
			func(s *server, from, to string) *exec.Cmd { return rsync(s, "box:"+from, to) }, true},
		{"scp -r", func(s *server, from, to string) *exec.Cmd { return scp(s, from, "box:"+to) },
			func(s *server, from, to string) *exec.Cmd { return scp(s, "box:"+from, to) }, false},
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

// TestAgainstPeers prints medians, and how many times as long as the fastest
// peer's sbsync's are. The tools take turns.
func TestAgainstPeers(t *testing.T) {
	s := serve(t)
	for _, l := range loads(t) {
		t.Run(l.name, func(t *testing.T) {
			dir := t.TempDir()
			source := dir + "/source"
			l.make(t, source)
			times := map[string]map[string][]time.Duration{} // by step and tool
			note := func(step, tool string, d time.Duration) {
				if times[step] == nil {
					times[step] = map[string][]time.Duration{}
				}
				times[step][tool] = append(times[step][tool], d)
			}
			for run := range scaled(*runs, 1) {
				for i, tl := range tools() {
					there, back := fmt.Sprintf("%s/there %d.%d", dir, run, i), fmt.Sprintf("%s/back %d.%d", dir, run, i)
					there, back = strings.ReplaceAll(there, " ", "-"), strings.ReplaceAll(back, " ", "-")
					note("1 push", tl.name, timed(t, tl.push(s, source, there)))
					note("2 pull", tl.name, timed(t, tl.pull(s, there, back)))
					same(t, back, source)
					if tl.again {
						note("3 push of nothing new", tl.name, timed(t, tl.push(s, source, there)))
						touchOne(t, source, run)
						note("4 push of one changed file", tl.name, timed(t, tl.push(s, source, there)))
						same(t, there, source)
					}
					for _, d := range []string{there, back} {
						if err := os.RemoveAll(d); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			show(t, times)
		})
	}
}

// touchOne appends to the first file of the tree.
func touchOne(t *testing.T, dir string, run int) {
	t.Helper()
	first := ""
	filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			first = name
			return filepath.SkipAll
		}
		return err
	})
	f, err := os.OpenFile(first, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "changed %d\n", run); err != nil {
		t.Fatal(err)
	}
}

func show(t *testing.T, times map[string]map[string][]time.Duration) {
	var steps []string
	for step := range times {
		steps = append(steps, step)
	}
	slices.Sort(steps)
	for _, step := range steps {
		var line strings.Builder
		ours, best := time.Duration(0), time.Duration(0)
		for _, tl := range tools() {
			all := times[step][tl.name]
			if len(all) == 0 {
				continue
			}
			slices.Sort(all)
			median := all[len(all)/2]
			fmt.Fprintf(&line, "  %s %v", tl.name, median.Round(time.Millisecond))
			if tl.name == "sbsync" {
				ours = median
			} else if best == 0 || median < best {
				best = median
			}
		}
		t.Logf("%s:%s  ratio %.2f", step, line.String(), float64(ours)/float64(best))
	}
}

// Memory does not grow with what is carried.
func TestFlatMemory(t *testing.T) {
	s := serve(t)
	peak := func(sizeMiB int) (push, pull int64) {
		file := s.Path("source")
		// Not by this process: a child's Maxrss counts its parent's from before
		// the exec.
		s.run("sh", "-c", fmt.Sprintf("head -c %dM /dev/urandom >%s", sizeMiB, file))
		measure := func(args ...string) int64 {
			cmd := s.sbsync(args...)
			timed(t, cmd)
			return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		}
		return measure("push", "-q", file, "ssh:box:"+s.Path("there")), measure("pull", "-q", "ssh:box:"+s.Path("there"), s.Path("back"))
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
