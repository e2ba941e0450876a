package tree

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestGitRandomTrees compares scans of random repositories with git: ignore
// files at every level, tracked files among the ignored, excludes in all of
// git's places, from the top and from a directory below.
func TestGitRandomTrees(t *testing.T) {
	home := isolate(t)
	rng := rand.New(rand.NewPCG(5, 6))
	versions := []string{"2", "3", "4"}
	for round := range 40 {
		root := filepath.Join(home, fmt.Sprintf("r%d", round))
		initRepo(t, root)
		ignoreCase := rng.IntN(4) == 0
		runGit(t, root, "config", "core.ignoreCase", strconv.FormatBool(ignoreCase))
		var dirs []string
		for range 25 {
			path := safePath(rng)
			if ignoreCase { // names that differ in case only are for other systems
				path = lowerString(path)
			}
			if os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755) == nil {
				os.WriteFile(filepath.Join(root, path), nil, 0o644)
				dirs = append(dirs, filepath.Dir(path))
			}
		}
		// What is there now is tracked, all or some of it.
		runGit(t, root, "update-index", "--index-version", versions[rng.IntN(3)])
		if rng.IntN(3) > 0 {
			runGit(t, root, "add", "-f", "--", dirs[rng.IntN(len(dirs))])
		}
		for range 4 {
			path := filepath.Join(root, dirs[rng.IntN(len(dirs))], gitIgnoreName)
			if err := os.WriteFile(path, []byte(randomIgnore(rng)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		plant(t, home, map[string]string{
			fmt.Sprintf("r%d/.git/info/exclude", round): randomIgnore(rng), "xdg/git/ignore": randomIgnore(rng),
		})
		sameAsGit(t, root)
		below := filepath.Join(root, dirs[rng.IntN(len(dirs))])
		if !rootIgnored(t, root, below) {
			sameAsGit(t, below)
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
		os.Remove(filepath.Join(home, "xdg/git/ignore"))
	}
}

// rootIgnored says whether git ignores dir or something above it: then what
// git lists is not what we carry (B09).
func rootIgnored(t testing.TB, top, dir string) bool {
	rel, err := filepath.Rel(top, dir)
	if err != nil {
		t.Fatal(err)
	}
	return rel != "." && checkIgnore(t, top, []string{rel + "/"})[0]
}

func safePath(rng *rand.Rand) string {
	for {
		p := randomPath(rng)
		if !strings.Contains("/"+p+"/", "/./") && !strings.Contains(p, "..") {
			return p
		}
	}
}

func randomIgnore(rng *rand.Rand) string {
	var b strings.Builder
	for range rng.IntN(4) {
		pattern := randomPattern(rng)
		if pattern == "*" || pattern == "**" { // tells nothing apart
			continue
		}
		b.WriteString(pattern + "\n")
	}
	return b.String()
}

func TestGitPlaces(t *testing.T) {
	home := isolate(t)
	root := filepath.Join(home, "repo")
	initRepo(t, root)
	plantEmpty(t, root, "a.global", "a.info", "a.log", "keep.global", "sub/a.log", "sub/keep.log", "sub/deep/a.tmp", "sub/deep/x")
	plant(t, root, map[string]string{
		".git/info/exclude": "*.info\n!keep.global\n", ".gitignore": "*.log\n/sub/deep/x\n", "sub/.gitignore": "!keep.log\n*.tmp\n",
	})
	plant(t, home, map[string]string{"xdg/git/ignore": "*.global\n"})
	sameAsGit(t, root)
	sameAsGit(t, filepath.Join(root, "sub"))
	sameAsGit(t, filepath.Join(root, "sub/deep"))
	equalPaths(t, carried(scanGit(t, root)), []string{".gitignore", "keep.global", "sub/.gitignore", "sub/keep.log"})
	if got := carried(scanGit(t, filepath.Join(root, "sub/deep"))); len(got) != 0 {
		t.Errorf("sub/deep carries %q, want nothing", got)
	}
	link := filepath.Join(home, "link")
	if err := os.Symlink(filepath.Join(root, "sub"), link); err != nil {
		t.Fatal(err)
	}
	equalPaths(t, carried(scanGit(t, link)), []string{".gitignore", "keep.log"})
}

func TestGitExcludesFile(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string // below home
	}{
		{"default without XDG_CONFIG_HOME set", map[string]string{".config/git/ignore": "*.x\n"}},
		{"in ~/.gitconfig", map[string]string{".gitconfig": "[core]\n\texcludesFile = ~/my ignore # comment\n", "my ignore": "*.x\n"}},
		{"quoted", map[string]string{".gitconfig": "[Core]\nEXCLUDESFILE=\"~/a\\\"b#c\"\n", "a\"b#c": "*.x\n"}},
		{"continued", map[string]string{".gitconfig": "[core] excludesfile = ~/\\\nign\n", "ign": "*.x\n"}},
		{"last one wins", map[string]string{".gitconfig": "[core]\nexcludesfile = ~/one\nexcludesfile = ~/two\n", "one": "*.y\n", "two": "*.x\n"}},
		{"the repository's config is stronger", map[string]string{".gitconfig": "[core]\nexcludesfile = ~/one\n", "one": "*.y\n", "repo/.git/config": "[core]\nexcludesfile = ~/two\n", "two": "*.x\n"}},
		{"relative to the top", map[string]string{"repo/.git/config": "[core]\nexcludesfile = ign\n", "repo/ign": "*.x\n"}},
		{"emptied", map[string]string{".gitconfig": "[core]\nexcludesfile =\n", ".config/git/ignore": "*.x\n"}},
		{"null device", map[string]string{".gitconfig": "[core]\nexcludesfile = /dev/null\n", ".config/git/ignore": "*.x\n"}},
		{"missing", map[string]string{".gitconfig": "[core]\nexcludesfile = ~/none\n"}},
		{"CRLF and BOM", map[string]string{".gitconfig": "\ufeff[core]\r\n\texcludesfile = ~/one\r\n", "one": "*.x\r\n"}},
		{"another subsection", map[string]string{".gitconfig": "[core \"x\"]\nexcludesfile = ~/one\n", "one": "*.x\n"}},
		{"include", map[string]string{".gitconfig": "[include]\npath = more\n", "more": "[core]\nexcludesfile = ~/one\n", "one": "*.x\n"}},
		{"include that is missing", map[string]string{".gitconfig": "[include]\npath = more\n"}},
		{"includeIf gitdir", map[string]string{".gitconfig": "[includeIf \"gitdir:~/repo/\"]\npath = more\n", "more": "[core]\nexcludesfile = ~/one\n", "one": "*.x\n"}},
		{"includeIf gitdir relative", map[string]string{".gitconfig": "[includeIf \"gitdir:./re*/.git\"]\npath = more\n", "more": "[core]\nexcludesfile = ~/one\n", "one": "*.x\n"}},
		{"includeIf gitdir anywhere", map[string]string{".gitconfig": "[includeIf \"gitdir/i:REPO/\"]\npath = more\n", "more": "[core]\nexcludesfile = ~/one\n", "one": "*.x\n"}},
		{"includeIf gitdir elsewhere", map[string]string{".gitconfig": "[includeIf \"gitdir:~/work/\"]\npath = more\n", "more": "[core]\nexcludesfile = ~/one\n", "one": "*.x\n"}},
		{"includeIf onbranch", map[string]string{".gitconfig": "[includeIf \"onbranch:ma*\"]\npath = more\n", "more": "[core]\nexcludesfile = ~/one\n", "one": "*.x\n"}},
		{"includeIf onbranch other", map[string]string{".gitconfig": "[includeIf \"onbranch:dev/\"]\npath = more\n", "more": "[core]\nexcludesfile = ~/one\n", "one": "*.x\n"}},
		{"work tree config", map[string]string{"repo/.git/config": "[core]\nrepositoryformatversion = 1\n[extensions]\nworktreeConfig\n", "repo/.git/config.worktree": "[core]\nexcludesfile = ~/one\n", "one": "*.x\n"}},
		{"comments everywhere", map[string]string{".gitconfig": "; a\n[core] # b\n# c\nbare \n excludesfile = ~/one ; e\n", "one": "*.x\n"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			home := isolate(t)
			t.Setenv("XDG_CONFIG_HOME", "")
			root := filepath.Join(home, "repo")
			initRepo(t, root)
			plant(t, home, test.files)
			if test.name == "comments everywhere" { // "bare" is true in it
				runGit(t, root, "config", "core.bare", "false")
			}
			plantEmpty(t, root, "a.x", "a.y", "a.z")
			sameAsGit(t, root)
		})
	}
}

func TestGitConfigFromEnvironment(t *testing.T) {
	home := isolate(t)
	root := filepath.Join(home, "repo")
	initRepo(t, root)
	plantEmpty(t, root, "a.x", "a.y")
	plant(t, home, map[string]string{"one": "*.x\n", "two": "*.y\n", "conf": "[core]\nexcludesfile = ~/one\n"})
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(home, "conf"))
	sameAsGit(t, root)
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "core.excludesFile")
	t.Setenv("GIT_CONFIG_VALUE_0", "~/two")
	sameAsGit(t, root)
	equalPaths(t, carried(scanGit(t, root)), []string{"a.x"})
}

