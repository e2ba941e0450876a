package ssh

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

// home makes a home directory with files below .ssh.
func home(t *testing.T, files map[string]string) environment {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, ".ssh", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return environment{home: dir, user: "me", agent: "/agent"}
}

func resolved(t *testing.T, env environment, ref string) *host {
	t.Helper()
	d, err := prepare(ref, provider.Config{"config": "~/.ssh/config"}, env)
	if err != nil {
		t.Fatal(err)
	}
	return d.hosts[len(d.hosts)-1]
}

func TestResolve(t *testing.T) {
	env := home(t, map[string]string{
		"config": `# a comment
Include conf.d/*.conf
Host web  web-? !web-9
	HostName = %h.example.com
	User "deploy"
	Port 2222
	IdentityFile ~/keys/%r@%n
	IdentityFile "/two words" # a comment
	IdentitiesOnly yes
Host web
	User too-late
	UserKnownHostsFile ~/one /two
	ServerAliveInterval 5
Match host *.example.com user deploy
	ConnectTimeout 7
Match host *.example.com user nobody
	Port 1
Match exec "touch /pwn"
	HostName elsewhere
Match originalhost none,far !localuser root
	IdentityAgent none
Host *
	User everybody
`,
		"conf.d/a.conf": "Host far\n  ProxyJump a@one:23,two\n  Include inner\n",
		"inner":         "Port 99\nHost other\n  Port 98\n",
	})
	web := resolved(t, env, "web")
	if web.name != "web.example.com" || web.user != "deploy" || web.port != "2222" || !web.onlyThese || web.timeout != 7*time.Second ||
		web.aliveEvery != 5*time.Second || web.agent != "/agent" {
		t.Errorf("web is %+v", web)
	}
	if want := []string{filepath.Join(env.home, "keys/deploy@web"), "/two words"}; !slices.Equal(web.identities, want) {
		t.Errorf("identities %q, want %q", web.identities, want)
	}
	if want := []string{filepath.Join(env.home, "one"), "/two", "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"}; !slices.Equal(web.knownHosts, want) {
		t.Errorf("known hosts %q, want %q", web.knownHosts, want)
	}
	if h := resolved(t, env, "web-9"); h.name != "web-9" || h.user != "everybody" || h.port != "22" || !h.fromDefaults {
		t.Errorf("web-9 is %+v", h)
	}
	if h := resolved(t, env, "you@web-1:3"); h.user != "you" || h.port != "3" || h.name != "web-1.example.com" || h.timeout != dialTimeout {
		t.Errorf("you@web-1:3 is %+v", h)
	}
	if h := resolved(t, env, "far"); h.port != "99" || h.agent != "" || !slices.Equal(h.jumps, []string{"a@one:23", "two"}) {
		t.Errorf("far is %+v", h)
	}
	if h := resolved(t, env, "other"); h.port != "22" {
		t.Errorf("a Host block inside of another's Include counts: %+v", h)
	}
}

func TestProxyJumpOrder(t *testing.T) {
	env := home(t, map[string]string{"config": "Host far\n ProxyJump b,c\nHost b\n ProxyJump a\nHost c\n ProxyJump never\nHost round\n ProxyJump round\nHost cmd\n ProxyCommand nc %h\n"})
	d, err := prepare("far", provider.Config{"config": "~/.ssh/config"}, env)
	if err != nil {
		t.Fatal(err)
	}
	var way []string
	for _, h := range d.hosts {
		way = append(way, h.alias)
	}
	if want := []string{"a", "b", "c", "far"}; !slices.Equal(way, want) {
		t.Errorf("the way is %q, want %q", way, want)
	}
	for ref, says := range map[string]string{"round": "circle", "cmd": "ProxyCommand"} {
		if _, err := prepare(ref, provider.Config{"config": "~/.ssh/config"}, env); provider.KindOf(err) != provider.Usage || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v", ref, err)
		}
	}
}

