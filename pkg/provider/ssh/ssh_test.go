package ssh

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

// fakeServer is a server in this process, for faults that sshd does not have.
type fakeServer struct {
	t    *testing.T
	addr string
	env  environment
	// private is the user's key.
	private ed25519.PrivateKey
	// exec answers an exec request on a channel. It closes the channel.
	exec func(line string, ch ssh.Channel, req *ssh.Request)
	// refuse, if set, is the answer to each new session.
	refuse ssh.RejectionReason
	// other is a further key that it takes.
	other atomic.Value
}

func newSigner(t *testing.T) (ssh.Signer, ed25519.PrivateKey) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer, key
}

func newFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	hostKey, _ := newSigner(t)
	userKey, private := newSigner(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeServer{t: t, addr: l.Addr().String()}
	s.private = private
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	s.env = home(t, map[string]string{
		"id_ed25519":  string(pem.EncodeToMemory(block)),
		"known_hosts": knownhosts.Line([]string{s.addr}, hostKey.PublicKey()) + "\n",
	})
	s.env.agent = ""
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		for _, good := range []any{userKey, s.other.Load()} {
			if signer, ok := good.(ssh.Signer); ok && bytes.Equal(key.Marshal(), signer.PublicKey().Marshal()) {
				return nil, nil
			}
		}
		return nil, errors.New("no")
	}}
	config.AddHostKey(hostKey)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn, config)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return s
}

func (s *fakeServer) serve(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		if s.refuse != 0 {
			c.Reject(s.refuse, "no more sessions")
			continue
		}
		ch, reqs, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range reqs {
				var payload struct{ Line string }
				ssh.Unmarshal(r.Payload, &payload)
				s.exec(payload.Line, ch, r)
			}
		}()
	}
}

// lock gives the user's key a passphrase. It is slow, on purpose.
func (s *fakeServer) lock() {
	s.t.Helper()
	block, err := ssh.MarshalPrivateKeyWithPassphrase(s.private, "", []byte("secret"))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.env.home, ".ssh", "id_ed25519"), pem.EncodeToMemory(block), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// sandbox is one for the server; a passphrase is answered by what is typed.
func (s *fakeServer) sandbox(typed string) *Sandbox {
	s.t.Helper()
	d, err := prepare(s.addr, provider.Config{"config": "none"}, s.env)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range d.hosts {
		h.knownHosts = h.knownHosts[:1] // not the machine's
	}
	d.ask = func(_ context.Context, question string) ([]byte, error) {
		if typed == "" {
			return nil, errNoTerminal
		}
		if !strings.Contains(question, "id_ed25519") {
			s.t.Errorf("asked %q", question)
		}
		return []byte(typed), nil
	}
	sb := newSandbox(d)
	s.t.Cleanup(func() { sb.Close() })
	return sb
}

func exitWith(code int, ch ssh.Channel, req *ssh.Request) {
	req.Reply(true, nil)
	ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
	ch.Close()
}

func TestPassphrases(t *testing.T) {
	providertest.NoLeaks(t)
	s := newFakeServer(t)
	s.lock()
	s.exec = func(_ string, ch ssh.Channel, r *ssh.Request) { exitWith(3, ch, r) }
	sb := s.sandbox("secret")
	if res, err := sb.Exec(t.Context(), provider.Command{Args: []string{"x"}}); err != nil || res.ExitCode != 3 {
		t.Errorf("the right one: exit code %d, %v", res.ExitCode, err)
	}
	sb.Close()
	for typed, says := range map[string]string{"": "no terminal", "wrong": "incorrect"} {
		sb := s.sandbox(typed)
		_, err := sb.Exec(t.Context(), provider.Command{Args: []string{"x"}})
		if provider.KindOf(err) != provider.Unauthorized || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "id_ed25519") {
			t.Errorf("%q: error %v", typed, err)
		}
	}
}

// A key that nobody can unlock does not keep the next one from being tried.
func TestLockedKeyIsPassedOver(t *testing.T) {
	providertest.NoLeaks(t)
	s := newFakeServer(t)
	s.lock()
	s.exec = func(_ string, ch ssh.Channel, r *ssh.Request) { exitWith(3, ch, r) }
	key, private := newSigner(t)
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(s.env.home, ".ssh", "other")
	if err := os.WriteFile(other, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	s.other.Store(key)
	sb := s.sandbox("")
	h := sb.dialer.hosts[0]
	h.identities = []string{filepath.Join(s.env.home, ".ssh", "id_ed25519"), other}
	if res, err := sb.Exec(t.Context(), provider.Command{Args: []string{"x"}}); err != nil || res.ExitCode != 3 {
		t.Errorf("exit code %d, %v", res.ExitCode, err)
	}
	sb.Close()
}

func TestAnswersOfServers(t *testing.T) {
	for name, tc := range map[string]struct {
		exec func(line string, ch ssh.Channel, req *ssh.Request)
		kind provider.Kind
		says string
	}{
		"exec is refused": {func(_ string, _ ssh.Channel, r *ssh.Request) { r.Reply(false, nil) }, provider.NotImplemented, "runs no commands"},
		"no exit code": {func(_ string, ch ssh.Channel, r *ssh.Request) { r.Reply(true, nil); ch.Close() },
			provider.Unreachable, "without an exit code"},
		"another command is run": {func(_ string, ch ssh.Channel, r *ssh.Request) { exitWith(0, ch, r) }, provider.NotImplemented, "no commands of ours"},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.NoLeaks(t)
			s := newFakeServer(t)
			s.exec = tc.exec
			sb := s.sandbox("secret")
			if err := sb.greet(t.Context()); provider.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v of kind %v", err, provider.KindOf(err))
			}
			sb.Close()
		})
	}
}

