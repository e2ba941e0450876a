package confine

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

// hostPath turns a POSIX path into one of this host.
func hostPath(p string) string {
	if runtime.GOOS == "windows" && strings.HasPrefix(p, "/") {
		return `C:` + filepath.FromSlash(p)
	}
	return filepath.FromSlash(p)
}

func TestRoots(t *testing.T) {
	tests := []struct {
		name  string
		roots []string
		path  string
		clean string // "" means refused
	}{
		{"the root itself", []string{"/work"}, "/work", "/work"},
		{"below", []string{"/work"}, "/work/a/b", "/work/a/b"},
		{"trailing slash on the path", []string{"/work"}, "/work/a/", "/work/a"},
		{"trailing slash on the root", []string{"/work/"}, "/work", "/work"},
		{"unclean root", []string{"/work/./x/.."}, "/work/a", "/work/a"},
		{"unclean path", []string{"/work"}, "//work/./a//b", "/work/a/b"},
		{"second root", []string{"/a", "/b"}, "/b/c", "/b/c"},
		{"root / admits all", []string{"/"}, "/etc/passwd", "/etc/passwd"},
		{"root / admits /", []string{"/"}, "/", "/"},
		{"dots that stay", []string{"/work"}, "/work/a/../b", "/work/b"},
		{"dots that come back", []string{"/work"}, "/work/../work/b", "/work/b"},
		{"name that begins with dots", []string{"/work"}, "/work/..a", "/work/..a"},
		{"by segment", []string{"/work"}, "/workshop", ""},
		{"by segment, below", []string{"/work"}, "/workshop/x", ""},
		{"by segment, shorter", []string{"/workshop"}, "/work", ""},
		{"parent", []string{"/work/a"}, "/work", ""},
		{"dots that leave", []string{"/work"}, "/work/../etc", ""},
		{"dots that leave far", []string{"/work"}, "/work/../../../etc/passwd", ""},
		{"relative", []string{"/work"}, "work/a", ""},
		{"relative with root /", []string{"/"}, "a", ""},
		{"dot", []string{"/"}, ".", ""},
		{"empty", []string{"/"}, "", ""},
		{"NUL", []string{"/"}, "/work/a\x00b", ""},
		{"no roots", nil, "/work", ""},
		{"relative root", []string{"work", "."}, "/work", ""},
		{"empty root", []string{""}, "/work", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var host []string
			for _, root := range tt.roots {
				host = append(host, hostPath(root))
			}
			r := Roots{Sandbox: tt.roots, Host: host}
			clean, err := r.CheckSandbox(tt.path)
			checkRootsAnswer(t, "CheckSandbox", clean, err, tt.clean)
			clean, err = r.CheckHost(hostPath(tt.path))
			checkRootsAnswer(t, "CheckHost", clean, err, hostPath(tt.clean))
		})
	}
}

func checkRootsAnswer(t *testing.T, verb, clean string, err error, want string) {
	t.Helper()
	if clean != want || (err == nil) != (want != "") {
		t.Errorf("%s = %q, %v; want %q", verb, clean, err, want)
	}
	if err != nil && provider.KindOf(err) != provider.Confined {
		t.Errorf("%s: %v has kind %v", verb, err, provider.KindOf(err))
	}
}

func TestRootsSandboxIsPOSIX(t *testing.T) {
	r := Roots{Sandbox: []string{"/work"}}
	if clean, err := r.CheckSandbox(`/work/a\..\..\b`); clean != `/work/a\..\..\b` || err != nil {
		t.Errorf("a backslash is part of a name: %q, %v", clean, err)
	}
	if _, err := r.CheckSandbox("/Work"); err == nil {
		t.Error("case was ignored")
	}
}

func TestRootsErrorNamesTheRootNeeded(t *testing.T) {
	_, err := Roots{Sandbox: []string{"/work", "/srv"}}.CheckSandbox("/etc/app/conf")
	for _, want := range []string{`"/etc/app/conf"`, `"/work"`, `"/srv"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	for _, want := range []string{`--root "/etc/app/conf"`, `--root "/etc/app"`} {
		if hint := provider.HintOf(err); !strings.Contains(hint, want) {
			t.Errorf("hint %q lacks %s", hint, want)
		}
	}
}

func FuzzConfine(f *testing.F) {
	for _, s := range []string{"/work/a", "/work/../etc", "a/../b", "..", "/workshop", "//work//a/", "a\x00", "/work/..a", ""} {
		f.Add(s, "/work")
	}
	f.Add("/etc", "/")
	f.Add("/a/b/c", "/a/./b/../b/")
	f.Fuzz(func(t *testing.T, p, root string) {
		if CheckPath(p) == nil {
			if got := filepath.Clean(p); got != filepath.FromSlash(p) {
				t.Errorf("CheckPath(%q) passed a path that cleans to %q", p, got)
			}
			if !filepath.IsLocal(p) && runtime.GOOS != "windows" {
				t.Errorf("CheckPath(%q) passed a path that is not local", p)
			}
		}
		r := Roots{Host: []string{root}, Sandbox: []string{root}}
		for verb, check := range map[string]func(string) (string, error){"host": r.CheckHost, "sandbox": r.CheckSandbox} {
			clean, err := check(p)
			if err != nil {
				if clean != "" || provider.KindOf(err) != provider.Confined {
					t.Errorf("%s: %q, %v", verb, clean, err)
				}
				continue
			}
			if again, err := check(clean); again != clean || err != nil {
				t.Errorf("%s: %q is admitted as %q, which is %q, %v", verb, p, clean, again, err)
			}
			assertBelow(t, filepath.ToSlash(clean), filepath.ToSlash(filepath.Clean(root)))
		}
	})
}

// assertBelow compares element by element, unlike the code under test.
func assertBelow(t *testing.T, clean, root string) {
	t.Helper()
	have, want := elements(clean), elements(root)
	for i, elem := range want {
		if i >= len(have) || !strings.EqualFold(have[i], elem) {
			t.Fatalf("%q is not below %q", clean, root)
		}
	}
	for _, elem := range have {
		if elem == ".." || elem == "." || strings.ContainsRune(elem, 0) {
			t.Fatalf("%q is not clean", clean)
		}
	}
}

func elements(p string) (elems []string) {
	for elem := range strings.SplitSeq(p, "/") {
		if elem != "" {
			elems = append(elems, elem)
		}
	}
	return elems
}