func TestReferences(t *testing.T) {
	for in, want := range map[string]reference{
		"h": {"", "h", ""}, "u@h:22": {"u", "h", "22"}, "[::1]:2": {"", "::1", "2"}, "u@[fe80::1%eth0]": {"u", "fe80::1%eth0", ""},
		"::1": {"", "::1", ""}, "a@b@h": {"a@b", "h", ""}, "ssh://u@h:5/": {"u", "h", "5"},
	} {
		if got, err := parseReference(in); err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "@h", "u@", "h:", "h:x", "h:0", "h:65536", "[::1", "[::1]x", "-oProxyCommand=x", "a b", "a\nb", `a\b`} {
		if got, err := parseReference(in); provider.KindOf(err) != provider.Usage {
			t.Errorf("%q is %+v, %v", in, got, err)
		}
	}
}

func TestSplitLine(t *testing.T) {
	for in, want := range map[string][]string{
		"": nil, "  # x": nil, "Key value": {"key", "value"}, "Key=value": {"key", "value"}, "key = \"a b\" c": {"key", "a b", "c"},
		"\tK\tv # c": {"k", "v"}, `K "a\"b" c\ d`: {"k", `a"b`, "c d"}, `K C:\x`: {"k", `C:\x`}, "K a#b": {"k", "a#b"}, "K 'a b'": {"k", "a b"},
	} {
		key, args, err := splitLine(in)
		got := args
		if key != "" {
			got = append([]string{key}, args...)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"Key", "Key ", `Key "open`, "Key # only"} {
		if _, _, err := splitLine(in); err == nil {
			t.Errorf("%q is no error", in)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	env := home(t, map[string]string{"config": "Host a\nPort\n", "loop": "Include loop\n", "port": "Port x\n"})
	for name, says := range map[string]string{"config": "config:2", "loop": "nested", "port": "port", "gone": "gone"} {
		_, err := prepare("a", provider.Config{"config": "~/.ssh/" + name}, env)
		if provider.KindOf(err) != provider.Usage || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := prepare("a", provider.Config{"config": "none"}, env); err != nil {
		t.Errorf("no file: %v", err)
	}
}

func TestSettings(t *testing.T) {
	env := home(t, nil)
	d, err := prepare("h", provider.Config{"config": "none", "user": "u", "port": 2022, "identity_file": "~/k", "known_hosts": "~/kh",
		"keep_alive": "3s", "connect_timeout": 4}, env)
	if err != nil {
		t.Fatal(err)
	}
	h := d.hosts[0]
	if h.user != "u" || h.port != "2022" || h.identities[0] != filepath.Join(env.home, "k") || !slices.Equal(h.knownHosts, []string{filepath.Join(env.home, "kh")}) ||
		h.aliveEvery != 3*time.Second || h.timeout != 4*time.Second {
		t.Errorf("settings give %+v", h)
	}
	for key, value := range map[string]any{"prot": 22, "port": "x", "user": 3, "keep_alive": "-1s", "connect_timeout": 0} {
		if _, err := prepare("h", provider.Config{key: value}, env); provider.KindOf(err) != provider.Usage || provider.HintOf(err) == "" {
			t.Errorf("%s: %v: error %v", key, value, err)
		}
	}
	_, err = prepare("h", provider.Config{"prot": 22}, env)
	if !strings.Contains(provider.HintOf(err), `"port"`) {
		t.Errorf("hint %q", provider.HintOf(err))
	}
}

func TestAliases(t *testing.T) {
	env := home(t, map[string]string{"config": "Include more\nHost b a *.x !c\nMatch originalhost m\nHost b\n", "more": "Host inc\n"})
	config, err := readSSHConfig(env.home, true, filepath.Join(env.home, ".ssh", "config"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := config.aliases(), []string{"a", "b", "inc", "m"}; !slices.Equal(got, want) {
		t.Errorf("aliases %q, want %q", got, want)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("Host a\nHostName=%h%%\nMatch host x user y\nIdentityFile \"a b\"\n", "a")
	f.Fuzz(func(t *testing.T, text, name string) {
		dir := t.TempDir()
		file := filepath.Join(dir, "config")
		// What is included lies outside of the fuzzer's reach.
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(strings.ToLower(text), "include", "x")), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := readSSHConfig(dir, true, file)
		if err != nil {
			return
		}
		config.aliases()
		config.resolve(reference{host: name}, environment{home: dir, user: "me"})
	})
}
