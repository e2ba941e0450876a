package tree

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

// TestIgnoreTables holds what is public knowledge of gitignore, each case
// checked against the real git too.
func TestIgnoreTables(t *testing.T) {
	tests := []struct {
		name   string
		ignore map[string]string
		tree   []string
		want   []string // besides the ignore files
	}{
		// B84: zauberzeug/livesync#36, syncthing/syncthing#10175, jahwag/ctxsync#62
		{"no way back below an excluded directory", map[string]string{".gitignore": "build/\n!build/keep\n"},
			[]string{"build/keep", "build/x", "src"}, []string{"src"}},
		{"the contents excluded, one taken back", map[string]string{".gitignore": "build/*\n!build/keep\n"},
			[]string{"build/keep", "build/x"}, []string{"build/keep"}},
		{"white list", map[string]string{".gitignore": "*\n!lib/\n!lib/**/*.dart\n!.gitignore\n"},
			[]string{"a", "lib/a.dart", "lib/x/b.dart", "lib/c.txt"}, []string{"lib/a.dart"}},
		{"white list that walks", map[string]string{".gitignore": "*\n!*/\n!lib/**/*.dart\n!.gitignore\n"},
			[]string{"a", "lib/a.dart", "lib/x/b.dart", "lib/c.txt"}, []string{"lib/a.dart", "lib/x/b.dart"}},
		{"anchored, a child taken back", map[string]string{".gitignore": "/foo/bar\n!/foo/bar/baz\n"},
			[]string{"foo/bar/baz", "foo/x", "x/foo/bar"}, []string{"foo/x", "x/foo/bar"}},
		// B83: lightdash/lightdash#26594
		{"nested ignore files", map[string]string{".gitignore": "*.log\n", "a/.gitignore": "!keep.log\ntmp\n", "a/b/.gitignore": "*\n!.gitignore\n"},
			[]string{"x.log", "a/keep.log", "a/x.log", "a/tmp", "a/b/c", "tmp"}, []string{"a/keep.log", "tmp"}},
		{"a trailing slash wants a directory", map[string]string{".gitignore": "x/\n"}, []string{"x", "a/x/y"}, []string{"x"}},
		{"a slash inside anchors", map[string]string{".gitignore": "a/x\n"}, []string{"a/x", "b/a/x"}, []string{"b/a/x"}},
		{"double stars", map[string]string{".gitignore": "**/p\nq/**\nr/**/s\n"},
			[]string{"p", "a/p", "q/a", "q/b/c", "x/q/a", "r/s", "r/a/b/s", "t/r/s"}, []string{"x/q/a", "t/r/s"}},
		{"stars within an element", map[string]string{".gitignore": "/a*b**c\n"},
			[]string{"abc", "axbyc", "ab/c", "a/bc"}, []string{"ab/c", "a/bc"}},
		{"stars after a literal beginning", map[string]string{".gitignore": "/foo**/bar\n"},
			[]string{"foo/bar", "foo/a/bar", "foox/bar", "x/foo/bar", "foobar"}, []string{"x/foo/bar"}},
		{"classes", map[string]string{".gitignore": "[a-c]1\n[!a-c]2\n[^a-c]3\n[]x]4\n[[:digit:]]5\n[\\]]6\n[a-]7\n"},
			[]string{"a1", "d1", "a2", "d2", "a3", "d3", "]4", "x4", "y4", "55", "a5", "]6", "-7", "b7"},
			[]string{"d1", "a2", "a3", "y4", "a5", "b7"}},
		{"malformed classes match nothing", map[string]string{".gitignore": "[a\n[[:foo:]]b\nc[\n[a-\\\n"},
			[]string{"[a", "a", "ab", "c["}, []string{"[a", "a", "ab", "c["}},
		{"escapes", map[string]string{".gitignore": "\\#a\n\\!b\nc\\*d\n\\e\nf\\\n"},
			[]string{"#a", "!b", "c*d", "cxd", "e", "f", "f\\"}, []string{"cxd", "f", "f\\"}},
		{"comments", map[string]string{".gitignore": "#a\n #b\n"}, []string{"#a", " #b", "#b"}, []string{"#a", "#b"}},
		{"spaces", map[string]string{".gitignore": "a  \nb\\ \n c\nd\\  \ne f\n"},
			[]string{"a", "a  ", "b", "b ", "c", " c", "d ", "d  ", "e f"}, []string{"a  ", "b", "c", "d  "}},
		{"tabs stay", map[string]string{".gitignore": "a\t\n"}, []string{"a", "a\t"}, []string{"a"}},
		{"lines that end in CRLF", map[string]string{".gitignore": "a\r\nb/\r\n\r\nc \r\nd\r\r\n"},
			[]string{"a", "b/x", "c", "c ", "d", "d\r"}, []string{"c ", "d"}},
		{"a byte order mark", map[string]string{".gitignore": "\ufeffa\nb\n"}, []string{"a", "b", "c"}, []string{"c"}},
		{"no newline at the end", map[string]string{".gitignore": "a\nb"}, []string{"a", "b"}, nil},
		{"a NUL ends a pattern", map[string]string{".gitignore": "a\x00b\nc\n"}, []string{"a", "ab", "c"}, []string{"ab"}},
		{"empty patterns", map[string]string{".gitignore": "\n/\n//\n!\n!/\n"}, []string{"a", "b/c"}, []string{"a", "b/c"}},
		{"double negation", map[string]string{".gitignore": "a\n!!a\n"}, []string{"a", "!a"}, []string{"!a"}},
		{"bytes that are not UTF-8", map[string]string{".gitignore": "\xff*\n?b\n[\xf0-\xff]c\n"},
			[]string{"\xff\xfe", "\xfeb", "\xf8c", "\xc3\xa9b"}, []string{"\xc3\xa9b"}},
		{"case counts", map[string]string{".gitignore": "A\n"}, []string{"A", "a"}, []string{"a"}},
		{"order decides", map[string]string{".gitignore": "!a\na\nb\n!b\n"}, []string{"a", "b"}, []string{"b"}},
		{"an empty ignore file", map[string]string{".gitignore": ""}, []string{"a"}, []string{"a"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			isolate(t)
			root := realTemp(t)
			initRepo(t, root)
			plantEmpty(t, root, test.tree...)
			plant(t, root, test.ignore)
			got := carried(scanGit(t, root))
			equalPaths(t, slices.DeleteFunc(slices.Clone(got), func(p string) bool { return Base(p) == gitIgnoreName }), test.want)
			equalPaths(t, got, gitLists(t, root))
		})
	}
}

