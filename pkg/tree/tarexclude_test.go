package tree

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// needGNUTar fails unless tar is GNU tar, whose --exclude the contract names.
func needGNUTar(t testing.TB) {
	t.Helper()
	out, err := exec.Command("tar", "--version").Output()
	if err != nil || !strings.Contains(string(out), "GNU tar") {
		t.Fatalf("these tests compare with GNU tar, which must be in PATH as tar: %v", err)
	}
	t.Setenv("LC_ALL", "C")
	t.Setenv("TAR_OPTIONS", "")
}

// tarLists returns the members, directories too, that tar archives of root.
func tarLists(t testing.TB, root string, excludes ...string) []string {
	t.Helper()
	args := []string{"-C", root, "--quoting-style=literal", "--null", "-cvf", "/dev/null"}
	for _, e := range excludes {
		args = append(args, "--exclude="+e)
	}
	var paths []string
	for p := range strings.Lines(runWith(t, root, "", "tar", append(args, ".")...)) {
		p = strings.Trim(strings.TrimSuffix(p, "\n"), "/")
		if p = strings.TrimPrefix(p, "./"); p != "." && p != "" {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// filterTar returns the paths of all entries that tar excludes leave.
func filterTar(t testing.TB, s *Snapshot, excludes ...string) []string {
	t.Helper()
	s, err := Filter(s, mustRules(t, RuleOptions{TarExclude: excludes}), nil)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range s.Entries {
		paths = append(paths, e.Path)
	}
	slices.Sort(paths)
	return paths
}

func TestTarExcludeTable(t *testing.T) {
	needGNUTar(t)
	root := realTemp(t)
	plantEmpty(t, root, "a", "b/a", "b/c/a/x", "ab", "b/ab.o", "x.o", "[a", "a*", "sp ace", "c/.git/HEAD", "q\\", "a-b", "dir/sub/f", "\xff", "ca/t")
	whole := mustScan(t, root, ScanOptions{})
	tests := []struct {
		pattern string
		out     []string // some of what must be excluded
		in      []string // and of what must not
	}{
		{"a", []string{"a", "b/a", "b/c/a/x"}, []string{"ab", "ca/t"}},
		{"*.o", []string{"b/ab.o", "x.o"}, []string{"ab"}},
		{"b/*a", []string{"b/a", "b/c/a"}, []string{"a"}},
		{"b*x", []string{"b/c/a/x"}, []string{"b/a"}},
		{"c/a", []string{"b/c/a"}, []string{"a", "b/a"}},
		{"a/", nil, []string{"a", "b/a"}},
		{"./a", []string{"a"}, []string{"b/a"}},
		{"/a", nil, []string{"a", "b/a"}},
		{"*/a", []string{"a", "b/a", "b/c/a"}, []string{"ab"}},
		{"b/?", []string{"b/a", "b/c"}, []string{"a", "b/ab.o"}},
		{"?", []string{"a", "ab", "dir"}, nil}, // it matches the "." of "./a"
		{"[a-b]", []string{"a", "b"}, []string{"c"}},
		{"b/[!a]", []string{"b/c"}, []string{"a", "b/a"}},
		{"[a", []string{"[a"}, []string{"a"}},
		{"a\\*", []string{"a*"}, []string{"ab"}},
		{"q\\", []string{"q\\"}, []string{"a"}},
		{"*\\", nil, []string{"q\\"}},
		{"", nil, []string{"a"}},
		{"*", []string{"a", "b", "dir"}, nil},
		{".", []string{"a", "b", "dir"}, nil},
		{"dir/sub", []string{"dir/sub", "dir/sub/f"}, []string{"dir"}},
		{"sub*", []string{"dir/sub", "dir/sub/f"}, []string{"dir"}},
		{"!a", nil, []string{"a", "b"}},
		{"**/a", []string{"a", "b/a"}, []string{"ab"}},
	}
	for _, test := range tests {
		t.Run(test.pattern, func(t *testing.T) {
			got := filterTar(t, whole, test.pattern)
			equalPaths(t, got, tarLists(t, root, test.pattern))
			for _, p := range test.out {
				if slices.Contains(got, p) {
					t.Errorf("%q is not excluded", p)
				}
			}
			for _, p := range test.in {
				if !slices.Contains(got, p) {
					t.Errorf("%q is excluded", p)
				}
			}
		})
	}
}

var tarPatternParts = []string{
	"a", "b", "c", "a", "b", "c", "/", "/", "*", "*", "**", "?", "[ab]", "[!a]", "[^b]", "[a-c]", "[[:alpha:]]", "[]a]",
	"[a-]", "[\\]a]", "[--a]", "[a", "[[:x:]]", "[[:", "[[a:]", "[[=a=]]", "[[.a.]-c]", "[[.", "[[=a", "[", "]",
	"\\a", "\\*", "\\", ".", "./", "\xff", "[\x80-\xff]", "[/]", "[!/]", "[c-a]", "-", "[[:zz:]]", "[a\\", "[a-",
}

// TestTarExcludeRandom compares random patterns with GNU tar over one tree.
func TestTarExcludeRandom(t *testing.T) {
	needGNUTar(t)
	rng := rand.New(rand.NewPCG(3, 4))
	root := realTemp(t)
	for i := range 40 {
		path := randomPath(rng)
		plantEmpty(t, root, fmt.Sprintf("%d/%s/f", i%10, path), "n/"+strings.ReplaceAll(path, "/", ""))
	}
	for _, p := range []string{"a", "b/", "c/a", "c/b", "c/c/a", "ab", "abc/a", "[a/b", "[[ab", "]", "*"} {
		if strings.HasSuffix(p, "/") {
			mustMkdir(t, root+"/"+p)
		} else {
			plantEmpty(t, root, "m/"+p)
		}
	}
	whole := mustScan(t, root, ScanOptions{})
	partly := 0
	for range 300 {
		var b strings.Builder
		b.WriteString([]string{"", "a", "b", "/"}[rng.IntN(4)])
		for range 1 + rng.IntN(4) {
			b.WriteString(tarPatternParts[rng.IntN(len(tarPatternParts))])
		}
		got, want := filterTar(t, whole, b.String()), tarLists(t, root, b.String())
		if !slices.Equal(got, want) {
			t.Errorf("pattern %q", b.String())
			equalPaths(t, got, want)
		}
		if len(got) > 0 && len(got) < len(whole.Entries) {
			partly++
		}
	}
	if partly < 40 {
		t.Errorf("only %d patterns tell entries apart: the comparison says little", partly)
	}
}
