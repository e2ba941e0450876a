//go:build e2e && linux

package ssh

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

// Login scripts that print something, on both streams, before every command.
func TestNoisyLogin(t *testing.T) {
	s := serve(t)
	s.write("noisy", "echo 'welcome, and mind the gap'\necho 'you have mail' >&2\neval \"$SSH_ORIGINAL_COMMAND\"\n")
	s.restart("ForceCommand sh " + s.Path("noisy"))
	for _, route := range []string{"stream", "base64"} {
		t.Run(route, func(t *testing.T) { roundTrip(t, s, "ssh:box:", route) })
	}
}

// A target of sbsync's own configuration needs no ssh config.
func TestNamedTarget(t *testing.T) {
	s := serve(t)
	s.write("mine.yaml", `targets:
  web:
    provider: ssh
    ref: 127.0.0.1
    root: `+s.Path("root")+`
    config: none
    user: root
    port: `+s.port+`
    identity_file: `+s.Path("user")+`
    known_hosts: `+s.Path("known_hosts")+`
    keep_alive: 5s
    connect_timeout: 20s
`)
	s.must("push", "--config", s.Path("mine.yaml"), s.Path("config"), "web:sub/file")
	if s.read("root/sub/file") != s.read("config") {
		t.Error("it is not there")
	}
}

// An account without any rights, whose processes are not root's.
func TestOrdinaryUser(t *testing.T) {
	s := serve(t)
	const name = "sbsync-e2e"
	exec.Command("userdel", name).Run() // of a run that was killed
	s.run("useradd", "--no-create-home", "--shell", "/bin/sh", "--password", "*", name)
	t.Cleanup(func() {
		// It waits for what sshd has not ended yet.
		s.run("sh", "-c", "for n in 1 2 3 4 5 6 7 8; do userdel "+name+" && exit; sleep 1; done; exit 1")
	})
	for dir := s.Dir; dir != os.TempDir() && dir != "/"; dir = dir[:strings.LastIndexByte(dir, '/')] {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(s.Path("authorized"), 0o644); err != nil {
		t.Fatal(err)
	}
	config := strings.ReplaceAll(s.read("config"), "User root", "User "+name)
	s.write("config", config)
	providertest.NoLeaks(t)
	providertest.Suite(t, func(t *testing.T) (provider.Sandbox, string) {
		sb, err := s.open()
		if err != nil {
			t.Fatalf("%v\n%s", err, s.log.String())
		}
		t.Cleanup(func() { sb.Close() })
		res, err := sb.Exec(t.Context(), provider.Command{Args: []string{"mktemp", "-d"}})
		if err != nil || res.ExitCode != 0 {
			t.Fatalf("mktemp: %v, %s", err, res.Stderr)
		}
		dir := strings.TrimSpace(string(res.Stdout))
		t.Cleanup(func() { os.RemoveAll(dir) })
		return sb, dir
	})
	if left := s.Gone(5 * time.Second); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
}

// A shell that is no POSIX one, or none at all.
func TestNoShell(t *testing.T) {
	providertest.NoLeaks(t)
	for name, program := range map[string]string{"nologin": "/usr/sbin/nologin", "true": "/bin/true"} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "ForceCommand "+program)
			_, err := s.open()
			if provider.KindOf(err) != provider.NotImplemented || !strings.Contains(provider.HintOf(err), "login shell") {
				t.Errorf("error %v, hint %q", err, provider.HintOf(err))
			}
		})
	}
}
