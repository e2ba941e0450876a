package confine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

func TestCheckLinks(t *testing.T) {
	long := map[string]string{}
	for i := range MaxLinks {
		long[fmt.Sprintf("l%d", i)] = fmt.Sprintf("l%d", i+1)
	}
	tests := []struct {
		name    string
		links   map[string]string
		refused map[string]string // path to a part of the reason
	}{
		{"sibling", map[string]string{"a": "b"}, nil},
		{"the root itself", map[string]string{"a": ".", "d/b": ".."}, nil},
		{"up and down inside", map[string]string{"d/e/l": "../../x/y"}, nil},
		{"dangling inside", map[string]string{"a": "no/such/file"}, nil},
		{"directory link", map[string]string{"cur": "v1", "bin": "cur/bin"}, nil},
		{"odd slashes", map[string]string{"a": ".//b///", "b": "./."}, nil},
		// kubernetes/kubectl#1375: the layout of a secret mount.
		{"secret mount", map[string]string{"..data": "..2023_x", "ca.crt": "..data/ca.crt"}, nil},
		{"self", map[string]string{"a": "a"}, nil},
		{"pair", map[string]string{"l1": "l2", "l2": "l1"}, nil},
		{"circle that grows", map[string]string{"a": "a/x"}, nil},
		{"same link twice", map[string]string{"s": "d", "t": "s/../s/x"}, nil},

		{"absolute", map[string]string{"a": "/etc/passwd"}, map[string]string{"a": "absolute"}},
		{"absolute by another", map[string]string{"a": "/", "b": "a/etc"}, map[string]string{"a": "absolute", "b": "absolute"}},
		{"parent", map[string]string{"a": ".."}, map[string]string{"a": "above"}},
		{"parent, deep", map[string]string{"d/e/a": "../../.."}, map[string]string{"d/e/a": "above"}},
		{"out and back", map[string]string{"a": "../work/b"}, map[string]string{"a": "above"}},
		{"through a missing directory", map[string]string{"a": "no/../../x"}, map[string]string{"a": "above"}},
		{"empty", map[string]string{"a": ""}, map[string]string{"a": "empty"}},
		{"NUL", map[string]string{"a": "b\x00"}, map[string]string{"a": "NUL"}},
		{"long", map[string]string{"a": strings.Repeat("x/", 2048)}, map[string]string{"a": "4095"}},
		// CVE-2019-11251.
		{"below a link", map[string]string{"a": ".", "a/b": ".."}, map[string]string{"a/b": "below another link"}},
		{"far below a link", map[string]string{"a": "x", "a/b/c/d": "e"}, map[string]string{"a/b/c/d": "below another link"}},
		{"chain to the root and up", map[string]string{"s1": ".", "t": "s1/.."}, map[string]string{"t": "above"}},
		{"chain of three", map[string]string{"p": "d/..", "d/q": "../p", "t": "d/q/.."}, map[string]string{"t": "above"}},
		{"lexically inside", map[string]string{"d/e/up": "../..", "t": "d/e/up/.."}, map[string]string{"t": "above"}},
		{"another fails", map[string]string{"a": "b", "b": ".."}, map[string]string{"a": "above", "b": "above"}},
		{"escape before a circle", map[string]string{"a": "../a"}, map[string]string{"a": "above"}},
		{"root", map[string]string{"": "x"}, map[string]string{"": "root"}},
		{"bad path", map[string]string{"../a": "x"}, map[string]string{"../a": `".." element`}},
		{"too many links", long, nil},
		{"one more than too many", with(long, "l", "l0"), map[string]string{"l": "more than 40"}},
		{"explosion", map[string]string{
			"a": "b/b/b/b/b/b/b/b", "b": "c/c/c/c/c/c/c/c", "c": "d/d/d/d/d/d/d/d", "d": ".",
		}, map[string]string{"a": "more than 40", "b": "more than 40"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check := slices.Sorted(maps.Keys(tt.links))
			got := map[string]string{}
			for _, e := range checkLinks("linux", tt.links, check) {
				got[e.Path] = e.Reason
				if e.Target != tt.links[e.Path] || provider.KindOf(e) != provider.Confined {
					t.Errorf("%v: target %q, kind %v", e, e.Target, provider.KindOf(e))
				}
			}
			for p, want := range tt.refused {
				if !strings.Contains(got[p], want) || got[p] == "" {
					t.Errorf("%q: reason %q, want %q", p, got[p], want)
				}
			}
			if len(got) != len(tt.refused) {
				t.Errorf("refused %v, want %v", got, tt.refused)
			}
		})
	}
}

func with(m map[string]string, k, v string) map[string]string {
	m = maps.Clone(m)
	m[k] = v
	return m
}

func TestCheckLinksJudgesOnlyWhatIsAsked(t *testing.T) {
	links := map[string]string{"old": "/etc", "a": "x", "b": "old/y"}
	got := CheckLinks(links, []string{"b", "a", "missing"})
	if len(got) != 1 || got[0].Path != "b" {
		t.Fatalf("refused %v, want b alone", got)
	}
	var e *LinkError
	if err := error(got[0]); !errors.As(err, &e) || !strings.Contains(err.Error(), `"b" -> "old/y"`) {
		t.Errorf("text is %q", err)
	}
}

func TestCheckLinksPerHost(t *testing.T) {
	tests := []struct {
		links map[string]string
		path  string
		hosts string // that refuse it
	}{
		{map[string]string{"A": ".", "x": "a/.."}, "x", "windows darwin"},
		{map[string]string{"É": ".", "x": "é/.."}, "x", "windows darwin"},
		{map[string]string{"\u00e9": ".", "x": "e\u0301/.."}, "x", "windows darwin"},
		{map[string]string{"x": `..\y`}, "x", "windows"},
		{map[string]string{"x": `C:y`}, "x", "windows"},
		{map[string]string{"x": `\y`}, "x", "windows"},
		{map[string]string{"x": "a/.. /.. /y"}, "x", "windows"},
		{map[string]string{"x": "NUL"}, "x", "windows"},
	}
	for _, tt := range tests {
		for _, goos := range []string{"linux", "darwin", "windows"} {
			refused := len(checkLinks(goos, tt.links, []string{tt.path})) > 0
			if want := strings.Contains(tt.hosts, goos); refused != want {
				t.Errorf("%s: %q: refused %v, want %v", goos, tt.links, refused, want)
			}
		}
	}
}

// TestCheckLinksBoundsItsWork holds hostile links that would take 80,000 steps
// each.
func TestCheckLinksBoundsItsWork(t *testing.T) {
	links := map[string]string{"l0": "."}
	for i := 1; i < MaxLinks; i++ {
		links[fmt.Sprintf("l%d", i)] = strings.Repeat("a/../", 800) + fmt.Sprintf("l%d", i-1)
	}
	got := CheckLinks(links, []string{"l1", "l30"})
	if len(got) != 1 || got[0].Path != "l30" || !strings.Contains(got[0].Reason, "4096 names") {
		t.Errorf("refused %v, want l30 alone", got)
	}
}
