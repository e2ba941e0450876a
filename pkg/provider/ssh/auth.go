package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// login collects the keys for one host and what became of them.
type login struct {
	ctx     context.Context
	host    *host
	ask     func(ctx context.Context, question string) ([]byte, error)
	pause   func(func()) // runs a function during which the clock stands still
	agent   net.Conn
	once    sync.Once
	keys    []candidate // not tried yet
	tried   []string    // for people
	passed  []string    // keys that could not be used, and why
	locked  bool        // a key was taken, but nobody has its passphrase
	offered []string    // methods that the server takes
}

func (l *login) close() {
	if l.agent != nil {
		l.agent.Close()
	}
}

// next is for ssh.ClientConfig: it gives one key after the other. The library's
// own way gives up all keys if one of them can't sign, such as one whose
// passphrase nobody types.
func (l *login) next(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	l.offered = c.AllowedMethods
	if !slices.Contains(l.offered, "publickey") {
		return nil, nil
	}
	l.once.Do(func() { l.keys = l.candidates() })
	if len(l.keys) == 0 {
		return nil, nil
	}
	key := l.keys[0]
	l.keys = l.keys[1:]
	l.tried = append(l.tried, fmt.Sprintf("%s (%s)", key.label, strings.TrimPrefix(key.public.Type(), "ssh-")))
	return ssh.PublicKeys(key.Signer), nil
}

// candidates are the keys in OpenSSH's order: those of the agent that the
// configuration names, other keys that it names, and, unless it wants only
// these, what else the agent has. The usual files are no named ones: they come
// after the agent.
func (l *login) candidates() []candidate {
	files := l.fileKeys()
	held := l.agentKeys()
	var named, others, rest []candidate
	for _, f := range files {
		if i := slices.IndexFunc(held, func(c candidate) bool { return sameKey(c, f) }); i >= 0 {
			named = append(named, held[i])
			held = slices.Delete(held, i, i+1)
			continue
		}
		if f.Signer != nil {
			others = append(others, f)
		}
	}
	if !l.host.onlyThese {
		rest = held
	}
	all := slices.Concat(named, others, rest)
	if l.host.fromDefaults {
		all = slices.Concat(named, rest, others)
	}
	return all
}

// candidate is a key that may open the door. Signer is nil if only its public
// half is there.
type candidate struct {
	ssh.Signer
	public ssh.PublicKey
	label  string
}

func sameKey(a, b candidate) bool { return bytes.Equal(a.public.Marshal(), b.public.Marshal()) }

func (l *login) agentKeys() []candidate {
	if l.host.agent == "" {
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(l.ctx, "unix", l.host.agent)
	if err != nil {
		l.passed = append(l.passed, fmt.Sprintf("the agent (%v)", err))
		return nil
	}
	l.agent = conn
	stop := context.AfterFunc(l.ctx, func() { conn.Close() })
	defer stop()
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		l.passed = append(l.passed, fmt.Sprintf("the agent (%v)", err))
		return nil
	}
	keys := make([]candidate, len(signers))
	for i, s := range signers {
		keys[i] = candidate{s, s.PublicKey(), "a key of the agent, " + ssh.FingerprintSHA256(s.PublicKey())}
	}
	return keys
}

// fileKeys reads the identity files. One that can't be used is no error: the
// next may do.
func (l *login) fileKeys() []candidate {
	var keys []candidate
	for _, name := range l.host.identities {
		c, err := l.readKey(name)
		switch {
		case err == nil:
			keys = append(keys, c)
		case errors.Is(err, fs.ErrNotExist) && l.host.fromDefaults:
		default:
			var path *fs.PathError
			if errors.As(err, &path) {
				err = path.Err
			}
			l.passed = append(l.passed, fmt.Sprintf("%s (%v)", name, err))
		}
	}
	return keys
}

func (l *login) readKey(name string) (candidate, error) {
	private, err := os.ReadFile(name)
	if err != nil {
		// The agent may have the private half.
		if public, perr := readPublic(name); perr == nil {
			return candidate{nil, public, name}, nil
		}
		return candidate{}, err
	}
	var locked *ssh.PassphraseMissingError
	signer, err := ssh.ParsePrivateKey(private)
	switch {
	case errors.As(err, &locked):
		public := locked.PublicKey
		if public == nil { // the old formats lock it away, too
			if public, err = readPublic(name); err != nil {
				return candidate{}, fmt.Errorf("it has a passphrase, and there is no %s.pub", filepath.Base(name))
			}
		}
		return candidate{&lockedKey{login: l, name: name, private: private, public: public}, public, name}, nil
	case err != nil:
		// IdentityFile may name the public half of a key of the agent.
		if public, _, _, _, perr := ssh.ParseAuthorizedKey(private); perr == nil {
			return candidate{nil, public, name}, nil
		}
		return candidate{}, err
	}
	return candidate{signer, signer.PublicKey(), name}, nil
}

func readPublic(name string) (ssh.PublicKey, error) {
	text, err := os.ReadFile(name + ".pub")
	if err != nil {
		return nil, err
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(text)
	return public, err
}

// lockedKey asks for its passphrase when the server has taken the key, not
// before.
type lockedKey struct {
	login   *login
	name    string
	private []byte
	public  ssh.PublicKey
	once    sync.Once
	signer  ssh.Signer
	err     error
}

// passphraseTries is OpenSSH's NumberOfPasswordPrompts.
const passphraseTries = 3

func (k *lockedKey) PublicKey() ssh.PublicKey { return k.public }

func (k *lockedKey) unlock() (ssh.Signer, error) {
	k.once.Do(func() {
		k.login.pause(func() {
			for range passphraseTries {
				var phrase []byte
				if phrase, k.err = k.login.ask(k.login.ctx, fmt.Sprintf("Passphrase of %s: ", k.name)); k.err != nil {
					break
				}
				if k.signer, k.err = ssh.ParsePrivateKeyWithPassphrase(k.private, phrase); k.err == nil {
					return
				}
			}
			k.login.locked = true
			k.login.passed = append(k.login.passed, fmt.Sprintf("%s (%v)", k.name, k.err))
		})
	})
	return k.signer, k.err
}

func (k *lockedKey) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	s, err := k.unlock()
	if err != nil {
		return nil, err
	}
	return s.Sign(rand, data)
}

// SignWithAlgorithm and Algorithms let RSA keys sign with SHA-2.
func (k *lockedKey) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	s, err := k.unlock()
	if err != nil {
		return nil, err
	}
	with, ok := s.(ssh.AlgorithmSigner)
	if !ok {
		return nil, fmt.Errorf("%s can't sign with %s", k.name, algorithm)
	}
	return with.SignWithAlgorithm(rand, data, algorithm)
}

func (k *lockedKey) Algorithms() []string {
	if k.public.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{k.public.Type()}
}

var _ ssh.MultiAlgorithmSigner = (*lockedKey)(nil)
