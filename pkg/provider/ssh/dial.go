package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sbsync/sbsync/pkg/provider"
)

// dialTimeout is how long one host may take, its login included.
const dialTimeout = provider.DialTimeout

// maxJumps bounds the hosts on the way; more is a circle.
const maxJumps = 8

// dialer connects to one target.
type dialer struct {
	config *sshConfig
	env    environment
	hosts  []*host // those to jump through, then the target
	ask    func(ctx context.Context, question string) ([]byte, error)
}

func newDialer(config *sshConfig, env environment, target *host) (*dialer, error) {
	d := &dialer{config: config, env: env, ask: askTerminal}
	if err := d.way(target); err != nil {
		return nil, err
	}
	for _, h := range d.hosts {
		if h.unsupported != "" {
			return nil, usage(fmt.Sprintf("host %q: its ssh config has %s, which sbsync does not run", h.alias, h.unsupported), "use ProxyJump")
		}
	}
	return d, nil
}

// way finds the hosts to go through. As with ssh -J, each is looked up in the
// configuration, and only the first may have jumps of its own.
func (d *dialer) way(h *host) error {
	before := []*host{h}
	for len(h.jumps) > 0 {
		var first *host
		for i, text := range slices.Backward(h.jumps) {
			ref, err := parseReference(text)
			if err != nil {
				return err
			}
			jump, err := d.config.resolve(ref, d.env)
			if err != nil {
				return err
			}
			if i > 0 {
				jump.jumps = nil
			}
			before = append(before, jump)
			first = jump
		}
		if len(before) > maxJumps {
			return usage(fmt.Sprintf("host %q: more than %d ProxyJump hosts; they may go in a circle", before[0].alias, maxJumps), "")
		}
		h = first
	}
	slices.Reverse(before)
	d.hosts = before
	return nil
}

// dial connects, through all hosts on the way.
func (d *dialer) dial(ctx context.Context) (*link, error) {
	l := &link{lost: make(chan struct{})}
	for _, h := range d.hosts {
		client, conn, err := d.hop(ctx, l.client, h)
		if err != nil {
			l.close()
			return nil, err
		}
		l.client, l.conns, l.heard = client, append(l.conns, conn), &conn.reads
	}
	l.target = d.hosts[len(d.hosts)-1]
	l.watch()
	return l, nil
}

func (d *dialer) hop(ctx context.Context, via *ssh.Client, h *host) (*ssh.Client, *heardConn, error) {
	raw, err := d.connect(ctx, via, h)
	if err != nil {
		return nil, nil, err
	}
	conn := &heardConn{Conn: raw}
	client, err := d.handshake(ctx, conn, h)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return client, conn, nil
}

// connect makes the TCP connection, from here or from another host.
func (d *dialer) connect(ctx context.Context, via *ssh.Client, h *host) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	var conn net.Conn
	var err error
	if via != nil {
		conn, err = via.DialContext(limited, "tcp", h.address())
	} else {
		conn, err = (&net.Dialer{}).DialContext(limited, "tcp", h.address())
	}
	if err == nil {
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, d.explainConnect(err, h, via)
}