func TestBrokenRepositoriesAreErrors(t *testing.T) {
	tests := map[string]string{
		".git/config":                "[core\n",
		".git/index":                 "not an index, but long enough to be one",
		".gitconfig-of-home":         "[core]\nexcludesfile = \"x\n",
		".git/config\x00objects":     "[extensions]\nobjectformat = md5\n",
		".git/config\x00bool":        "[core]\nignorecase = perhaps\n",
		".git/config\x00self":        "[include]\npath = config\n",
		".git/config\x00bad escape":  "[core]\nexcludesfile = \\x\n",
		".git/config\x00no section":  "a = b\n",
		".git/config\x00no name":     "[core]\n= b\n",
		".git/config\x00no bracket":  "[core \"a\" x]\n",
		".git/config\x00open string": "[core \"a\n",
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			home := isolate(t)
			initRepo(t, home)
			name, _, _ = strings.Cut(name, "\x00")
			plant(t, home, map[string]string{strings.TrimSuffix(name, "-of-home"): content})
			if _, err := NewRules(RuleOptions{Git: true, Root: home}); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestGitWorktreesAndSubmodules(t *testing.T) {
	home := isolate(t)
	main, tree := filepath.Join(home, "main"), filepath.Join(home, "tree")
	initRepo(t, main)
	plantEmpty(t, main, "a.log", "sub/x")
	runGit(t, main, "add", ".")
	runGit(t, main, "commit", "-qm", "x")
	plant(t, main, map[string]string{".git/info/exclude": "*.log\n"})
	runGit(t, main, "worktree", "add", "-q", tree)
	plantEmpty(t, tree, "b.log", "new")
	sameAsGit(t, tree) // .git is a file, info/exclude is the main one's
	equalPaths(t, carried(scanGit(t, tree)), []string{"a.log", "sub/x", "new"})

	outer := filepath.Join(home, "outer")
	initRepo(t, outer)
	runGit(t, outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", main, "mod")
	plantEmpty(t, outer, "mod/new", "mod/n.log", "other")
	sameAsGit(t, outer)
	s := scanGit(t, outer)
	if len(s.Problems) != 1 || s.Problems[0].Path != "mod" || !errors.Is(s.Problems[0].Err, ErrNested) || !s.Problems[0].Skip {
		t.Errorf("problems %v, want one that skips %q", s.Problems, "mod")
	}
	sameAsGit(t, filepath.Join(outer, "mod"))

	// A submodule that is not populated is one still.
	if err := os.RemoveAll(filepath.Join(outer, "mod")); err != nil {
		t.Fatal(err)
	}
	mustMkdir(t, filepath.Join(outer, "mod"))
	if s := scanGit(t, outer); len(s.Problems) != 0 {
		t.Errorf("problems %q, want none for an empty directory", problemsOf(s))
	}
	plantEmpty(t, outer, "mod/new")
	sameAsGit(t, outer)
}

func TestGitNestedRepositories(t *testing.T) {
	home := isolate(t)
	root := filepath.Join(home, "repo")
	initRepo(t, root)
	initRepo(t, filepath.Join(root, "nested"))
	plantEmpty(t, root, "a", "nested/x", "fake/.git/x", "fake/y", "empty/.git/", "empty/z", "tracked/x", "tracked/y", "d/nested2/.git/", "d/nested2/x")
	initRepo(t, filepath.Join(root, "d/nested2"))
	runGit(t, root, "add", "tracked/x")
	initRepo(t, filepath.Join(root, "tracked"))
	initRepo(t, filepath.Join(root, "bare.git"), "--bare")
	plant(t, root, map[string]string{"dead/.git": "gitdir: ../nowhere\n", "dead/x": ""})
	plant(t, root, map[string]string{"live/.git": "gitdir: ../nested/.git\n", "live/x": ""})
	sameAsGit(t, root)
	var nested []string
	for _, p := range scanGit(t, root).Problems {
		if errors.Is(p.Err, ErrNested) && p.Skip {
			nested = append(nested, p.Path)
		}
	}
	if want := []string{"d/nested2", "live", "nested"}; !slices.Equal(nested, want) {
		t.Errorf("nested repositories %q, want %q", nested, want)
	}
	sameAsGit(t, filepath.Join(root, "nested"))
}

func TestGitDirectoryIsCarriedOnRequestOnly(t *testing.T) {
	root := filepath.Join(isolate(t), "repo")
	initRepo(t, root)
	plant(t, root, map[string]string{".gitignore": "*\n!.*\n", "x": ""})
	equalPaths(t, carried(scanGit(t, root)), []string{".gitignore"})
	s := mustScan(t, root, ScanOptions{Rules: mustRules(t, RuleOptions{Git: true, Root: root, Exclude: []string{"!.git"}})})
	for _, p := range []string{".git/HEAD", ".git/config", ".git/info/exclude", ".gitignore"} {
		if !slices.Contains(carried(s), p) {
			t.Errorf("%q is not carried", p)
		}
	}
	if slices.Contains(carried(s), "x") {
		t.Error("x is carried")
	}
}

// TestGitNamedRootIsCarried is B09: NVIDIA/OpenShell#1778 and
// fullsend-ai/fullsend#1699.
func TestGitNamedRootIsCarried(t *testing.T) {
	tests := []struct {
		ignore string
		root   string
		want   []string
	}{
		{"runs/\n", "runs", []string{"a", "b.log", "sub/c"}},
		{"runs/\n*.log\n", "runs", []string{"a", "sub/c"}},
		{"runs/\n", "runs/sub", []string{"c"}},
		{"*\n", "runs", []string{"a", "b.log", "sub/c"}},
		{"*\n!*.log\n", "runs", []string{"a", "b.log", "sub/c"}},
		{"/runs\nsub\n", "runs", []string{"a", "b.log"}},
		{"runs/**\n", "runs", nil}, // git does not call runs itself ignored
		{"runs/\n!runs/\nsub/\n", "runs", []string{"a", "b.log"}},
	}
	for _, test := range tests {
		t.Run(test.ignore+test.root, func(t *testing.T) {
			root := filepath.Join(isolate(t), "repo")
			initRepo(t, root)
			plantEmpty(t, root, "runs/a", "runs/b.log", "runs/sub/c", "x")
			plant(t, root, map[string]string{".gitignore": test.ignore})
			equalPaths(t, carried(scanGit(t, filepath.Join(root, test.root))), test.want)
		})
	}
}

func TestGitOutsideRepository(t *testing.T) {
	home := isolate(t)
	root := filepath.Join(home, "plain")
	plant(t, home, map[string]string{"xdg/git/ignore": "*.global\n"})
	plantEmpty(t, root, "a", "b.global", "d/x", "d/y")
	plant(t, root, map[string]string{".gitignore": "x\n"})
	equalPaths(t, carried(scanGit(t, root)), []string{".gitignore", "a", "d/y"})
	// A root that does not exist yet has rules, for a pull.
	rules := mustRules(t, RuleOptions{Git: true, Root: filepath.Join(root, "d/new/deeper")})
	if !walk(t, rules, "b.global", false, nil) || walk(t, rules, "b", false, nil) {
		t.Error("the rules of a missing root are wrong")
	}
	bare := filepath.Join(home, "bare")
	initRepo(t, bare, "--bare")
	if got := carried(scanGit(t, filepath.Join(bare, "info"))); !slices.Contains(got, "exclude") {
		t.Errorf("in a bare repository %q is carried", got)
	}
}

func TestGitMissingRootInRepository(t *testing.T) {
	root := filepath.Join(isolate(t), "repo")
	initRepo(t, root)
	plant(t, root, map[string]string{".gitignore": "/out/x\n*.log\n"})
	rules := mustRules(t, RuleOptions{Git: true, Root: filepath.Join(root, "out")})
	if !walk(t, rules, "x", false, nil) || !walk(t, rules, "d/a.log", false, nil) || walk(t, rules, "d/x", false, nil) {
		t.Error("the rules of the parents do not apply")
	}
}

func TestUserExcludesTrackedFiles(t *testing.T) {
	root := filepath.Join(isolate(t), "repo")
	initRepo(t, root)
	plantEmpty(t, root, "a.log", "build/a.log", "build/b", "c")
	runGit(t, root, "add", ".")
	plant(t, root, map[string]string{".gitignore": "build/\n*.log\n", ".sbsyncignore": "/build/b\n"})
	opt := RuleOptions{Git: true, Root: root, IgnoreFiles: []string{".sbsyncignore"}, Exclude: []string{"/a.log"}}
	s := mustScan(t, root, ScanOptions{Rules: mustRules(t, opt)})
	equalPaths(t, carried(s), []string{".gitignore", ".sbsyncignore", "build/a.log", "c"})
}
