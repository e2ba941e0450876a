//go:build e2e && linux

package ssh

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
)

var comparison = harness.NewComparison()

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

// TestAgainstPeers prints medians, and how many times as long as the fastest
// peer's sbsync's are. The tools take turns.
func TestAgainstPeers(t *testing.T) {
	s := serve(t)
	for _, l := range comparison.Loads(t) {
		t.Run(l.Name, func(t *testing.T) {
			dir := t.TempDir()
			source := dir + "/source"
			harness.Must(t, l.Make(source))
			times := map[string]map[string][]time.Duration{} // by step and tool
			note := func(step, tool string, d time.Duration) {
				if times[step] == nil {
					times[step] = map[string][]time.Duration{}
				}
				times[step][tool] = append(times[step][tool], d)
			}
			for run := range comparison.Runs() {
				for i, tl := range tools() {
					there, back := fmt.Sprintf("%s/there %d.%d", dir, run, i), fmt.Sprintf("%s/back %d.%d", dir, run, i)
					there, back = strings.ReplaceAll(there, " ", "-"), strings.ReplaceAll(back, " ", "-")
					note("1 push", tl.name, harness.Timed(t, tl.push(s, source, there)))
					note("2 pull", tl.name, harness.Timed(t, tl.pull(s, there, back)))
					harness.Same(t, back, source)
					if tl.again {
						note("3 push of nothing new", tl.name, harness.Timed(t, tl.push(s, source, there)))
						touchOne(t, source, run)
						note("4 push of one changed file", tl.name, harness.Timed(t, tl.push(s, source, there)))
						harness.Same(t, there, source)
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
			median := harness.Median(all)
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
	comparison.FlatMemory(t, s.sbsync, s.Path("source"), "ssh:box:"+s.Path("there"), s.Path("back"))
}
