package local

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// hasLiveMember looks for a member of the process group that is not a zombie.
func hasLiveMember(group int) bool {
	want := strconv.Itoa(group)
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return true // no /proc here: assume the worst
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // gone
		}
		// pid (command) state parent group ...; the command may hold anything.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 2 && string(fields[2]) == want && !bytes.ContainsAny(fields[0], "ZX") {
			return true
		}
	}
	return false
}
