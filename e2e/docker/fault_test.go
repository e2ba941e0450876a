//go:build e2e && linux

package docker

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
)

// bigSize takes a moment to carry, on any machine.
const bigSize = 96 << 20

// stage is a container with an old tree at the target, and a new one to carry
// there.
type stage struct {
	*box
	source, target string
	old            harness.State
}

func setStage(t *testing.T) *stage {
	t.Helper()
	b := run(t, "gnu")
	st := &stage{box: b, source: b.Path("source"), target: "docker:" + b.name + ":/srv/target"}
	rng := rand.New(rand.NewPCG(3, 4))
	if err := harness.WriteTrees(rng, b.Path("old"), st.source); err != nil {
		t.Fatal(err)
	}
	if err := harness.WriteFile(rng, st.source+"/very big", bigSize); err != nil {
		t.Fatal(err)
	}
	b.must("push", b.Path("old"), st.target)
	st.old = st.look("before")
	return st
}

// look takes the state of the target, by docker cp.
func (st *stage) look(witness string) harness.State {
	st.t.Helper()
	st.docker("cp", st.name+":/srv/target", st.Path(witness))
	s, err := harness.Look(st.Path(witness))
	if err != nil || len(s) == 0 {
		st.t.Fatalf("no state: %v", err)
	}
	return s
}

// disturb starts a push, and does something as soon as it has sent something.
func (st *stage) disturb(route string, what func(cmd *exec.Cmd)) (exitCode int, said string) {
	st.t.Helper()
	inside := "/proc/" + st.docker("inspect", "-f", "{{.State.Pid}}", st.name) + "/root/srv/.sbsync-*/*"
	cmd := st.sbsync("push", "--replace", "--retries", "0", "--route", route, st.source, st.target)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		st.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		select {
		case err := <-ended:
			st.t.Fatalf("it ended before it could be disturbed: %v\n%s", err, out.String())
		default:
		}
		if found, _ := filepath.Glob(inside); len(found) > 0 {
			break
		}
		if time.Now().After(deadline) {
			st.t.Fatal("nothing was sent")
		}
	}
	what(cmd)
	<-ended
	return cmd.ProcessState.ExitCode(), out.String()
}

// unharmed checks that the target is as it was, and that the next push works
// and leaves nothing else.
func (st *stage) unharmed(witness string) {
	st.t.Helper()
	if diff := st.look(witness).Different(st.old); diff != "" {
		st.t.Fatalf("the old tree has changed: %s", diff)
	}
}

func (st *stage) recovers() {
	st.t.Helper()
	st.must("push", "--replace", st.source, st.target)
	st.docker("cp", st.name+":/srv/target", st.Path("after"))
	harness.Same(st.t, st.Path("after"), st.source)
	if found := st.docker("exec", st.name, "find", "/srv", "/tmp", "-name", ".sbsync-*"); found != "" {
		st.t.Errorf("left behind: %s", found)
	}
}

// A killed client leaves the old tree, and no process in the container.
func TestKilledClient(t *testing.T) {
	for _, route := range []string{"stream", "base64"} {
		t.Run(route, func(t *testing.T) {
			st := setStage(t)
			st.disturb(route, func(cmd *exec.Cmd) { cmd.Process.Kill() })
			if left := st.quiet(15 * time.Second); len(left) > 0 {
				t.Fatalf("still running: %q", left)
			}
			st.unharmed("killed")
			st.recovers()
		})
	}
}

// A killed pull leaves no process that goes on reading.
func TestKilledPull(t *testing.T) {
	st := setStage(t)
	st.must("push", "--replace", st.source, st.target)
	for _, route := range []string{"stream", "base64"} {
		for delay := range 4 {
			cmd := st.sbsync("pull", "--route", route, st.target, st.Path("back"))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(300+150*delay) * time.Millisecond)
			cmd.Process.Kill()
			cmd.Wait()
			if left := st.quiet(15 * time.Second); len(left) > 0 {
				t.Fatalf("%s: still running: %q", route, left)
			}
		}
	}
	st.must("pull", "--delete", st.target, st.Path("back"))
	harness.Same(t, st.Path("back"), st.source)
}

// Ctrl-C ends what runs there, and cleans up.
func TestInterruptedClient(t *testing.T) {
	st := setStage(t)
	code, said := st.disturb("stream", func(cmd *exec.Cmd) { cmd.Process.Signal(syscall.SIGINT) })
	if code != 130 {
		t.Errorf("exit code %d: %s", code, said)
	}
	if left := st.quiet(5 * time.Second); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
	st.unharmed("interrupted")
	if found := st.docker("exec", st.name, "find", "/srv", "-name", ".sbsync-*"); found != "" {
		t.Errorf("left behind: %s", found)
	}
}

// The container is stopped in the middle.
func TestStoppedMeanwhile(t *testing.T) {
	st := setStage(t)
	code, said := st.disturb("stream", func(*exec.Cmd) { st.docker("kill", st.name) })
	if code != 7 || !strings.Contains(said, "--start") {
		t.Errorf("exit code %d: %s", code, said)
	}
	st.unharmed("stopped")
	st.docker("start", st.name)
	st.recovers()
}

// The engine is killed in the middle, and started again.
func TestKilledEngine(t *testing.T) {
	st := setStage(t)
	code, said := st.disturb("stream", func(*exec.Cmd) { engine.kill() })
	if code != 7 || !strings.Contains(said, "no connection to the Docker daemon at "+engine.host()) {
		t.Errorf("exit code %d: %s", code, said)
	}
	if err := engine.start(); err != nil {
		t.Fatal(err)
	}
	st.docker("start", st.name) // a new engine ends the containers of the old one
	st.unharmed("restarted")
	st.recovers()
}
