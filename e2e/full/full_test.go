//go:build e2e && linux

// Package full fills disks and runs out of open files. It mounts real file
// systems, and so needs root.
package full

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, nil)) }

// exitSpace is what docs/exit-codes.md says of a side that is full or
// read-only.
const exitSpace = 8

// patience is how long a process may be left after sbsync has failed
// (kubernetes/kubernetes#139201).
const patience = 5 * time.Second

func newPlace(t *testing.T) *harness.Place {
	t.Helper()
	place, err := harness.NewPlace(t.TempDir())
	harness.Must(t, err)
	return place
}

// mount mounts a tmpfs of 1 MiB for the time of a test.
func mount(t *testing.T, dir string) {
	t.Helper()
	harness.Must(t, os.Mkdir(dir, 0o755))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatalf("mount a tmpfs on %s: %v; this suite needs root, and a container the right to mount", dir, err)
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// unmount waits until nobody uses the file system any more: a process that
// ends closes its files after it was last seen.
func unmount(dir string) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Unmount(dir, 0)
		if !errors.Is(err, syscall.EBUSY) {
			return err
		}
		if time.Now().After(deadline) {
			return errors.Join(err, syscall.Unmount(dir, syscall.MNT_DETACH))
		}
	}
}

// run runs sbsync and returns its exit code and what it printed.
func run(t *testing.T, cmd *exec.Cmd) (code int, output string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// cargo is what is too large, and what it is to replace.
type cargo struct {
	name  string
	flags []string
	// write writes it, with so many bytes in it.
	write func(rng *rand.Rand, path string, size int) error
}

func cargoes() []cargo {
	writeTree := func(rng *rand.Rand, path string, size int) error {
		for i := range 5 {
			if err := harness.WriteFile(rng, fmt.Sprintf("%s/dir/%d", path, i), size/5); err != nil {
				return err
			}
		}
		return nil
	}
	return []cargo{
		{"file", nil, harness.WriteFile},
		{"tree", nil, writeTree},
		{"whole tree", []string{"--replace"}, writeTree},
	}
}

func TestFullDisk(t *testing.T) {
	for _, w := range harness.Ways() {
		for _, c := range cargoes() {
			t.Run(strings.Join([]string{w.Verb, w.Route, c.name}, " "), func(t *testing.T) {
				t.Parallel()
				place, rng := newPlace(t), rand.New(rand.NewPCG(1, 2))
				disk := place.Path("disk")
				mount(t, disk)
				source, target := place.Path("source"), disk+"/target"
				harness.Must(t, c.write(rng, target, 100<<10))
				harness.Must(t, c.write(rng, source, 5<<20))
				before, err := harness.Look(disk)
				harness.Must(t, err)

				code, output := run(t, place.Command(w.Args(source, target, c.flags...)...))
				if code != exitSpace {
					t.Errorf("exit code %d, want %d", code, exitSpace)
				}
				checkMessage(t, output, target)
				checkIntact(t, place, disk, before)
			})
		}
	}
}

// checkMessage says whether a person learns what is full and how much is free.
func checkMessage(t *testing.T, output, target string) {
	t.Helper()
	for _, want := range []string{"(?i)no space left", regexp.QuoteMeta(target), `\b\d+ bytes (are )?free`} {
		if !regexp.MustCompile(want).MatchString(output) {
			t.Errorf("the message has no %q", want)
		}
	}
	if t.Failed() {
		t.Log(output)
	}
}

// checkIntact says whether a disk is as it was, and nothing runs any more.
func checkIntact(t *testing.T, place *harness.Place, disk string, before harness.State) {
	t.Helper()
	if left := place.Gone(patience); len(left) > 0 {
		t.Errorf("processes are left: %s", left)
	}
	after, err := harness.Look(disk)
	harness.Must(t, err)
	if d := after.Different(before); d != "" {
		t.Errorf("the disk is not as it was:\n%s", d)
	}
	rubbish, err := place.Rubbish()
	harness.Must(t, err)
	if len(rubbish) > 0 {
		t.Errorf("left: %q", rubbish)
	}
}

func TestReadOnlyDisk(t *testing.T) {
	for _, w := range harness.Ways() {
		t.Run(w.Verb+" "+w.Route, func(t *testing.T) {
			t.Parallel()
			place, rng := newPlace(t), rand.New(rand.NewPCG(3, 4))
			disk := place.Path("disk")
			mount(t, disk)
			source, target := place.Path("source"), disk+"/target"
			harness.Must(t, harness.WriteFile(rng, target, 1000))
			harness.Must(t, harness.WriteFile(rng, source, 2000))
			harness.Must(t, syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			before, err := harness.Look(disk)
			harness.Must(t, err)

			code, output := run(t, place.Command(w.Args(source, target)...))
			if code != exitSpace {
				t.Errorf("exit code %d, want %d", code, exitSpace)
			}
			if !strings.Contains(strings.ToLower(output), "read-only") || !strings.Contains(output, disk) {
				t.Errorf("the message does not say that %s is read-only:\n%s", disk, output)
			}
			checkIntact(t, place, disk, before)
		})
	}
}

// A tree of many files needs few open ones.
func TestFewOpenFiles(t *testing.T) {
	const limit, files = 64, 5000
	place := newPlace(t)
	source := place.Path("source")
	harness.Must(t, harness.WriteMany(source, files))
	want, err := harness.Look(source)
	harness.Must(t, err)
	for i, w := range harness.Ways() {
		t.Run(w.Verb+" "+w.Route, func(t *testing.T) {
			target := place.Path(fmt.Sprintf("target %d", i))
			code, output := run(t, place.Limited(limit, w.Args(source, target)...))
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, output)
			}
			got, err := harness.Look(target)
			harness.Must(t, err)
			if d := got.Different(want); d != "" {
				t.Error(d)
			}
			// With nothing to do everything is still looked at.
			if code, output := run(t, place.Limited(limit, w.Args(source, target, "--checksum")...)); code != 0 {
				t.Errorf("once more: exit code %d\n%s", code, output)
			}
			if left := place.Gone(patience); len(left) > 0 {
				t.Errorf("processes are left: %s", left)
			}
		})
	}
}
