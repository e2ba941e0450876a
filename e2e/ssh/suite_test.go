//go:build e2e && linux

package ssh

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

func TestSuite(t *testing.T) {
	providertest.NoLeaks(t)
	s := serve(t)
	providertest.Suite(t, func(t *testing.T) (provider.Sandbox, string) {
		sb, err := s.open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sb.Close() })
		return sb, t.TempDir()
	})
}

// A server with fewer sessions than usual makes commands wait, not fail.
func TestFewSessions(t *testing.T) {
	providertest.NoLeaks(t)
	s := serve(t, "MaxSessions 2")
	sb, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 6)
	for range cap(failed) {
		go func() {
			_, err := sb.Exec(t.Context(), provider.Command{Args: []string{"sleep", "0.3"}})
			failed <- err
		}()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	sb.Close()
}

// busyBoxOnly is a directory with nothing but BusyBox's programs.
func busyBoxOnly(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	busybox, err := exec.LookPath("busybox")
	if err == nil {
		err = exec.Command(busybox, "--install", "-s", dir).Run()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPushAndPull(t *testing.T) {
	for _, tools := range []string{"GNU", "BusyBox"} {
		t.Run(tools, func(t *testing.T) {
			var s *server
			if tools == "GNU" {
				s = serve(t)
			} else {
				s = serve(t, "SetEnv PATH="+busyBoxOnly(t))
			}
			for _, route := range []string{"stream", "base64"} {
				t.Run(route, func(t *testing.T) { roundTrip(t, s, "ssh:box:", route) })
			}
		})
	}
}

// roundTrip pushes one tree, then another over it, pulls that, and finds what
// it sent.
func roundTrip(t *testing.T, s *server, target, route string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	one, two, there, back := dir+"/one", dir+"/two", dir+"/there", dir+"/back"
	if err := harness.WriteTrees(rng, one, two); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{one, two} {
		s.must("push", "--delete", "--route", route, source, target+there)
		harness.Same(t, there, source)
	}
	if out := s.must("push", "--delete", "--route", route, "--json", two, target+there); !strings.Contains(out, `"route"`) {
		t.Errorf("no report: %s", out)
	}
	s.must("pull", "--route", route, target+there, back)
	harness.Same(t, back, two)
	if rubbish, err := s.Rubbish(dir); err != nil || len(rubbish) > 0 {
		t.Errorf("left behind: %q, %v", rubbish, err)
	}
	if left := s.Gone(5 * time.Second); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
}

// A host that only speaks SFTP says yes to every command and runs another one.
func TestSFTPOnly(t *testing.T) {
	providertest.NoLeaks(t)
	s := serve(t, "ForceCommand internal-sftp")
	_, err := s.open()
	if provider.KindOf(err) != provider.NotImplemented || !strings.Contains(provider.HintOf(err), "internal-sftp") {
		t.Fatalf("error %v (%v), hint %q", err, provider.KindOf(err), provider.HintOf(err))
	}
	if out, err := s.sbsync("push", s.Path("config"), "ssh:box:/tmp/sbsync-never").CombinedOutput(); err == nil || !strings.Contains(string(out), "SFTP only") {
		t.Fatalf("sbsync: %v\n%s", err, out)
	}
}