func TestExitSignal(t *testing.T) {
	providertest.NoLeaks(t)
	s := newFakeServer(t)
	s.exec = func(_ string, ch ssh.Channel, r *ssh.Request) {
		r.Reply(true, nil)
		ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal string
			Core   bool
			Text   string
			Lang   string
		}{"KILL", false, "", ""}))
		ch.Close()
	}
	sb := s.sandbox("secret")
	if res, err := sb.Exec(t.Context(), provider.Command{Args: []string{"x"}}); err != nil || res.ExitCode != 137 {
		t.Errorf("exit code %d, %v; want 137", res.ExitCode, err)
	}
	sb.Close()
}

// A context that ends while the server keeps us waiting for a session.
func TestCancelWhileBusy(t *testing.T) {
	providertest.NoLeaks(t)
	s := newFakeServer(t)
	s.refuse = ssh.ResourceShortage
	sb := s.sandbox("secret")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := sb.Exec(ctx, provider.Command{Args: []string{"x"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	sb.Close()
}

// A server that never answers an exec request does not hold up a context.
func TestCancelWhileStarting(t *testing.T) {
	providertest.NoLeaks(t)
	s := newFakeServer(t)
	s.exec = func(string, ssh.Channel, *ssh.Request) {}
	sb := s.sandbox("secret")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := sb.Exec(ctx, provider.Command{Args: []string{"x"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	sb.Close()
}

func TestNobodyListens(t *testing.T) {
	providertest.NoLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	d, err := prepare(addr, provider.Config{"config": "none"}, home(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.dial(t.Context()); provider.KindOf(err) != provider.Unreachable || !strings.Contains(err.Error(), "nothing listens at "+addr) {
		t.Errorf("error %v", err)
	}
}

func TestNoSuchHost(t *testing.T) {
	d, err := prepare("wbe-1", provider.Config{"config": "~/.ssh/config"}, home(t, map[string]string{"config": "Host web-1\n"}))
	if err != nil {
		t.Fatal(err)
	}
	err = d.explainConnect(&net.DNSError{Err: "no such host", Name: "wbe-1", IsNotFound: true}, d.hosts[0], nil)
	if provider.KindOf(err) != provider.NotFound || !strings.Contains(provider.HintOf(err), `"web-1"`) {
		t.Errorf("error %v, hint %q", err, provider.HintOf(err))
	}
}

// https://github.com/golang/go/issues/29286: a host that is known by one key is
// taken for another if it has a second one.
func TestHostKeyAlgorithms(t *testing.T) {
	one, _ := newSigner(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "known")
	write := func(text string) *hostKeys {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := readHostKeys(&host{name: "h", port: "22", knownHosts: []string{file, file + ".gone"}})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	line := knownhosts.Line([]string{"h"}, one.PublicKey())
	if got := write(line + "\n").algorithms(); len(got) < 3 || got[0] != ssh.KeyAlgoED25519 || strings.Contains(fmt.Sprint(got), "-cert-") {
		t.Errorf("a known key: %q", got)
	}
	if got := write("@cert-authority " + line + "\n").algorithms(); len(got) < 3 || !strings.Contains(got[0], "-cert-") {
		t.Errorf("an authority: %q", got)
	}
	if got := write("").algorithms(); got != nil {
		t.Errorf("nothing known: %q", got)
	}
	if got := write("@revoked " + line + "\n"); got.callback("h:22", &net.TCPAddr{}, one.PublicKey()) == nil || !strings.Contains(got.err.Error(), "revoked") {
		t.Errorf("a revoked key: %v", got.err)
	}
}

func TestCommandLine(t *testing.T) {
	line, err := commandLine(provider.Command{Args: []string{"a b", "it's"}, Dir: "/d", Env: map[string]string{"B": "2", "A": "1"}}, "word")
	want := `echo word $$ >&2; cd '/d' || { echo word >&2; exit 126; }; exec env 'A=1' 'B=2' 'a b' 'it'\''s'`
	if err != nil || line != want {
		t.Errorf("%s, %v; want %s", line, err, want)
	}
	for kind, cmd := range map[provider.Kind]provider.Command{
		provider.Usage:    {},
		provider.TooLarge: {Args: []string{strings.Repeat("'", 40000)}},
	} {
		if _, err := commandLine(cmd, "w"); provider.KindOf(err) != kind {
			t.Errorf("error %v, want kind %v", err, kind)
		}
	}
	for _, cmd := range []provider.Command{{Args: []string{"a\x00"}}, {Args: []string{"a"}, Dir: "rel"}} {
		if _, err := commandLine(cmd, "w"); provider.KindOf(err) != provider.Usage {
			t.Errorf("%q in %q: error %v", cmd.Args, cmd.Dir, err)
		}
	}
}
