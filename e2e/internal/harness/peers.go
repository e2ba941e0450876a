//go:build linux

package harness

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Comparison is how sbsync is compared with other tools. Without -peers it runs
// once, on little data, so that it is known to work; its figures mean nothing
// then.
type Comparison struct {
	peers *bool
	runs  *int
}

// NewComparison registers the flags -peers and -runs.
func NewComparison() Comparison {
	return Comparison{
		flag.Bool("peers", false, "compare with other tools on much data"),
		flag.Int("runs", 5, "of which the median counts, with -peers"),
	}
}

// Scaled is what a number is.
func (c Comparison) Scaled(full, small int) int {
	if *c.peers {
		return full
	}
	return small
}

// Runs is how often each tool has its turn.
func (c Comparison) Runs() int { return c.Scaled(*c.runs, 1) }

// Load is something to carry.
type Load struct {
	Name string
	Make func(dir string) error
}

// Loads are a large file, many small ones, and source text.
func (c Comparison) Loads(t testing.TB) []Load {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	size, files := c.Scaled(256, 4), c.Scaled(5000, 200)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	Must(t, err)
	source := filepath.Join(strings.TrimSpace(string(root)), "src")
	if !*c.peers {
		source = filepath.Join(source, "encoding")
	}
	return []Load{
		{fmt.Sprintf("file of %d MiB", size), func(dir string) error { return WriteFile(rng, dir+"/one", size<<20) }},
		{fmt.Sprintf("%d small files", files), func(dir string) error { return WriteMany(dir, files) }},
		{"Go source " + filepath.Base(source), func(dir string) error { return exec.Command("cp", "-a", source, dir).Run() }},
	}
}

// Timed runs a command, which must succeed.
func Timed(t testing.TB, cmd *exec.Cmd) time.Duration {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, out.String())
	}
	return time.Since(start)
}

// Median is the middle one.
func Median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// FlatMemory fails if sbsync's memory grows with the size of the file source, to
// and from there.
func (c Comparison) FlatMemory(t testing.TB, sbsync func(args ...string) *exec.Cmd, source, there, back string) {
	t.Helper()
	peak := func(sizeMiB int) (push, pull int64) {
		Timed(t, exec.Command("sh", "-c", fmt.Sprintf("head -c %dM /dev/urandom >%s", sizeMiB, source)))
		measure := func(args ...string) int64 {
			return Peak(t, sbsync(args...))
		}
		return measure("push", "-q", source, there), measure("pull", "-q", there, back)
	}
	large := c.Scaled(1024, 100)
	push, pull := peak(10)
	pushLarge, pullLarge := peak(large)
	t.Logf("10 MiB: push %d MiB, pull %d MiB; %d MiB: push %d MiB, pull %d MiB", push>>20, pull>>20, large, pushLarge>>20, pullLarge>>20)
	// The collector lets a heap double before it begins.
	const slack = 24 << 20
	if pushLarge > push+slack || pullLarge > pull+slack {
		t.Error("memory grows with the size")
	}
}
