package tree

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestGitTrackedFiles(t *testing.T) {
	for _, args := range [][]string{{"--index-version", "2"}, {"--index-version", "3"}, {"--index-version", "4"}, {"--split-index"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			root := filepath.Join(isolate(t), "repo")
			initRepo(t, root)
			long := strings.Repeat("l", 200)
			plantEmpty(t, root, "dist/a.js", "dist/b/c.js", "x.log", "y.log", "gone", "d/x", "f", long+"/"+long+".log")
			runGit(t, root, "add", "-f", "x.log")
			runGit(t, root, append([]string{"update-index"}, args...)...)
			runGit(t, root, "add", "-f", ".")
			runGit(t, root, "rm", "-q", "--cached", "y.log", "dist/a.js")
			// A name too long for the index's length field, before one that is not.
			entry := strings.TrimSpace(runGit(t, root, "ls-files", "-s", "x.log"))
			huge := strings.Repeat("deep/", 900)
			runWith(t, root, strings.Replace(entry, "x.log", huge+"x", 1)+"\n", "git", "update-index", "--index-info")
			plantEmpty(t, root, "dist/untracked", "new.log", "intended.log")
			runGit(t, root, "add", "-fN", "intended.log")
			plant(t, root, map[string]string{".gitignore": "dist/\n*.log\ngone/\nd\n"})
			// A file where a directory is tracked, and the reverse.
			for _, p := range []string{"gone", "d"} {
				if err := os.RemoveAll(filepath.Join(root, p)); err != nil {
					t.Fatal(err)
				}
			}
			plantEmpty(t, root, "gone/x", "d")
			sameAsGit(t, root)
			got := carried(scanGit(t, root))
			for _, p := range []string{"dist/b/c.js", "x.log", "intended.log", long + "/" + long + ".log"} {
				if !slices.Contains(got, p) {
					t.Errorf("tracked %q is not carried", p)
				}
			}
		})
	}
}

func TestGitSplitIndexChanges(t *testing.T) {
	root := filepath.Join(isolate(t), "repo")
	initRepo(t, root)
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("f%03d.log", i))
	}
	plantEmpty(t, root, names...)
	runGit(t, root, "config", "splitIndex.maxPercentChange", "100")
	runGit(t, root, "add", ".")
	runGit(t, root, "update-index", "--split-index")
	runGit(t, root, append([]string{"rm", "-q", "--cached"}, names[50:200]...)...)
	plant(t, root, map[string]string{"f001.log": "changed", "f250.log": "changed", "z.log": "new", "a.log": "new"})
	runGit(t, root, "add", "f001.log", "f250.log", "z.log", "a.log")
	plant(t, root, map[string]string{".gitignore": "*.log\n"})
	sameAsGit(t, root)
	if got := len(carried(scanGit(t, root))); got != 300-150+2+1 {
		t.Errorf("%d files are carried, want 153", got)
	}
}

func TestGitUnmergedIndex(t *testing.T) {
	root := filepath.Join(isolate(t), "repo")
	initRepo(t, root)
	plant(t, root, map[string]string{"x.log": "one"})
	id := strings.TrimSpace(runGit(t, root, "hash-object", "-w", "x.log"))
	stages := fmt.Sprintf("100644 %[1]s 1\tx.log\n100644 %[1]s 2\tx.log\n100644 %[1]s 3\tx.log\n", id)
	runWith(t, root, stages, "git", "update-index", "--index-info")
	plant(t, root, map[string]string{".gitignore": "*.log\n", "y.log": ""})
	sameAsGit(t, root)
}

func TestGitSHA256(t *testing.T) {
	root := filepath.Join(isolate(t), "repo")
	initRepo(t, root, "--object-format=sha256")
	plantEmpty(t, root, "x.log", "y.log", "z/x.log")
	runGit(t, root, "add", "x.log", "z")
	plant(t, root, map[string]string{".gitignore": "*.log\nz\n"})
	sameAsGit(t, root)
}
