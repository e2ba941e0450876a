package remote

import (
	"os"
	"os/user"
	"path/filepath"
)

// HomeDir is the user's home, where other tools keep their configuration. It is
// absolute in any case: without a home nothing may be taken from the current
// directory instead, which may have come with somebody else's files.
func HomeDir() string {
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		return home
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return string(filepath.Separator)
}
