package ssh

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/sbsync/sbsync/pkg/provider"
)

// hostKeys checks one host's key against its known_hosts files.
type hostKeys struct {
	host  *host
	check ssh.HostKeyCallback
	err   error // of the last check
}

func readHostKeys(h *host) (*hostKeys, error) {
	var files []string
	for _, name := range h.knownHosts {
		if _, err := os.Stat(name); err == nil {
			files = append(files, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, &provider.Error{Kind: provider.Unauthorized, Op: "read known hosts", Err: err}
		}
	}
	check, err := knownhosts.New(files...)
	if err != nil {
		return nil, &provider.Error{Kind: provider.Unauthorized, Op: "read known hosts", Err: err}
	}
	return &hostKeys{host: h, check: check}, nil
}

// callback is for ssh.ClientConfig. What it refused is kept: the handshake's
// own error says less.
func (k *hostKeys) callback(_ string, remote net.Addr, key ssh.PublicKey) error {
	k.err = nil
	err := k.check(k.host.keyAddress(), remote, key)
	var unknown *knownhosts.KeyError
	switch {
	case err == nil:
	case k.host.acceptNew && errors.As(err, &unknown) && len(unknown.Want) == 0 && len(k.host.knownHosts) > 0:
		k.err = k.note(key)
	default:
		k.err = k.explain(err, key)
	}
	return k.err
}

// note adds a key to the user's first file.
func (k *hostKeys) note(key ssh.PublicKey) error {
	fail := func(err error) error {
		return &provider.Error{Kind: provider.Unauthorized, Op: "note the host key of " + k.host.String(), Err: err}
	}
	name := k.host.knownHosts[0]
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fail(err)
	}
	_, err = f.WriteString(knownhosts.Line([]string{k.host.keyAddress()}, key) + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return fail(err)
	}
	return nil
}

// noKey is a key that no file has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// known are the keys that the files have for the host.
func (k *hostKeys) known() []knownhosts.KnownKey {
	var unknown *knownhosts.KeyError
	errors.As(k.check(k.host.keyAddress(), &net.TCPAddr{}, noKey{}), &unknown)
	if unknown == nil {
		return nil
	}
	return unknown.Want
}

// algorithms are the host key algorithms to offer, those first for which there
// is a known key, as OpenSSH does it: the server picks the first one that it
// has, and a host that is known by its RSA key must not be taken for another
// one because it also has an Ed25519 key (golang/go#29286).
func (k *hostKeys) algorithms() []string {
	if k.host.keyAlgos != nil {
		return k.host.keyAlgos
	}
	all := ssh.SupportedAlgorithms().HostKeys
	var first []string
	for _, known := range k.known() {
		if isAuthority(known) {
			// The authority's type says nothing of the type of the host's key.
			first = append(first, certificates(all)...)
			continue
		}
		switch kind := known.Key.Type(); kind {
		case ssh.KeyAlgoRSA:
			first = append(first, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		default:
			first = append(first, kind)
		}
	}
	if len(first) == 0 {
		return nil // the library's own order
	}
	var order []string
	for _, algo := range append(first, plain(all)...) {
		if slices.Contains(all, algo) && !slices.Contains(order, algo) {
			order = append(order, algo)
		}
	}
	return order
}

func certificates(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.Contains(s, "-cert-") })
}

// plain leaves certificates out: without an authority they are refused, though
// the key in them may be known.
func plain(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return strings.Contains(s, "-cert-") })
}

// isAuthority looks up the line of a known key, since the library does not tell
// the two apart.
func isAuthority(k knownhosts.KnownKey) bool {
	f, err := os.Open(k.Filename)
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if n == k.Line {
			return strings.HasPrefix(strings.TrimSpace(lines.Text()), "@cert-authority")
		}
	}
	return false
}

// explain makes an error of a refused key that says what to do.
func (k *hostKeys) explain(err error, key ssh.PublicKey) error {
	e := &provider.Error{Kind: provider.Unauthorized, Op: fmt.Sprintf("host key of %s", k.host)}
	name := knownhosts.Normalize(k.host.keyAddress())
	print := fmt.Sprintf("%s key %s", key.Type(), ssh.FingerprintSHA256(key))
	var mismatch *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	switch {
	case errors.As(err, &revoked):
		e.Err = fmt.Errorf("the %s is revoked by %s:%d", print, revoked.Revoked.Filename, revoked.Revoked.Line)
		e.Hint = "do not connect; ask who runs the host"
	case errors.As(err, &mismatch) && len(mismatch.Want) == 0:
		e.Err = fmt.Errorf("the %s is not known", print)
		e.Hint = "compare the fingerprint with one that you have from elsewhere, then run: " + k.learn()
	case errors.As(err, &mismatch):
		want := mismatch.Want[0]
		for _, w := range mismatch.Want {
			if w.Key.Type() == key.Type() {
				want = w
			}
		}
		e.Err = fmt.Errorf("the %s is not the one of %s:%d (%s %s): somebody may be in between, or the host was set up anew",
			print, want.Filename, want.Line, want.Key.Type(), ssh.FingerprintSHA256(want.Key))
		e.Hint = fmt.Sprintf("if the change is right, run: ssh-keygen -R %s -f %s; then: %s", shellWord(name), shellWord(want.Filename), k.learn())
	default:
		e.Err = fmt.Errorf("%s: %w", print, err)
	}
	return e
}

// learn is the command line that makes the host known. ssh-keyscan can't go
// through other hosts.
func (k *hostKeys) learn() string {
	if len(k.host.jumps) > 0 || k.host.keyAlias != "" || len(k.host.knownHosts) == 0 {
		return "ssh " + shellWord(k.host.alias)
	}
	port := ""
	if k.host.port != "22" {
		port = "-p " + k.host.port + " "
	}
	return fmt.Sprintf("ssh-keyscan %s%s >>%s", port, shellWord(k.host.name), shellWord(k.host.knownHosts[0]))
}