// walk decides about path the way a scan would: every directory on the way is
// entered first.
func walk(t testing.TB, rules *Rules, path string, isDir bool, files map[string]string) (excluded bool) {
	t.Helper()
	enter := func(dir string) {
		r, err := rules.Enter(dir, func(name string) ([]byte, bool, error) {
			data, ok := files[join(dir, name)]
			return []byte(data), ok, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		rules = r
	}
	enter("")
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if rules.Excluded(path[:i], true) {
			return true
		}
		enter(path[:i])
	}
	return rules.Excluded(path, isDir)
}

// TestIgnoreRandom compares thousands of random patterns with git: each is the
// ignore file of a directory of its own, so that one git answers for all.
func TestIgnoreRandom(t *testing.T) {
	isolate(t)
	root := realTemp(t)
	initRepo(t, root)
	rng := rand.New(rand.NewPCG(1, 2))
	const rounds = 1500
	files, queries := map[string]string{}, []string{}
	for i := range rounds {
		dir := fmt.Sprintf("d%d", i)
		var lines []string
		for range 1 + rng.IntN(3) {
			lines = append(lines, randomPattern(rng))
		}
		files[dir+"/.gitignore"] = strings.Join(lines, "\n")
		for range 25 {
			queries = append(queries, dir+"/"+randomPath(rng))
		}
	}
	plant(t, root, files)
	answers := checkIgnore(t, root, queries)
	rules := mustRules(t, RuleOptions{IgnoreFiles: []string{gitIgnoreName}})
	excluded := 0
	for i, q := range queries {
		got := walk(t, rules, q, false, files)
		if got != answers[i] {
			dir, _, _ := strings.Cut(q, "/")
			t.Errorf("patterns %q, path %q: excluded %v, but git says %v", files[dir+"/.gitignore"], q, got, answers[i])
		}
		if got {
			excluded++
		}
	}
	if excluded < len(queries)/20 || excluded > len(queries)*19/20 {
		t.Errorf("%d of %d paths are excluded: the comparison says little", excluded, len(queries))
	}
}

// checkIgnore asks git about paths, which need not exist.
func checkIgnore(t testing.TB, root string, paths []string) []bool {
	t.Helper()
	out := runWith(t, root, strings.Join(paths, "\x00")+"\x00", "git", "check-ignore", "--no-index", "-z", "-v", "-n", "--stdin")
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if len(fields) != 4*len(paths) {
		t.Fatalf("git check-ignore gave %d fields for %d paths", len(fields), len(paths))
	}
	answers := make([]bool, len(paths))
	for i := range paths {
		answers[i] = fields[4*i] != "" && !strings.HasPrefix(fields[4*i+2], "!")
	}
	return answers
}

var patternParts = []string{
	"a", "b", "c", "a", "b", "/", "/", "*", "**", "**/", "/**", "/**/", "?", "***", "[ab]", "[!a]", "[^b]", "[a-c]",
	"[[:alpha:]]", "[[:upper:]b]", "[]a]", "[a-]", "[\\]a]", "[--a]", "[a", "[[:x:]]", "[[:", "[[a:]", "\\a", "\\*", "\\", "\\/",
	".", " ", "A", "\xff", "[\x80-\xff]", "[/]", "[!/]", "[c-a]",
}

func randomPattern(rng *rand.Rand) string {
	var b strings.Builder
	if rng.IntN(6) == 0 {
		b.WriteString("!")
	}
	for range 1 + rng.IntN(6) {
		b.WriteString(patternParts[rng.IntN(len(patternParts))])
	}
	if rng.IntN(8) == 0 {
		b.WriteString("/")
	}
	return b.String()
}

var nameParts = []string{"a", "b", "c", "a", "b", "c", "A", "ab", "[a", ".a", "a ", "\xff", "*", "]", "-", "\\"}

func randomPath(rng *rand.Rand) string {
	var elements []string
	for range 1 + rng.IntN(4) {
		name := nameParts[rng.IntN(len(nameParts))]
		if rng.IntN(3) == 0 {
			name += nameParts[rng.IntN(len(nameParts))]
		}
		elements = append(elements, name)
	}
	return strings.Join(elements, "/")
}

func TestExcludePrecedence(t *testing.T) {
	files := map[string]string{
		".one": "x\n!y\nd/\n", ".two": "!x\ny\n",
		"sub/.one": "z\n", "sub/.two": "!z\n",
		"deep/.one": "!y\n",
	}
	tests := []struct {
		name    string
		exclude []string
		tar     []string
		path    string
		isDir   bool
		want    bool
	}{
		{"nothing said", nil, nil, "free", false, false},
		{"later file name wins over the earlier", nil, nil, "x", false, false},
		{"and the other way", nil, nil, "y", false, true},
		{"also in a deeper directory", nil, nil, "sub/z", false, false},
		{"a deeper file wins whatever its name", nil, nil, "deep/y", false, false},
		{"--exclude wins over all files", []string{"x"}, nil, "x", false, true},
		{"--exclude takes back", []string{"!y"}, nil, "y", false, false},
		{"--exclude takes a directory back", []string{"!d"}, nil, "d", true, false},
		{"but not what is below an excluded one", []string{"!d/f"}, nil, "d/f", false, true},
		{"later --exclude wins", []string{"x", "!x"}, nil, "x", false, false},
		{"anchored --exclude", []string{"/free"}, nil, "sub/free", false, false},
		{"--exclude has no comments", []string{"#x"}, nil, "#x", false, true},
		{"tar excludes win over --exclude", []string{"!x"}, []string{"x"}, "x", false, true},
		{"tar excludes cross directories", nil, []string{"s*b"}, "sub/a/b", false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rules := mustRules(t, RuleOptions{Exclude: test.exclude, TarExclude: test.tar, IgnoreFiles: []string{".one", ".two"}})
			if got := walk(t, rules, test.path, test.isDir, files); got != test.want {
				t.Errorf("excluded(%q) = %v, want %v", test.path, got, test.want)
			}
		})
	}
}

