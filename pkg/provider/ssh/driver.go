// Package ssh reaches hosts over SSH.
//
// Targets are ssh:[user@]host[:port]:/path. The host may be an alias of
// ~/.ssh/config, which is honoured as docs/ssh.md says: most of what names and
// reaches a host, keys, known hosts and jump hosts. Login is by key, from files
// or the agent. Host keys that are not known, or have changed, are refused.
//
// There is one connection a sandbox, and each command is a session on it, at
// most 8 at once. One command line, all words and quotes together, has at most
// 131,071 bytes. The account's login shell must be a POSIX one.
package ssh

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Driver opens hosts. The zero value is ready.
type Driver struct{}

func (Driver) Name() string      { return "ssh" }
func (Driver) Aliases() []string { return nil }
func (Driver) Summary() string   { return "a host over SSH, named as in ~/.ssh/config" }
func (Driver) HasRef() bool      { return true }

// Open connects and runs one command that changes nothing. The keys of cfg are
// in docs/ssh.md. Errors are of kind [provider.NotFound] if there is no such
// host, [provider.Unreachable] if it does not answer, [provider.Unauthorized] if
// its key or ours was refused, and [provider.NotImplemented] if it runs no
// commands.
func (Driver) Open(ctx context.Context, ref string, cfg provider.Config) (provider.Sandbox, error) {
	d, err := prepare(ref, cfg, readEnvironment())
	if err != nil {
		return nil, err
	}
	sb := newSandbox(d)
	if err := sb.greet(ctx); err != nil {
		sb.Close()
		return nil, err
	}
	return sb, nil
}

// Complete returns the hosts of ~/.ssh/config that begin with prefix, which may
// have a user before them. It connects to nothing.
func (Driver) Complete(_ context.Context, prefix string) ([]string, error) {
	env := readEnvironment()
	config, err := readSSHConfig(env.home, false, configFiles("", env.home)...)
	if err != nil {
		return nil, err
	}
	user, name := "", prefix
	if at := strings.LastIndexByte(prefix, '@'); at >= 0 {
		user, name = prefix[:at+1], prefix[at+1:]
	}
	var words []string
	for _, alias := range config.aliases() {
		if strings.HasPrefix(alias, name) {
			words = append(words, user+alias)
		}
	}
	return words, nil
}

// prepare finds out all that can be without the network.
func prepare(ref string, cfg provider.Config, env environment) (*dialer, error) {
	set, err := readSettings(cfg)
	if err != nil {
		return nil, err
	}
	where, err := parseReference(ref)
	if err != nil {
		return nil, err
	}
	config, err := readSSHConfig(env.home, set.config != "", configFiles(set.config, env.home)...)
	if err != nil {
		return nil, &provider.Error{Kind: provider.Usage, Op: "read ssh config", Err: err}
	}
	if where.user == "" {
		where.user = set.user
	}
	if where.port == "" {
		where.port = set.port
	}
	target, err := config.resolve(where, env)
	if err != nil {
		return nil, err
	}
	set.apply(target, env)
	return newDialer(config, env, target)
}

// configFiles are the user's file and the system's, or the one that was named,
// as with ssh -F.
func configFiles(named, home string) []string {
	switch {
	case named == "none":
		return nil
	case named != "":
		return []string{expandHome(named, home)}
	case runtime.GOOS == "windows":
		return []string{filepath.Join(home, ".ssh", "config")}
	}
	return []string{filepath.Join(home, ".ssh", "config"), "/etc/ssh/ssh_config"}
}

// settings are the provider's keys in sbsync's configuration. All but config
// concern the target itself, not the hosts on the way.
type settings struct {
	config, user, port, identity, knownHosts string
	alive, timeout                           time.Duration
}

var settingKeys = []string{"config", "connect_timeout", "identity_file", "keep_alive", "known_hosts", "port", "user"}

func readSettings(cfg provider.Config) (settings, error) {
	var s settings
	for key, value := range cfg {
		ok := false
		switch key {
		case "config":
			s.config, ok = value.(string)
		case "user":
			s.user, ok = value.(string)
		case "identity_file":
			s.identity, ok = value.(string)
		case "known_hosts":
			s.knownHosts, ok = value.(string)
		case "port":
			s.port = fmt.Sprint(value)
			ok = validPort(s.port)
		case "keep_alive":
			s.alive, ok = positive(value)
		case "connect_timeout":
			s.timeout, ok = positive(value)
		default:
			hint := "its keys are " + strings.Join(settingKeys, ", ")
			if near := provider.Suggest(key, settingKeys); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return s, &provider.Error{Kind: provider.Usage, Op: "open ssh", Err: fmt.Errorf("unknown key %q", key), Hint: hint}
		}
		if !ok {
			return s, &provider.Error{Kind: provider.Usage, Op: "open ssh", Err: fmt.Errorf("key %q has the value %v", key, value),
				Hint: "port is a number, keep_alive and connect_timeout are times like 10s, the others are strings"}
		}
	}
	return s, nil
}

// positive reads a time like 10s, or a number of seconds as in the ssh config.
func positive(value any) (time.Duration, bool) {
	text := fmt.Sprint(value)
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(n) * time.Second, n > 0
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d > 0
}

func (s settings) apply(h *host, env environment) {
	if s.identity != "" {
		h.identities, h.fromDefaults = slices.Insert(h.identities, 0, expandHome(s.identity, env.home)), false
	}
	if s.knownHosts != "" {
		h.knownHosts = []string{expandHome(s.knownHosts, env.home)}
	}
	if s.alive > 0 {
		h.aliveEvery = s.alive
	}
	if s.timeout > 0 {
		h.timeout = s.timeout
	}
}
