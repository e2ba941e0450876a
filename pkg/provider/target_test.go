package provider

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

var testNamed = map[string]Named{
	"dev":     {Provider: "kubernetes", Ref: "web-0", Root: "/workspace"},
	"top":     {Provider: "local", Root: "/"},
	"slash":   {Provider: "local", Root: "/srv/box/"},
	"docker":  {Provider: "local", Root: "/shadowed"},
	"rootrel": {Provider: "local", Root: "srv"},
	"lost":    {Provider: "kubernets", Root: "/"},
	"D":       {Provider: "local", Root: "/d"},
}

func isTestProvider(word string) bool {
	return slices.Contains([]string{"local", "kubernetes", "k8s", "docker", "ssh", "plugin", "daytona", "e2b"}, word)
}

func TestParseTarget(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want Target
	}{
		// The examples of the documentation.
		{"local:/srv/box", Target{Provider: "local", Path: "/srv/box"}},
		{"kubernetes:team-a/web-0/app:/workspace", Target{Provider: "kubernetes", Ref: "team-a/web-0/app", Path: "/workspace"}},
		{"k8s:web-0:/w", Target{Provider: "k8s", Ref: "web-0", Path: "/w"}},
		{"ssh:user@host:2222:/srv/app", Target{Provider: "ssh", Ref: "user@host:2222", Path: "/srv/app"}},
		{"plugin:NAME:REF:/path", Target{Provider: "plugin", Ref: "NAME:REF", Path: "/path"}},
		{"dev:src", Target{Provider: "kubernetes", Ref: "web-0", Path: "/workspace/src", Name: "dev", Root: "/workspace"}},
		{"dev", Target{Provider: "kubernetes", Ref: "web-0", Path: "/workspace", Name: "dev", Root: "/workspace"}},

		// Later colons are just characters (kubernetes/kubernetes#72501).
		{"docker:web:/data/f-22:34.gz", Target{Provider: "docker", Ref: "web", Path: "/data/f-22:34.gz"}},
		{"docker:web:/a:/b", Target{Provider: "docker", Ref: "web", Path: "/a:/b"}},
		{"local:/a:b", Target{Provider: "local", Path: "/a:b"}},
		{"local:/C:/x", Target{Provider: "local", Path: "/C:/x"}},
		{"dev:a:b/c:d", Target{Provider: "kubernetes", Ref: "web-0", Path: "/workspace/a:b/c:d", Name: "dev", Root: "/workspace"}},

		{"docker:web:/a//b/./c/../d/", Target{Provider: "docker", Ref: "web", Path: "/a/b/d", Slash: true}},
		{"docker:web:/a/.", Target{Provider: "docker", Ref: "web", Path: "/a", Slash: true}},
		{"docker:web:/../..", Target{Provider: "docker", Ref: "web", Path: "/", Slash: true}},
		{"docker:web:/new\nline ", Target{Provider: "docker", Ref: "web", Path: "/new\nline "}},
		{"docker:/path", Target{Provider: "docker", Path: "/path"}}, // Registry.Parse refuses it
		{"docker::/path", Target{Provider: "docker", Path: "/path"}},

		{"dev:", Target{Provider: "kubernetes", Ref: "web-0", Path: "/workspace", Name: "dev", Root: "/workspace"}},
		{"dev:a/../b/", Target{Provider: "kubernetes", Ref: "web-0", Path: "/workspace/b", Slash: true, Name: "dev", Root: "/workspace"}},
		{"dev:/workspace/x", Target{Provider: "kubernetes", Ref: "web-0", Path: "/workspace/x", Name: "dev", Root: "/workspace"}},
		{"dev:..x", Target{Provider: "kubernetes", Ref: "web-0", Path: "/workspace/..x", Name: "dev", Root: "/workspace"}},
		{`dev:a\b`, Target{Provider: "kubernetes", Ref: "web-0", Path: `/workspace/a\b`, Name: "dev", Root: "/workspace"}},
		{"top", Target{Provider: "local", Path: "/", Slash: true, Name: "top", Root: "/"}},
		{"top:etc", Target{Provider: "local", Path: "/etc", Name: "top", Root: "/"}},
		{"slash:x", Target{Provider: "local", Path: "/srv/box/x", Name: "slash", Root: "/srv/box"}},
		{"docker", Target{Provider: "local", Path: "/shadowed", Name: "docker", Root: "/shadowed"}},
		{"D:x", Target{Provider: "local", Path: "/d/x", Name: "D", Root: "/d"}},
	} {
		got, err := ParseTarget(tc.in, "linux", testNamed, isTestProvider)
		if err != nil || got != tc.want {
			t.Errorf("ParseTarget(%q) = %+v, %v; want %+v", tc.in, got, err, tc.want)
		}
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for _, tc := range []struct{ in, goos, want, hint string }{
		{"", "linux", "empty target", "PROVIDER:REF:"},
		{"src", "linux", `"src" is neither a provider nor a named target`, "PROVIDER:REF:"},
		{"dve:src", "linux", `"dve" is neither`, `did you mean "dev"?`},
		{"local:srv", "linux", "no absolute path", `write "local:srv:/absolute/path"`},
		{"docker:web:app", "linux", "no absolute path", `write "docker:web:app:/absolute/path"`},
		{"docker:", "linux", "no absolute path", `write "docker:REF:/absolute/path"`},
		{"ssh", "linux", "no path", "write ssh:REF:/absolute/path"},
		{"./a:b", "linux", "a path on this machine", "local:/path"},
		{"./dev:src", "linux", "a path on this machine", "PROVIDER"},
		{"../x", "linux", "a path on this machine", "PROVIDER"},
		{"/abs", "linux", "a path on this machine", "PROVIDER"},
		// kubernetes/kubernetes#101985, kubectl#1225
		{`C:\tmp\f`, "linux", "a path on this machine", "PROVIDER"},
		{"d:/x", "darwin", "a path on this machine", "PROVIDER"},
		{"D:x", "windows", "a path on this machine", "PROVIDER"},
		{"D:", "windows", "a path on this machine", "PROVIDER"},
		{"dev:..", "linux", `leaves the root "/workspace"`, "below the root"},
		{"dev:a/../../x", "linux", "leaves the root", "below the root"},
		{"dev:../workspace2", "linux", "leaves the root", "below the root"},
		{"dev:/workspace2", "linux", "leaves the root", "in full"},
		{"dev:/", "linux", "leaves the root", "in full"},
		{"rootrel:x", "linux", `the root "srv"`, "absolute"},
		{"lost:x", "linux", `unknown provider "kubernets"`, "sbsync providers"},
		{"local:/a\x00b", "linux", "NUL", "PROVIDER"},
		{"no\nsuch:/x", "linux", `no\nsuch`, "PROVIDER"},
	} {
		got, err := ParseTarget(tc.in, tc.goos, testNamed, isTestProvider)
		if err == nil {
			t.Errorf("ParseTarget(%q, %s) = %+v, want an error", tc.in, tc.goos, got)
			continue
		}
		checkTargetError(t, tc.in, err)
		if !strings.Contains(err.Error(), tc.want) || !strings.Contains(HintOf(err), tc.hint) {
			t.Errorf("ParseTarget(%q, %s): %v (%s); want %q (%s)", tc.in, tc.goos, err, HintOf(err), tc.want, tc.hint)
		}
	}
}

