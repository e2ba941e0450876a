// Package rootfs makes root file systems for containers out of this machine's
// programs, without a registry.
package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// gnuTools are those that sbsync can make use of, and a few for tests.
var gnuTools = strings.Fields("bash sh awk base64 cat chmod chown cksum cmp cp cut date dd df du env find grep gzip head id ln ls mkdir mktemp " +
	"mkfifo mv od printf ps pwd readlink rm rmdir sed seq sha256sum sleep sort stat sync tail tar tee test touch tr true umask uname wc xargs zstd")

// GNU makes a system with the GNU tools in dir.
func GNU(dir string) error {
	if err := skeleton(dir); err != nil {
		return err
	}
	for _, tool := range gnuTools {
		found, err := exec.LookPath(tool)
		if errors.Is(err, exec.ErrNotFound) {
			continue // of no system, like umask, or not installed
		}
		if err == nil {
			err = addProgram(dir, found, filepath.Join("bin", tool))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// BusyBox makes a system with nothing but BusyBox in dir.
func BusyBox(dir string) error {
	if err := skeleton(dir); err != nil {
		return err
	}
	found, err := exec.LookPath("busybox")
	if err == nil {
		err = addProgram(dir, found, "bin/busybox")
	}
	if err != nil {
		return err
	}
	list, err := exec.Command(found, "--list").Output()
	if err != nil {
		return fmt.Errorf("busybox --list: %w", err)
	}
	for _, applet := range strings.Fields(string(list)) {
		if err := os.Symlink("busybox", filepath.Join(dir, "bin", applet)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Bare makes a system in dir that has neither a shell nor any tool: one static
// program, /sleeper, which does nothing until it is ended.
func Bare(dir string) error {
	if err := skeleton(dir); err != nil {
		return err
	}
	source := filepath.Join(dir, "tmp", "sleeper.go")
	text := "package main\n\nimport \"time\"\n\nfunc main() {\n\tfor {\n\t\ttime.Sleep(time.Hour)\n\t}\n}\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		return err
	}
	defer os.Remove(source)
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "sleeper"), source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// skeleton makes the directories, and the users root (0) and somebody (1000).
func skeleton(dir string) error {
	for name, mode := range map[string]fs.FileMode{"bin": 0o755, "etc": 0o755, "dev": 0o755, "proc": 0o755, "sys": 0o755, "root": 0o700, "home": 0o755, "tmp": 0o777 | fs.ModeSticky} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	home := filepath.Join(dir, "home", "somebody")
	err := os.Mkdir(home, 0o755)
	if err == nil {
		err = os.Chown(home, 1000, 1000)
	}
	for name, text := range map[string]string{
		"passwd": "root:x:0:0::/root:/bin/sh\nsomebody:x:1000:1000::/home/somebody:/bin/sh\n",
		"group":  "root:x:0:\nsomebody:x:1000:\n",
	} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "etc", name), []byte(text), 0o644)
		}
	}
	return err
}

// addProgram copies a program to a name in dir, and its libraries to where it
// looks for them.
func addProgram(dir, program, name string) error {
	if err := copyFile(program, filepath.Join(dir, name)); err != nil {
		return err
	}
	libraries, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil // a static program, or a script
	}
	for _, word := range strings.Fields(string(libraries)) {
		if !filepath.IsAbs(word) {
			continue
		}
		if err := copyFile(word, filepath.Join(dir, word)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	return err
}
