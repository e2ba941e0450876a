package ssh

import (
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbsync/sbsync/pkg/provider/remote"
)

// host is what is known of one machine before it is dialled.
type host struct {
	alias        string // as it was asked for
	name         string // to dial
	user         string
	port         string
	keyAlias     string // HostKeyAlias, or ""
	identities   []string
	onlyThese    bool // IdentitiesOnly
	agent        string
	knownHosts   []string
	acceptNew    bool     // a key that is not known is taken and noted down
	jumps        []string // [user@]host[:port] each
	keyAlgos     []string // HostKeyAlgorithms, or nil
	aliveEvery   time.Duration
	aliveCount   int
	timeout      time.Duration
	unsupported  string // what can't be honoured, and would change where we get
	fromDefaults bool   // the identities are the usual ones, not configured ones
}

// address is what is dialled and what known_hosts is asked for.
func (h *host) address() string { return net.JoinHostPort(h.name, h.port) }

// keyAddress is the address under which the host key is looked up.
func (h *host) keyAddress() string {
	if h.keyAlias != "" {
		return net.JoinHostPort(h.keyAlias, "22")
	}
	return h.address()
}

// String is the way a user would name it.
func (h *host) String() string {
	s := h.user + "@" + h.name
	if h.port != "22" {
		s = h.user + "@" + h.address()
	}
	if h.alias != h.name {
		s = fmt.Sprintf("%s (%s)", h.alias, s)
	}
	return s
}

// environment is what of this machine resolving depends on.
type environment struct {
	home, user, agent string
}

func readEnvironment() environment {
	e := environment{agent: os.Getenv("SSH_AUTH_SOCK"), home: remote.HomeDir()}
	if u, err := user.Current(); err == nil {
		e.user = u.Username
	}
	if at := strings.LastIndexByte(e.user, '\\'); at >= 0 { // DOMAIN\user on Windows
		e.user = e.user[at+1:]
	}
	return e
}

// reference is [user@]host[:port].
type reference struct{ user, host, port string }

func parseReference(s string) (reference, error) {
	bad := func(why string) (reference, error) {
		return reference{}, usage(fmt.Sprintf("host %q: %s", s, why), "write ssh:[user@]host[:port]:/path")
	}
	s, isURL := strings.CutPrefix(s, "ssh://")
	r := reference{host: strings.TrimSuffix(s, "/")}
	if !isURL {
		r.host = s
	}
	if at := strings.LastIndexByte(r.host, '@'); at >= 0 {
		r.user, r.host = r.host[:at], r.host[at+1:]
		if r.user == "" {
			return bad("the user is empty")
		}
	}
	if rest, ok := strings.CutPrefix(r.host, "["); ok {
		name, after, closed := strings.Cut(rest, "]")
		if !closed || after != "" && after[0] != ':' {
			return bad("the brackets are not closed")
		}
		r.host, r.port = name, strings.TrimPrefix(after, ":")
	} else if strings.Count(r.host, ":") == 1 {
		r.host, r.port, _ = strings.Cut(r.host, ":")
		if r.port == "" {
			return bad("the port is empty")
		}
	}
	switch {
	case r.host == "" || strings.HasPrefix(r.host, "-") || strings.ContainsAny(r.host, " \t\n/\\\x00"):
		return bad("that is no host name")
	case r.port != "" && !validPort(r.port):
		return bad(fmt.Sprintf("%q is no port", r.port))
	}
	return r, nil
}

func validPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n < 1<<16
}

// resolve asks the configuration for everything about a host. What the
// reference says itself counts more.
func (c *sshConfig) resolve(ref reference, env environment) (*host, error) {
	found := c.lookup(ref, env)
	h := &host{alias: ref.host, name: ref.host, user: ref.user, port: ref.port, agent: env.agent, aliveEvery: aliveEvery, aliveCount: aliveCount, timeout: dialTimeout}
	if v := found.one("hostname"); v != "" {
		h.name = percent(v, map[byte]string{'h': ref.host})
	}
	if h.user == "" {
		h.user = found.one("user")
	}
	if h.user == "" {
		h.user = env.user
	}
	if h.port == "" {
		h.port = found.one("port")
	}
	if h.port == "" {
		h.port = "22"
	}
	if !validPort(h.port) {
		return nil, usage(fmt.Sprintf("host %q: the ssh config has the port %q", ref.host, h.port), "")
	}
	h.keyAlias = found.one("hostkeyalias")
	h.onlyThese = strings.EqualFold(found.one("identitiesonly"), "yes")
	switch strings.ToLower(found.one("stricthostkeychecking")) {
	case "accept-new", "no", "off":
		// With "no", ssh would also go on with a key that has changed, and keep
		// it from passwords alone. That is never done here.
		h.acceptNew = true
	}
	h.setFiles(found, env)
	h.setJumps(found)
	h.setTimes(found)
	if v := found.one("hostkeyalgorithms"); v != "" && !strings.ContainsAny(v[:1], "+-^") {
		h.keyAlgos = strings.Split(v, ",")
	}
	return h, nil
}

