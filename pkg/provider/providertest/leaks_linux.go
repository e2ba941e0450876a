package providertest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// markedProcesses returns the processes, other than this one, whose environment
// has the entry: "pid command line".
func markedProcesses(entry string) []string {
	var found []string
	self, _ := os.Readlink("/proc/self")
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid := filepath.Base(dir)
		if pid == self {
			continue
		}
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+entry+"\x00")) {
			continue // gone, a zombie, or somebody else's
		}
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		found = append(found, pid+" "+strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")))
	}
	return found
}
