//go:build e2e && linux

package ssh

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

// bigSize takes a moment to carry, on any machine.
const bigSize = 48 << 20

// stage is an old tree at the target and a new one to carry there.
type stage struct {
	*server
	source, target string
	old            harness.State
}

func setStage(t *testing.T) *stage {
	t.Helper()
	st := &stage{server: serve(t)}
	st.source, st.target = st.Path("source"), st.Path("scene", "target")
	rng := rand.New(rand.NewPCG(3, 4))
	if err := harness.WriteTrees(rng, st.target, st.source); err != nil {
		t.Fatal(err)
	}
	if err := harness.WriteFile(rng, st.source+"/very big", bigSize); err != nil {
		t.Fatal(err)
	}
	st.old = st.look(t)
	return st
}

func (st *stage) look(t *testing.T) harness.State {
	t.Helper()
	s, err := harness.Look(st.target)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// under waits until the push has sent something.
func (st *stage) underWay(t *testing.T, ended <-chan error) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		select {
		case err := <-ended:
			t.Fatalf("it ended before it could be disturbed: %v", err)
		default:
		}
		if found, _ := filepath.Glob(st.Path("scene", ".sbsync-*", "*")); len(found) > 0 {
			return
		}
	}
	t.Fatal("nothing was sent")
}

// A killed client leaves the old tree and no process, there or here.
func TestKilledClient(t *testing.T) {
	for _, route := range []string{"stream", "base64"} {
		t.Run(route, func(t *testing.T) {
			st := setStage(t)
			for range 3 {
				cmd := st.sbsync("push", "--replace", "--route", route, st.source, "ssh:box:"+st.target)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				st.underWay(t, ended)
				cmd.Process.Kill()
				<-ended
				if left := st.Gone(15 * time.Second); len(left) > 0 {
					t.Fatalf("still running: %q", left)
				}
				if diff := st.look(t).Different(st.old); diff != "" {
					t.Fatalf("the old tree has changed: %s", diff)
				}
			}
			st.must("push", "--replace", st.source, "ssh:box:"+st.target)
			harness.Same(t, st.target, st.source)
			if rubbish, err := st.Rubbish(); err != nil || len(rubbish) > 0 {
				t.Errorf("left behind: %q, %v", rubbish, err)
			}
		})
	}
}

// A killed pull leaves no process there that goes on reading.
func TestKilledPull(t *testing.T) {
	st := setStage(t)
	for _, route := range []string{"stream", "base64"} {
		for delay := range 5 {
			cmd := st.sbsync("pull", "--route", route, "ssh:box:"+st.source, st.Path("back"))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(100+80*delay) * time.Millisecond)
			cmd.Process.Kill()
			cmd.Wait()
			if left := st.Gone(15 * time.Second); len(left) > 0 {
				t.Fatalf("still running: %q", left)
			}
		}
	}
	st.must("pull", "--delete", "ssh:box:"+st.source, st.Path("back"))
	harness.Same(t, st.Path("back"), st.source)
}

// Ctrl-C ends what runs there.
func TestInterruptedClient(t *testing.T) {
	st := setStage(t)
	cmd := st.sbsync("push", "--replace", st.source, "ssh:box:"+st.target)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	st.underWay(t, ended)
	cmd.Process.Signal(syscall.SIGINT)
	<-ended
	if left := st.Gone(5 * time.Second); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
	if diff := st.look(t).Different(st.old); diff != "" {
		t.Errorf("the old tree has changed: %s", diff)
	}
	if rubbish, err := st.Rubbish(); err != nil || len(rubbish) > 0 {
		t.Errorf("left behind: %q, %v", rubbish, err)
	}
}

// A reboot in the middle: the old tree is whole, and the error says what was.
func TestRebootedServer(t *testing.T) {
	st := setStage(t)
	cmd := st.sbsync("push", "--replace", "--retries", "0", st.source, "ssh:box:"+st.target)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	st.underWay(t, ended)
	st.stop()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(out.String(), "connection to box") || !strings.Contains(out.String(), "it was lost") {
			t.Errorf("error %v\n%s", err, out.String())
		}
	case <-time.After(30 * time.Second):
		cmd.Process.Kill()
		t.Fatal("30 s later it has not noticed")
	}
	if diff := st.look(t).Different(st.old); diff != "" {
		t.Errorf("the old tree has changed: %s", diff)
	}
	st.start()
	st.must("push", "--replace", st.source, "ssh:box:"+st.target)
	harness.Same(t, st.target, st.source)
}

// A connection on which nothing comes back is given up, and the next command
// has a new one.
func TestSilentServer(t *testing.T) {
	for name, input := range map[string]func(t *testing.T) io.Reader{
		"while idle":    func(t *testing.T) io.Reader { return endlessWait{t.Context().Done()} },
		"while sending": func(*testing.T) io.Reader { return endlessZeros{} },
	} {
		t.Run(name, func(t *testing.T) {
			providertest.NoLeaks(t)
			s := serve(t)
			sb, err := s.open(provider.Config{"keep_alive": "200ms"})
			if err != nil {
				t.Fatal(err)
			}
			frozen := descendants(s.cmd.Process.Pid)
			ended := make(chan error, 1)
			go func() {
				_, err := sb.Exec(t.Context(), provider.Command{Args: []string{"sh", "-c", "cat >/dev/null"}, Stdin: input(t)})
				ended <- err
			}()
			// More than it takes to give up, with all well: nobody must.
			select {
			case err := <-ended:
				t.Fatalf("it ended before anything happened: %v", err)
			case <-time.After(1500 * time.Millisecond):
			}
			for _, pid := range frozen {
				syscall.Kill(pid, syscall.SIGSTOP)
			}
			select {
			case err := <-ended:
				if provider.KindOf(err) != provider.Unreachable || !provider.IsTemporary(err) || !strings.Contains(err.Error(), "nothing was answered") {
					t.Errorf("error %v of kind %v", err, provider.KindOf(err))
				}
			case <-time.After(10 * time.Second):
				t.Error("nobody notices")
			}
			for _, pid := range frozen {
				syscall.Kill(pid, syscall.SIGCONT)
			}
			if res, err := sb.Exec(t.Context(), provider.Command{Args: []string{"echo", "again"}}); err != nil || string(res.Stdout) != "again\n" {
				t.Errorf("after it: %q, %v", res.Stdout, err)
			}
			sb.Close()
		})
	}
}

type endlessZeros struct{}

func (endlessZeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// endlessWait is an input that never comes.
type endlessWait struct{ done <-chan struct{} }

func (e endlessWait) Read([]byte) (int, error) {
	<-e.done
	return 0, os.ErrClosed
}

// Somebody who accepts and says nothing.
func TestMuteServer(t *testing.T) {
	providertest.NoLeaks(t)
	s := serve(t)
	syscall.Kill(s.cmd.Process.Pid, syscall.SIGSTOP)
	defer syscall.Kill(s.cmd.Process.Pid, syscall.SIGCONT)
	_, err := s.open(provider.Config{"connect_timeout": "500ms"})
	if provider.KindOf(err) != provider.Unreachable || !strings.Contains(err.Error(), "500ms") {
		t.Errorf("error %v", err)
	}
}
