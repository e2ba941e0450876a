package cmd

import (
	"os"
	"path"
	"strings"
)

// localDirs returns what an absolute path could be completed to: the entries
// of its directory, directories with a slash.
func localDirs(word string) []string {
	if word == "" {
		return []string{"/"}
	}
	dir, base := path.Split(word)
	if !path.IsAbs(dir) {
		return nil
	}
	entries, _ := os.ReadDir(dir) // none is offered where none can be read
	var found []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, base) || base == "" && strings.HasPrefix(name, ".") {
			continue
		}
		if info, err := os.Stat(path.Join(dir, name)); err == nil && info.IsDir() {
			name += "/"
		}
		found = append(found, dir+name)
	}
	return found
}
