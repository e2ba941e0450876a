package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/remote"
)

// A connection on which nothing was answered for aliveCount questions in a row,
// one every aliveEvery, is taken for dead: 30 to 40 seconds. OpenSSH never asks
// unless told to, and then hangs in a half-open connection for hours.
const (
	aliveEvery = 10 * time.Second
	aliveCount = 3
)

// link is one connection, through as many hosts as it takes.
type link struct {
	target *host
	client *ssh.Client
	conns  []net.Conn // the target's last
	once   sync.Once
	lost   chan struct{} // closed when the connection has ended
	silent atomic.Bool   // it was ended because nothing was answered
	heard  *atomic.Int64 // counts what was read from the target
	tasks  sync.WaitGroup
}

// heardConn counts its reads, as signs of life.
type heardConn struct {
	net.Conn
	reads atomic.Int64
}

func (c *heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.reads.Add(1)
	}
	return n, err
}

// close ends the connection, without a word: a host that does not answer must
// not hold it up.
func (l *link) close() {
	l.once.Do(func() {
		for i := len(l.conns) - 1; i >= 0; i-- {
			l.conns[i].Close()
		}
	})
}

// shut closes the link and waits for its tasks.
func (l *link) shut() {
	l.close()
	l.tasks.Wait()
}

func (l *link) watch() {
	l.tasks.Go(func() {
		l.client.Wait()
		close(l.lost)
		l.close()
	})
	l.tasks.Go(l.keepAlive)
}

// keepAlive asks, one question at a time, and ends a connection that is silent.
// Whatever is heard counts: on a slow line the question waits behind megabytes of
// data, whose receipt the host acknowledges meanwhile.
func (l *link) keepAlive() {
	tick := time.NewTicker(l.target.aliveEvery)
	defer tick.Stop()
	answered := make(chan struct{}, 1)
	waiting, missed, heard := false, 0, l.heard.Load()
	for {
		select {
		case <-l.lost:
			return
		case <-answered:
			waiting, missed = false, 0
		case <-tick.C:
			if now := l.heard.Load(); now != heard {
				heard, missed = now, 0
			}
			if waiting {
				if missed++; missed >= l.target.aliveCount {
					l.silent.Store(true)
					l.close()
				}
				continue
			}
			waiting = true
			l.tasks.Go(func() {
				// An answer of any kind will do, a refusal too.
				if _, _, err := l.client.SendRequest("keepalive@openssh.com", true, nil); err == nil {
					answered <- struct{}{}
				}
			})
		}
	}
}

func (l *link) alive() bool {
	select {
	case <-l.lost:
		return false
	default:
		return true
	}
}

// lostError says how the connection ended.
func (l *link) lostError() error {
	e := &provider.Error{Kind: provider.Unreachable, Op: fmt.Sprintf("connection to %s", l.target), Err: errors.New("it was lost"),
		Hint: "the host may have been rebooted, or the network is down"}
	if l.silent.Load() {
		e.Err = fmt.Errorf("nothing was answered for %v", time.Duration(l.target.aliveCount)*l.target.aliveEvery)
	}
	return e
}

// errBusy is the answer of a server that opens no further session just now.
var errBusy = errors.New("the host opens no further session on this connection (MaxSessions)")

// session is a command that was started, and its streams.
type session struct {
	*ssh.Session
	stdin          wire
	stdout, stderr reader
}

type (
	reader interface{ Read([]byte) (int, error) }
	wire   interface {
		Write([]byte) (int, error)
		Close() error
	}
)

// start starts a command. A context that ends does not wait for the host.
func (l *link) start(ctx context.Context, line, word string) (*session, error) {
	type started struct {
		s   *session
		err error
	}
	done := make(chan started, 1)
	go func() {
		s, err := l.open(line)
		done <- started{s, err}
	}()
	select {
	case r := <-done:
		return r.s, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.s != nil {
				newProcess(r.s, l, provider.Command{Stdout: io.Discard}, word).end(false)
			}
		}()
		return nil, ctx.Err()
	}
}

func (l *link) open(line string) (*session, error) {
	s, err := l.client.NewSession()
	if err != nil {
		var refused *ssh.OpenChannelError
		if errors.As(err, &refused) {
			return nil, errBusy
		}
		return nil, l.lostError()
	}
	session := &session{Session: s}
	session.stdin, _ = s.StdinPipe() // they fail only after a start
	session.stdout, _ = s.StdoutPipe()
	session.stderr, _ = s.StderrPipe()
	if err := s.Start(line); err != nil {
		s.Close()
		if !l.alive() {
			return nil, l.lostError()
		}
		// The library's error has the whole command line.
		return nil, &provider.Error{Kind: provider.NotImplemented, Op: "exec", Err: fmt.Errorf("%s runs no commands", l.target),
			Hint: "the account must be allowed to run commands; look for ForceCommand and restrict on the host"}
	}
	return session, nil
}

// kill runs kill on the host. The signal request of RFC 4254, section 6.9, does
// not do: OpenSSH refuses it to root (it "requires privilege separation").
func (l *link) kill(ctx context.Context, signal string, pid int) {
	// sshd makes each command a process group of its own.
	line := remote.KillCommand(signal, pid)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s, err := l.open(line); err == nil {
			s.stdin.Close()
			s.Wait()
			s.Close()
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