// checkTargetError: usage, one line, with a way out.
func checkTargetError(t *testing.T, in string, err error) {
	t.Helper()
	if KindOf(err) != Usage || HintOf(err) == "" || strings.Contains(err.Error()+HintOf(err), "\n") {
		t.Errorf("target %q: error %q of kind %v, hint %q", in, err, KindOf(err), HintOf(err))
	}
}

func TestIsHostPath(t *testing.T) {
	for _, tc := range []struct {
		in             string
		linux, windows bool
	}{
		{"./a:b", true, true}, {"../a", true, true}, {"/a", true, true}, {".", true, true}, {"..", true, true}, {"~/x", true, true},
		{`C:\tmp\f`, true, true}, {"d:/x", true, true}, {"C:f", false, true}, {"C:", false, true}, {`\\server\share`, true, true}, {`.\x`, true, true},
		{"src", false, false}, {".src", false, false}, {"..src", false, false}, {"dev:src", false, false}, {"local:/x", false, false}, {"1:/x", false, false}, {"é:/x", false, false}, {"", false, false},
	} {
		if got := IsHostPath(tc.in, "linux"); got != tc.linux {
			t.Errorf("IsHostPath(%q, linux) = %v", tc.in, got)
		}
		if got := IsHostPath(tc.in, "windows"); got != tc.windows {
			t.Errorf("IsHostPath(%q, windows) = %v", tc.in, got)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, seed := range []string{"local:/srv", "ssh:u@h:22:/x/", "dev:a/../b", "dev:..", `C:\x`, "docker::/:/", "top:..", "dev:/workspace/"} {
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, in string, windows bool) {
		goos := map[bool]string{false: "linux", true: "windows"}[windows]
		got, err := ParseTarget(in, goos, testNamed, isTestProvider)
		if err != nil {
			checkTargetError(t, in, err)
			return
		}
		if !path.IsAbs(got.Path) || path.Clean(got.Path) != got.Path || !isTestProvider(got.Provider) {
			t.Errorf("%q: %+v", in, got)
		}
		if got.Name != "" && got.Path != got.Root && !strings.HasPrefix(got.Path, strings.TrimSuffix(got.Root, "/")+"/") {
			t.Errorf("%q leaves the root: %+v", in, got)
		}
		full := got
		full.Name, full.Root = "", ""
		if again, err := ParseTarget(got.String(), goos, nil, isTestProvider); err != nil || again != full {
			t.Errorf("%q -> %q -> %+v, %v; want %+v", in, got, again, err, full)
		}
	})
}

type namedDriver struct {
	Driver
	name    string
	aliases []string
	hasRef  bool
}

func (d namedDriver) Name() string      { return d.name }
func (d namedDriver) Aliases() []string { return d.aliases }
func (d namedDriver) HasRef() bool      { return d.hasRef }

func testRegistry() *Registry {
	return NewRegistry(namedDriver{name: "local"}, namedDriver{name: "docker", hasRef: true, aliases: []string{"podman"}},
		namedDriver{name: "kubernetes", hasRef: true, aliases: []string{"k8s"}})
}

func TestRegistry(t *testing.T) {
	r := testRegistry()
	var names []string
	for _, d := range r.Drivers() {
		names = append(names, d.Name())
	}
	if !slices.Equal(names, []string{"docker", "kubernetes", "local"}) {
		t.Errorf("drivers in order %q", names)
	}
	if d, err := r.Lookup("k8s"); err != nil || d.Name() != "kubernetes" {
		t.Errorf("lookup of an alias: %v, %v", d, err)
	}
	_, err := r.Lookup("kubernets")
	checkTargetError(t, "kubernets", err)
	if !strings.Contains(HintOf(err), `did you mean "kubernetes"?`) {
		t.Errorf("hint %q", HintOf(err))
	}
	if _, err := new(Registry).Lookup("local"); KindOf(err) != Usage {
		t.Errorf("lookup in an empty registry: %v", err)
	}
}

func TestRegistryRefusesDefects(t *testing.T) {
	for name, d := range map[string]Driver{
		"name taken":   namedDriver{name: "docker"},
		"alias taken":  namedDriver{name: "new", aliases: []string{"k8s"}},
		"drive letter": namedDriver{name: "c"},
		"colon":        namedDriver{name: "a:b"},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			testRegistry().Register(d)
		}()
	}
}