func TestBadExcludeIsNamed(t *testing.T) {
	for _, pattern := range []string{"", "/", "!", "a[", "[[:nope:]]", "x\\", "a\x00b", "!x[z/"} {
		_, err := NewRules(RuleOptions{Exclude: []string{"fine", pattern}})
		if provider.KindOf(err) != provider.Usage || !strings.Contains(err.Error(), fmt.Sprintf("%q", pattern)) {
			t.Errorf("exclude %q: error %v, want one of kind usage that names it", pattern, err)
		}
	}
}

func TestNoDefaultExcludes(t *testing.T) {
	var none *Rules
	for _, path := range []string{".git", "node_modules", "dist", ".DS_Store", "x~", ".env", "__pycache__"} {
		for _, isDir := range []bool{false, true} {
			if walk(t, mustRules(t, RuleOptions{}), path, isDir, nil) || walk(t, none, path, isDir, nil) {
				t.Errorf("%q is excluded although nothing said so", path)
			}
		}
	}
}

func TestEnterReportsReadErrors(t *testing.T) {
	rules := mustRules(t, RuleOptions{IgnoreFiles: []string{".ignore"}})
	boom := errors.New("boom")
	_, err := rules.Enter("", func(string) ([]byte, bool, error) { return nil, false, boom })
	if !errors.Is(err, boom) {
		t.Errorf("error %v, want that of read", err)
	}
	long := []byte(strings.Repeat("*a", maxPattern))
	_, err = rules.Enter("", func(string) ([]byte, bool, error) { return long, true, nil })
	if err == nil || !strings.Contains(err.Error(), `".ignore"`) {
		t.Errorf("a pattern of %d bytes: error %v, want one that names the file", len(long), err)
	}
}

// TestMatchIsNotExponential would not end with a backtracking matcher.
func TestMatchIsNotExponential(t *testing.T) {
	text := strings.Repeat("a", 4000)
	for _, pattern := range []string{strings.Repeat("*a", 100) + "b", strings.Repeat("**/", 100) + "b", strings.Repeat("*?", 200) + "[b]"} {
		if globMatches(pattern, text, false) || globMatches(pattern, strings.Repeat("a/", 2000), false) {
			t.Errorf("pattern %.20q... matches", pattern)
		}
	}
	if compileTarExcludes([]string{strings.Repeat("*a", 100) + "b"}).excluded(text) {
		t.Error("tar pattern matches")
	}
}

func TestLongPatterns(t *testing.T) {
	for _, n := range []int{62, 63, 64, 65, 127, 128, 254, 255, 256, 257, 1000} {
		pattern, text := strings.Repeat("?", n), strings.Repeat("x", n)
		if !globMatches(pattern, text, false) || globMatches(pattern, text+"x", false) || globMatches(pattern, text[1:], false) {
			t.Errorf("pattern of %d tokens mismatches", n)
		}
	}
}
