package tree

import (
	"os"
	"path/filepath"
	"testing"
)

func FuzzGitIndex(f *testing.F) {
	home := isolate(f)
	for _, args := range [][]string{{"--index-version", "2"}, {"--index-version", "4"}, {"--split-index"}} {
		root := filepath.Join(home, args[len(args)-1])
		initRepo(f, root)
		plantEmpty(f, root, "a", "b/c", "b/d")
		runGit(f, root, append([]string{"update-index"}, args...)...)
		runGit(f, root, "add", ".")
		data, err := os.ReadFile(filepath.Join(root, ".git/index"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, size := range []int{sha1Size, sha256Size} {
			file, err := parseGitIndex(data, size)
			if err != nil {
				continue
			}
			if file.link != nil {
				shared := indexFile{entries: file.entries}
				shared.merge(file.entries, file.link[min(size, len(file.link)):])
			}
			index := newGitIndex(file.entries, true)
			for _, e := range file.entries {
				if !e.submodule && !index.hasFile(e.name) || e.submodule && !index.isSubmodule(e.name) {
					t.Errorf("%q is in the index, but not found", e.name)
				}
			}
		}
	})
}

func FuzzGitConfig(f *testing.F) {
	f.Add([]byte("[core]\n\texcludesfile = \"a\\\"b\" ; c\n[a \"b\\\\c\"]\nd\n[e.f] g = h\\\ni\n"))
	f.Add([]byte("\ufeff[x]\r\ny = z\\t\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parseGitConfig(data, func(v configValue) error {
			if v.name == "" || v.section == "" && v.subsection == "" {
				t.Errorf("a value without a name: %+v", v)
			}
			return nil
		})
	})
}