func TestRegistryParse(t *testing.T) {
	r := testRegistry()
	got, d, err := r.Parse("podman:web:/app", "linux", nil)
	if err != nil || d.Name() != "docker" || got.Ref != "web" {
		t.Errorf("%+v, %v, %v", got, d, err)
	}
	for in, hint := range map[string]string{
		"docker:/app":        "write docker:NAME:/app",
		"docker::/app":       "write docker:NAME:/app",
		"local:x:/app":       "write local:/app",
		"local:app":          `write "local:/absolute/path"`,
		"local":              "write local:/absolute/path",
		"docker:app":         `write "docker:app:/absolute/path"`,
		"dokcer:web:/app":    `did you mean "docker"?`,
		"devv":               `did you mean "dev"?`,
		"something-else:/ab": "PROVIDER:REF:",
	} {
		_, _, err := r.Parse(in, "linux", testNamed)
		checkTargetError(t, in, err)
		if !strings.Contains(HintOf(err), hint) {
			t.Errorf("%q: hint %q, want %q", in, HintOf(err), hint)
		}
	}
}

func TestSuggest(t *testing.T) {
	words := []string{"daytona", "docker", "e2b", "k8s", "kubernetes", "local", "ssh"}
	for word, want := range map[string]string{
		"kubernets": "kubernetes", "kubernetse": "kubernetes", "Docker": "docker", "dokcer": "docker", "loc": "local", "e2c": "e2b",
		"dayton": "daytona", "kube": "kubernetes", "shs": "ssh", "banana": "", "x": "", "": "", "zzz": "", "local": "local",
	} {
		if got := Suggest(word, words); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := Suggest("a", slices.Sorted(maps.Keys(map[string]bool{"b": true}))); got != "" {
		t.Errorf("Suggest(a, [b]) = %q: nothing in common", got)
	}
}
