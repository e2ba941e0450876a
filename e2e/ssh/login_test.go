//go:build e2e && linux

package ssh

import (
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

// refused opens the box, which must fail with a hint.
func refused(t *testing.T, s *server, kind provider.Kind, says ...string) string {
	t.Helper()
	_, err := s.open()
	if provider.KindOf(err) != kind {
		t.Fatalf("error %v of kind %v, want %v", err, provider.KindOf(err), kind)
	}
	for _, text := range says {
		if !strings.Contains(err.Error()+"\n"+provider.HintOf(err), text) {
			t.Errorf("%q is in neither the error, %v, nor the hint, %s", text, err, provider.HintOf(err))
		}
	}
	return provider.HintOf(err)
}

func opens(t *testing.T, s *server) {
	t.Helper()
	sb, err := s.open()
	if err != nil {
		t.Fatalf("%v\nhint: %s\n%s", err, provider.HintOf(err), s.log.String())
	}
	sb.Close()
}

// The command lines of the hints do what they say.
func TestUnknownHostKey(t *testing.T) {
	providertest.NoLeaks(t)
	s := serve(t)
	s.write("known_hosts", "")
	hint := refused(t, s, provider.Unauthorized, "is not known", "SHA256:", "ssh-keyscan")
	_, command, _ := strings.Cut(hint, "run: ")
	s.run("sh", "-c", command)
	opens(t, s)
}

func TestChangedHostKey(t *testing.T) {
	providertest.NoLeaks(t)
	s := serve(t)
	s.keygen("other")
	s.write("known_hosts", "[127.0.0.1]:"+s.port+" "+s.read("other.pub"))
	s.write("config", "StrictHostKeyChecking no\n"+s.clientConfig("box"))
	hint := refused(t, s, provider.Unauthorized, "known_hosts:1", "ssh-keygen -R")
	_, commands, _ := strings.Cut(hint, "run: ")
	s.run("sh", "-c", strings.Replace(commands, "then:", "", 1))
	s.write("config", s.clientConfig("box"))
	opens(t, s)
}

func TestKnownHosts(t *testing.T) {
	for name, prepare := range map[string]func(*server){
		"hashed": func(s *server) { s.run("ssh-keygen", "-H", "-f", s.Path("known_hosts")) },
		"an RSA key, though there is another one": func(s *server) {
			s.keygen("rsa", "-t", "rsa", "-b", "2048", "-N", "")
			s.restart("HostKey " + s.Path("rsa"))
			s.write("known_hosts", "[127.0.0.1]:"+s.port+" "+s.read("rsa.pub"))
		},
		"an Ed25519 key, though there are others": func(s *server) {
			s.keygen("rsa", "-t", "rsa", "-b", "2048", "-N", "")
			s.keygen("ecdsa", "-t", "ecdsa", "-N", "")
			s.restart("HostKey " + s.Path("rsa") + "\nHostKey " + s.Path("ecdsa"))
		},
		"certificate authority": func(s *server) {
			s.keygen("ca")
			s.run("ssh-keygen", "-q", "-s", s.Path("ca"), "-I", "id", "-h", "-n", "127.0.0.1", s.Path("host.pub"))
			s.restart("HostCertificate " + s.Path("host-cert.pub"))
			s.write("known_hosts", "@cert-authority [127.0.0.1]:"+s.port+" "+s.read("ca.pub"))
		},
		"a certificate, but the key is known": func(s *server) {
			s.keygen("ca")
			s.run("ssh-keygen", "-q", "-s", s.Path("ca"), "-I", "id", "-h", "-n", "127.0.0.1", s.Path("host.pub"))
			s.restart("HostCertificate " + s.Path("host-cert.pub"))
		},
		"accept-new": func(s *server) {
			s.write("known_hosts", "")
			s.write("config", "StrictHostKeyChecking accept-new\n"+s.clientConfig("box"))
			opens(s.t, s)
			s.write("config", s.clientConfig("box"))
		},
		"alias": func(s *server) {
			s.write("known_hosts", "one-name "+s.read("host.pub"))
			s.write("config", "HostKeyAlias one-name\n"+s.clientConfig("box"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.NoLeaks(t)
			s := serve(t)
			prepare(s)
			opens(t, s)
		})
	}
}

// restart starts the server with a further line of configuration.
func (s *server) restart(line string) {
	s.t.Helper()
	s.stop()
	s.write("sshd_config", line+"\n"+s.read("sshd_config"))
	s.start()
}

func TestAgent(t *testing.T) {
	providertest.NoLeaks(t)
	s := serve(t)
	cmd := exec.Command("ssh-agent", "-D", "-a", s.Path("agent"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	s.keygen("stranger")
	add := "SSH_AUTH_SOCK=" + s.Path("agent") + " ssh-add -q "
	s.run("sh", "-c", "n=0; until "+add+s.Path("stranger")+" || [ $n -gt 50 ]; do sleep 0.1; n=$((n+1)); done")
	config := strings.ReplaceAll(s.clientConfig("box"), "IdentityAgent none", "IdentityAgent "+s.Path("agent"))
	config = strings.ReplaceAll(config, s.Path("user"), s.Path("gone"))
	s.write("config", config)
	refused(t, s, provider.Unauthorized, "a key of the agent", "gone", "publickey")
	s.run("sh", "-c", add+s.Path("user"))
	opens(t, s)
	// The named key alone, of which only the public half is on disk.
	s.write("config", strings.ReplaceAll("IdentitiesOnly yes\n"+config, s.Path("gone"), s.Path("user.pub")))
	opens(t, s)
	s.write("config", "IdentitiesOnly yes\n"+config)
	refused(t, s, provider.Unauthorized, "no key")
}

func TestKeyThatIsRefused(t *testing.T) {
	providertest.NoLeaks(t)
	s := serve(t)
	s.write("authorized", "")
	refused(t, s, provider.Unauthorized, s.Path("user"), "ed25519", "publickey", "authorized_keys")
}

func TestPassphrase(t *testing.T) {
	s := serve(t)
	s.keygen("locked", "-t", "ed25519", "-N", "open sesame")
	s.copy("locked.pub", "authorized")
	s.write("config", strings.ReplaceAll(s.clientConfig("box"), s.Path("user"), s.Path("locked")))
	push := []string{"push", s.Path("config"), "ssh:box:" + s.Path("there")}

	cmd := s.sbsync(push...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no terminal") {
		t.Fatalf("without a terminal: %v\n%s", err, out)
	}

	// script gives it a terminal, on which it types.
	typed := exec.Command("script", "-qec", strings.Join(append([]string{harness.Program}, push...), " "), "/dev/null")
	typed.Env, typed.Dir = cmd.Env, cmd.Dir
	in, err := typed.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(500 * time.Millisecond)
		io.WriteString(in, "wrong\nopen sesame\n")
		time.Sleep(10 * time.Second)
		in.Close()
	}()
	out, err := typed.CombinedOutput()
	if err != nil || s.read("there") != s.read("config") {
		t.Fatalf("on a terminal: %v\n%s", err, out)
	}
	if strings.Contains(string(out), "sesame") {
		t.Errorf("the passphrase is shown: %s", out)
	}
}

// Two hosts on the way, each with keys of its own.
func TestProxyJump(t *testing.T) {
	providertest.NoLeaks(t)
	one, two, box := serve(t), serve(t), serve(t)
	box.write("config", box.clientConfig("box", "ProxyJump one,two")+one.clientConfig("one")+two.clientConfig("two"))
	sb, err := box.open()
	if err != nil {
		t.Fatalf("%v\nhint: %s", err, provider.HintOf(err))
	}
	for i, s := range []*server{one, two, box} {
		if len(descendants(s.cmd.Process.Pid)) == 0 {
			t.Errorf("server %d has no connection", i)
		}
	}
	sb.Close()
	roundTrip(t, box, "ssh:box:", "stream")
	two.stop()
	refused(t, box, provider.Unreachable, "two", "the host before it")
	two.start()
	one.write("known_hosts", "")
	refused(t, box, provider.Unauthorized, "one", "is not known")
}
