package tree

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// isolate keeps git, ours and the real one, from this machine's configuration.
// It returns a home directory.
func isolate(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatalf("these tests compare with the real git, which must be in PATH: %v", err)
	}
	home := realTemp(t)
	env := map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, "xdg"), "GIT_CONFIG_NOSYSTEM": "1",
		"LC_ALL": "C", "GIT_CEILING_DIRECTORIES": filepath.Dir(home),
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com",
		"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT"} {
		t.Setenv(name, "") // to have it restored
		os.Unsetenv(name)
	}
	return home
}

// realTemp is t.TempDir with links resolved.
func realTemp(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// runGit runs git in dir and returns its standard output.
func runGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return runWith(t, dir, "", "git", args...)
}

func runWith(t testing.TB, dir, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && slices.Contains(args, "check-ignore") {
		err = nil // it says that nothing is ignored
	}
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, errOut.String())
	}
	return out.String()
}

// initRepo makes an empty repository.
func initRepo(t testing.TB, dir string, args ...string) {
	t.Helper()
	mustMkdir(t, dir)
	runGit(t, dir, append([]string{"init", "-q", "-b", "main"}, args...)...)
}

// plant makes files with the given contents below root. A name that ends in
// "/" is a directory; a content that begins with "-> " makes a link.
func plant(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		if strings.HasSuffix(name, "/") {
			mustMkdir(t, path)
			continue
		}
		mustMkdir(t, filepath.Dir(path))
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// plantEmpty makes empty files.
func plantEmpty(t testing.TB, root string, names ...string) {
	t.Helper()
	files := map[string]string{}
	for _, n := range names {
		files[n] = ""
	}
	plant(t, root, files)
}

func mustMkdir(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func mustRules(t testing.TB, opt RuleOptions) *Rules {
	t.Helper()
	r, err := NewRules(opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustScan(t testing.TB, root string, opt ScanOptions) *Snapshot {
	t.Helper()
	s, err := Scan(t.Context(), root, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// carried returns the paths of a snapshot's files and links, sorted.
func carried(s *Snapshot) []string {
	paths := []string{}
	for _, e := range s.Entries {
		if e.Type == File || e.Type == Symlink {
			paths = append(paths, e.Path)
		}
	}
	slices.Sort(paths)
	return paths
}

// gitLists returns what `git ls-files -co --exclude-standard` lists in dir and
// is there as a file or link, sorted.
func gitLists(t testing.TB, dir string, args ...string) []string {
	t.Helper()
	out := runGit(t, dir, append([]string{"ls-files", "-z", "-co", "--exclude-standard"}, args...)...)
	paths := []string{}
	for p := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(dir, p))
		if p != "" && err == nil && !info.IsDir() {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// scanGit scans dir with git's rules.
func scanGit(t testing.TB, dir string) *Snapshot {
	t.Helper()
	return mustScan(t, dir, ScanOptions{Rules: mustRules(t, RuleOptions{Git: true, Root: dir})})
}

// sameAsGit fails unless a scan carries what git lists.
func sameAsGit(t testing.TB, dir string) {
	t.Helper()
	equalPaths(t, carried(scanGit(t, dir)), gitLists(t, dir))
}

func equalPaths(t testing.TB, got, want []string) {
	t.Helper()
	for _, p := range got {
		if !slices.Contains(want, p) {
			t.Errorf("carried, but should not be: %q", p)
		}
	}
	for _, p := range want {
		if !slices.Contains(got, p) {
			t.Errorf("not carried, but should be: %q", p)
		}
	}
}