func (d *dialer) explainConnect(err error, h *host, via *ssh.Client) error {
	e := &provider.Error{Kind: provider.Unreachable, Op: fmt.Sprintf("connect to %s", h), Err: err}
	var dns *net.DNSError
	var refused *ssh.OpenChannelError
	switch {
	case errors.As(err, &refused):
		e.Err = fmt.Errorf("the host before it on the way says: %s", refused.Message)
		if refused.Reason == ssh.Prohibited {
			e.Kind, e.Hint = provider.Unauthorized, "it must allow TCP forwarding (AllowTcpForwarding)"
		}
	case errors.As(err, &dns) && dns.IsNotFound:
		e.Kind, e.Err = provider.NotFound, fmt.Errorf("there is no host %q", h.name)
		if near := provider.Suggest(h.alias, d.config.aliases()); near != "" {
			e.Hint = fmt.Sprintf("did you mean %q of the ssh config?", near)
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Err = fmt.Errorf("nothing listens at %s", h.address())
		e.Hint = "is an SSH server running there, at that port?"
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		e.Err = fmt.Errorf("no answer from %s within %v", h.address(), h.timeout)
		e.Hint = "check the address, firewalls and VPN"
	}
	return e
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// handshake logs in. Its time does not run while somebody is asked for a
// passphrase.
func (d *dialer) handshake(ctx context.Context, conn net.Conn, h *host) (*ssh.Client, error) {
	keys, err := readHostKeys(h)
	if err != nil {
		return nil, err
	}
	expired := make(chan struct{})
	clock := time.AfterFunc(h.timeout, func() { close(expired); conn.Close() })
	defer clock.Stop()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	login := &login{ctx: ctx, host: h, ask: d.ask}
	login.pause = func(f func()) {
		if clock.Stop() {
			defer clock.Reset(h.timeout)
		}
		f()
	}
	defer login.close()
	c, channels, requests, err := ssh.NewClientConn(conn, h.address(), &ssh.ClientConfig{
		User: h.user, AuthCallback: login.next,
		HostKeyCallback: keys.callback, HostKeyAlgorithms: keys.algorithms(),
		ClientVersion: "SSH-2.0-sbsync",
	})
	if err == nil {
		return ssh.NewClient(c, channels, requests), nil
	}
	select {
	case <-expired:
		return nil, &provider.Error{Kind: provider.Unreachable, Op: fmt.Sprintf("log in to %s", h), Err: fmt.Errorf("no answer within %v", h.timeout),
			Hint: "something listens there, but does not talk SSH, or is overloaded"}
	default:
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if keys.err != nil {
		return nil, keys.err
	}
	return nil, login.explain(err)
}

// explain makes an error of a failed login that says what was tried.
func (l *login) explain(err error) error {
	e := &provider.Error{Kind: provider.Unauthorized, Op: fmt.Sprintf("log in to %s", l.host)}
	var negotiation *ssh.AlgorithmNegotiationError
	switch text := err.Error(); {
	case errors.As(err, &negotiation):
		e.Kind, e.Err = provider.Other, err
		e.Hint = "the server and sbsync have no algorithm in common; see HostKeyAlgorithms in the ssh config"
	case strings.Contains(text, "unable to authenticate"), strings.Contains(text, "too many authentication"), strings.Contains(text, "Too many authentication"):
		e.Err = errors.New(l.story())
		e.Hint = l.advice()
	case l.locked:
		e.Err = errors.New(l.story())
		e.Hint = "ssh-add the key, or run sbsync on a terminal"
	default:
		e.Kind, e.Err = provider.Unreachable, fmt.Errorf("the connection ended: %w", err)
		if strings.Contains(text, "overflow reading version") || strings.Contains(text, "EOF") {
			e.Hint = "does an SSH server listen there? It may also refuse this address, or have too many logins under way"
		}
	}
	return e
}

// story says which methods and keys were tried.
func (l *login) story() string {
	tried := "no key was there to try"
	if len(l.tried) > 0 {
		tried = "it took none of these keys: " + strings.Join(l.tried, ", ")
	}
	if len(l.passed) > 0 {
		tried += "; not usable: " + strings.Join(l.passed, ", ")
	}
	if len(l.offered) > 0 {
		tried += "; the server takes " + strings.Join(l.offered, ", ")
	}
	return tried
}

func (l *login) advice() string {
	switch {
	case len(l.offered) > 0 && !slices.Contains(l.offered, "publickey"):
		return "sbsync logs in with keys only; let the server take them"
	case len(l.tried) == 0 && l.host.agent == "":
		return "start an agent and ssh-add a key, or name one with IdentityFile or identity_file"
	case len(l.tried) > 5:
		return "many servers take only 6 keys; name the right one with IdentityFile and IdentitiesOnly yes"
	}
	return "is the user right, and the key in the host's authorized_keys?"
}