// setFiles finds the files of keys and known hosts.
func (h *host) setFiles(found values, env environment) {
	tokens := map[byte]string{'h': h.name, 'n': h.alias, 'r': h.user, 'p': h.port, 'd': env.home, 'u': env.user}
	file := func(s string) string { return expandHome(percent(s, tokens), env.home) }
	for _, args := range found["identityfile"] {
		if !strings.EqualFold(args[0], "none") {
			h.identities = append(h.identities, file(args[0]))
		}
	}
	if len(found["identityfile"]) == 0 {
		h.fromDefaults = true
		// The order of OpenSSH. Its id_dsa is gone.
		for _, kind := range []string{"rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk"} {
			h.identities = append(h.identities, filepath.Join(env.home, ".ssh", "id_"+kind))
		}
	}
	switch v := found.one("identityagent"); {
	case strings.EqualFold(v, "none"):
		h.agent = ""
	case v == "", v == "SSH_AUTH_SOCK":
	case strings.HasPrefix(v, "$"):
		h.agent = os.Getenv(strings.Trim(v[1:], "{}"))
	default:
		h.agent = file(v)
	}
	known := func(key string, defaults ...string) {
		names := defaults
		if v, ok := found[key]; ok {
			names = v[0]
		}
		for _, name := range names {
			if !strings.EqualFold(name, "none") {
				h.knownHosts = append(h.knownHosts, file(name))
			}
		}
	}
	known("userknownhostsfile", "~/.ssh/known_hosts", "~/.ssh/known_hosts2")
	known("globalknownhostsfile", "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
}

func (h *host) setJumps(found values) {
	jump, command := found.one("proxyjump"), found["proxycommand"]
	switch {
	case jump != "" && !strings.EqualFold(jump, "none"):
		h.jumps = strings.Split(jump, ",")
	case jump == "" && len(command) > 0 && !strings.EqualFold(command[0][0], "none"):
		h.unsupported = "ProxyCommand"
	}
}

func (h *host) setTimes(found values) {
	if n, err := strconv.Atoi(found.one("serveraliveinterval")); err == nil && n > 0 {
		h.aliveEvery = time.Duration(n) * time.Second
	}
	if n, err := strconv.Atoi(found.one("serveralivecountmax")); err == nil && n > 0 {
		h.aliveCount = n
	}
	if n, err := strconv.Atoi(found.one("connecttimeout")); err == nil && n > 0 {
		h.timeout = time.Duration(n) * time.Second
	}
}

// values are all values of each keyword, the one that counts first.
type values map[string][][]string

func (v values) one(key string) string {
	if all := v[key]; len(all) > 0 {
		return all[0][0]
	}
	return ""
}

func (c *sshConfig) lookup(ref reference, env environment) values {
	found := values{}
	s := subjects{alias: ref.host, localUser: env.user}
	for _, b := range c.blocks {
		// Match host and user go by what was found until then.
		s.host, s.user = ref.host, ref.user
		if v := found.one("hostname"); v != "" {
			s.host = percent(v, map[byte]string{'h': ref.host})
		}
		if s.user == "" {
			s.user = found.one("user")
		}
		if s.user == "" {
			s.user = env.user
		}
		if slices.ContainsFunc(b.conditions, func(c condition) bool { return !c.holds(s) }) {
			continue
		}
		for _, set := range b.settings {
			found[set.key] = append(found[set.key], set.args)
		}
	}
	return found
}

// percent replaces the tokens of ssh_config(5) that are known, and %%.
func percent(s string, tokens map[byte]string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if v, ok := tokens[s[i]]; ok {
			b.WriteString(v)
		} else if s[i] == '%' {
			b.WriteByte('%')
		} else {
			b.WriteString(s[i-1 : i+1])
		}
	}
	return b.String()
}

// aliases are the hosts that the configuration names without a wildcard, sorted.
func (c *sshConfig) aliases() []string {
	var names []string
	for _, b := range c.blocks {
		for _, cond := range b.conditions {
			if cond.subject != "alias" || cond.negated {
				continue
			}
			for _, p := range cond.patterns {
				if !strings.ContainsAny(p, "*?!") {
					names = append(names, p)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
