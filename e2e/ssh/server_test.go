//go:build e2e && linux

// Package ssh runs sbsync against real servers: Debian's sshd on a loopback port,
// with keys and a configuration of its own. It needs root.
//
//	go test -tags e2e ./e2e/ssh
package ssh

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/ssh"
)

func TestMain(m *testing.M) {
	// sshd insists on it. A package's service makes it at boot.
	os.Exit(harness.Main(m, func() error { return os.MkdirAll("/run/sshd", 0o755) }))
}

// server is an sshd. What it starts has the mark of the server's place in its
// environment.
type server struct {
	*harness.Place
	t    *testing.T
	port string
	log  bytes.Buffer
	cmd  *exec.Cmd
}

// serve starts an sshd with some lines of configuration besides its usual ones;
// of two for a keyword the first counts, and that is the caller's.
func serve(t *testing.T, lines ...string) *server {
	t.Helper()
	place, err := harness.NewPlace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Place: place, t: t, port: freePort(t)}
	for _, name := range []string{"host", "user"} {
		s.keygen(name)
	}
	s.copy("user.pub", "authorized")
	if !strings.Contains(strings.Join(lines, "\n"), "SetEnv") {
		lines = append(lines, "SetEnv "+s.environment())
	}
	lines = append(lines,
		"ListenAddress 127.0.0.1:"+s.port, "HostKey "+s.Path("host"), "AuthorizedKeysFile "+s.Path("authorized"),
		"PidFile none", "StrictModes no", "UsePAM no", "PermitRootLogin yes", "PasswordAuthentication no", "UseDNS no",
		"Subsystem sftp internal-sftp")
	s.write("sshd_config", strings.Join(lines, "\n")+"\n")
	s.know()
	s.write("config", s.clientConfig("box"))
	s.start()
	t.Cleanup(s.stop)
	return s
}

// environment is for SetEnv: what marks the server's processes.
func (s *server) environment() string { return "E2E_PLACE=" + s.Dir }

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", s.Path("sshd_config"))
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			s.stop()
			s.t.Fatalf("sshd does not start: %s", s.log.String())
		}
	}
}

// stop ends the server and all of its connections, as a reboot does.
func (s *server) stop() {
	for _, pid := range append(descendants(s.cmd.Process.Pid), s.cmd.Process.Pid) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	s.cmd.Wait()
}

// descendants are all processes below one.
func descendants(pid int) []int {
	var all []int
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, word := range strings.Fields(string(text)) {
		var child int
		fmt.Sscan(word, &child)
		all = append(append(all, descendants(child)...), child)
	}
	return all
}

// keygen makes a key pair; options follow those of ssh-keygen.
func (s *server) keygen(name string, options ...string) {
	s.t.Helper()
	if len(options) == 0 {
		options = []string{"-t", "ed25519", "-N", ""}
	}
	s.run("ssh-keygen", append(options, "-q", "-f", s.Path(name))...)
}

func (s *server) run(name string, args ...string) string {
	s.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func (s *server) read(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(s.Path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *server) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.Path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) copy(from, to string) { s.t.Helper(); s.write(to, s.read(from)) }

// know makes the server's key known.
func (s *server) know() {
	s.t.Helper()
	s.write("known_hosts", "[127.0.0.1]:"+s.port+" "+s.read("host.pub"))
}

// clientConfig is a Host block for the server.
func (s *server) clientConfig(alias string, lines ...string) string {
	lines = append(lines, "HostName 127.0.0.1", "Port "+s.port, "User root", "IdentityFile "+s.Path("user"),
		"UserKnownHostsFile "+s.Path("known_hosts"), "GlobalKnownHostsFile none", "IdentityAgent none")
	return "Host " + alias + "\n  " + strings.Join(lines, "\n  ") + "\n"
}

// open opens the host "box" of the server's ssh config.
func (s *server) open(extra ...provider.Config) (provider.Sandbox, error) {
	cfg := provider.Config{"config": s.Path("config")}
	for _, e := range extra {
		for k, v := range e {
			cfg[k] = v
		}
	}
	sb, err := ssh.Driver{}.Open(s.t.Context(), "box", cfg)
	if err == nil {
		s.t.Cleanup(func() { sb.Close() })
	}
	return sb, err
}

// sbsync is a run of the program that finds the server's ssh config in its home.
func (s *server) sbsync(args ...string) *exec.Cmd {
	home := filepath.Join(s.Dir, ".home", ".ssh")
	os.MkdirAll(home, 0o700)
	os.WriteFile(filepath.Join(home, "config"), []byte("Include "+s.Path("config")+"\n"), 0o600)
	// HOME is not what OpenSSH goes by, but what we do.
	return s.Command(args...)
}

func (s *server) must(args ...string) string {
	s.t.Helper()
	out, err := s.sbsync(args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("sbsync %q: %v\n%s\n%s", args, err, out, s.log.String())
	}
	return string(out)
}
