//go:build unix

package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A source with directories and files that may not be read: what they hold is not
// taken for deleted, and the run does not pass for whole. Root may read
// everything, so that sbsync runs as somebody else where the tests run as root.
func TestUnreadableSource(t *testing.T) {
	for _, route := range []string{"stream", "base64"} {
		t.Run(route, func(t *testing.T) {
			u := newUnprivileged(t)
			u.write("src/a", "src/closed/b", "src/secret", "box/a", "box/closed/b", "box/closed/c", "box/secret", "box/d")
			u.chmod(0, "src/closed", "src/secret")
			before := u.names("box")

			said := u.sbsync(t, 9, "push", "--route", route, "--delete", u.path("src"), "local:"+u.path("box"))
			if !strings.Contains(said, `"closed"`) {
				t.Errorf("what may not be read is not named:\n%s", said)
			}
			if after := u.names("box"); after != before {
				t.Errorf("a mirror changed what is there:\n%s\nto\n%s", before, after)
			}
			said = u.sbsync(t, 5, "push", "--route", route, u.path("src"), "local:"+u.path("new"))
			if !strings.Contains(said, `"closed"`) || !strings.Contains(said, `"secret"`) {
				t.Errorf("what may not be read is not named:\n%s", said)
			}
			if got := u.names("new"); !strings.Contains(got, " a ") || strings.Contains(got, " secret ") || strings.Contains(got, "closed/b") {
				t.Errorf("pushed:%s", got)
			}

			u.chmod(0o755, "src/closed", "src/secret")
			u.sbsync(t, 0, "push", "--route", route, "--delete", u.path("src"), "local:"+u.path("box"))
			if got := u.names("box"); got != u.names("src") {
				t.Errorf("once all may be read, the box has%s", got)
			}
		})
	}
}

// unprivileged is a directory of a user who is not root, with sbsync in it.
type unprivileged struct {
	t   *testing.T
	dir string
	uid int
}

// newUnprivileged copies sbsync: testscript keeps its own in a directory that
// only the tests' user may enter.
func newUnprivileged(t *testing.T) unprivileged {
	u := unprivileged{t: t, dir: t.TempDir(), uid: os.Getuid()}
	if u.uid == 0 {
		u.uid = 65534 // nobody, in Debian and elsewhere; no entry of passwd is needed
		u.check(os.Chmod(filepath.Dir(u.dir), 0o711))
		u.check(os.Chown(u.dir, u.uid, u.uid))
	}
	program, err := exec.LookPath("sbsync")
	u.check(err)
	text, err := os.ReadFile(program)
	u.check(err)
	u.check(os.WriteFile(u.path("sbsync"), text, 0o755))
	t.Cleanup(func() { // lets the directory be removed after a failure, too
		for _, name := range []string{"src/closed", "box/closed", "new/closed"} {
			os.Chmod(u.path(name), 0o755)
		}
	})
	return u
}

func (u unprivileged) path(name string) string { return filepath.Join(u.dir, name) }

func (u unprivileged) check(err error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
}

// write makes files, and the directories that they need, which the user owns.
func (u unprivileged) write(names ...string) {
	u.t.Helper()
	for _, name := range names {
		u.check(os.MkdirAll(filepath.Dir(u.path(name)), 0o755))
		u.check(os.WriteFile(u.path(name), []byte(name), 0o644))
	}
	u.check(filepath.WalkDir(u.dir, func(p string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, u.uid, -1))
	}))
}

func (u unprivileged) chmod(mode fs.FileMode, names ...string) {
	u.t.Helper()
	for _, name := range names {
		u.check(os.Chmod(u.path(name), mode))
	}
}

// names lists what is below a directory, scratch included, each name between
// blanks.
func (u unprivileged) names(dir string) string {
	u.t.Helper()
	list := " "
	u.check(filepath.WalkDir(u.path(dir), func(p string, _ fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(u.path(dir), p)
		list += rel + " "
		return errors.Join(err, relErr)
	}))
	return list
}

// sbsync runs the program as the user and returns what it said.
func (u unprivileged) sbsync(t *testing.T, want int, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), u.path("sbsync"), args...)
	cmd.Dir, cmd.Env = u.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.dir, "TMPDIR=" + u.dir}
	if os.Getuid() == 0 {
		id := uint32(u.uid)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("sbsync %s: exit code %d, want %d:\n%s", strings.Join(args, " "), got, want, &said)
	}
	return said.String()
}
