//go:build e2e && linux

package docker

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/docker"
)

// file writes something to push.
func (b *box) file() string {
	b.t.Helper()
	name := b.Path("file")
	if err := os.WriteFile(name, []byte("content\n"), 0o640); err != nil {
		b.t.Fatal(err)
	}
	return name
}

func TestNoSuchContainer(t *testing.T) {
	b := run(t, "busybox")
	near := b.name[:len(b.name)-1]
	near += string('0' + (b.name[len(b.name)-1]-'0'+1)%10)
	b.fails(7, []string{`no container "` + near, `did you mean "` + b.name + `"?`}, "push", b.file(), "docker:"+near+":/srv/file")
	b.fails(7, []string{"no container", "there are " + b.name}, "push", b.file(), "docker:zzz:/srv/file")
	b.fails(2, []string{"no name or id"}, "push", b.file(), "docker:a b:/srv/file")
	id := b.docker("inspect", "-f", "{{.Id}}", b.name)
	b.must("push", b.file(), "docker:"+id[:12]+":/srv/file")
}

func TestNotRunning(t *testing.T) {
	b := run(t, "busybox")
	target := "docker:" + b.name + ":/srv/file"
	b.docker("pause", b.name)
	b.fails(7, []string{"is paused", "docker unpause"}, "push", b.file(), target)
	b.must("push", "--start", b.file(), target)
	b.docker("kill", b.name)
	b.fails(7, []string{"is not running", "exited", "docker start"}, "push", b.file(), target)
	b.must("push", "--start", b.file(), target)
	if got := b.docker("exec", b.name, "cat", "/srv/file"); got != "content" {
		t.Errorf("there is %q", got)
	}
}

func TestNoShell(t *testing.T) {
	b := run(t, "bare")
	b.fails(7, []string{"has no sh", "docker cp"}, "push", b.file(), "docker:"+b.name+":/srv/file")
	b.fails(7, []string{"has no sh"}, "pull", "docker:"+b.name+":/etc/passwd", b.Path("passwd"))
}

// A root file system that is read-only, and a tmpfs in it, which docker cp does
// not see.
func TestReadOnly(t *testing.T) {
	b := run(t, "gnu", "--read-only", "--tmpfs", "/scratch")
	b.fails(8, []string{"Read-only file system"}, "push", b.file(), "docker:"+b.name+":/srv/file")
	for _, route := range []string{"stream", "base64"} {
		roundTripIn(t, b, "/scratch/"+route, route)
	}
}

// roundTripIn carries a file to a place that docker cp does not see, and back.
func roundTripIn(t *testing.T, b *box, there, route string) {
	t.Helper()
	target := "docker:" + b.name + ":" + there
	b.must("push", "--route", route, b.file(), target)
	b.must("pull", "--route", route, target, b.Path("back"))
	if got, err := os.ReadFile(b.Path("back")); err != nil || string(got) != "content\n" {
		t.Errorf("%s: %q, %v", there, got, err)
	}
}

func TestUser(t *testing.T) {
	b := run(t, "gnu")
	name := b.Path("config.yaml")
	config := "targets:\n  box:\n    provider: docker\n    ref: " + b.name + "\n    root: /home/somebody\n    user: USER\n"
	for user, owner := range map[string]string{"somebody": "1000:1000", "1000": "1000:1000", "1000:7": "1000:7", "root": "0:0"} {
		if err := os.WriteFile(name, []byte(strings.Replace(config, "USER", "\""+user+"\"", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		b.must("push", "--config", name, b.file(), "box:file")
		if got := b.docker("exec", b.name, "stat", "-c", "%u:%g %a", "/home/somebody/file"); got != owner+" 640" {
			t.Errorf("as %s: the file is %s", user, got)
		}
		b.docker("exec", b.name, "rm", "/home/somebody/file")
	}
	if err := os.WriteFile(name, []byte(strings.Replace(config, "USER", "nobody-here", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.fails(2, []string{"unable to find user nobody-here", "the setting user"}, "push", "--config", name, b.file(), "box:file")

	other := run(t, "gnu", "--user", "somebody")
	other.must("push", other.file(), "docker:"+other.name+":/home/somebody/file")
	other.fails(8, []string{"Permission denied"}, "push", other.file(), "docker:"+other.name+":/srv-file")
}

// A socket that is there, for others.
func TestPermissionDenied(t *testing.T) {
	b := run(t, "busybox")
	for _, dir := range []string{engine.dir, filepath.Dir(b.Dir), b.Dir, b.Path(".home"), b.Path(".temp")} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := b.sbsync("push", "/etc/passwd", "docker:"+b.name+":/srv/file")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 7 || !strings.Contains(string(out), "permission denied at "+engine.host()) ||
		!strings.Contains(string(out), "members of the group docker: usermod -aG docker") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestCompletion(t *testing.T) {
	b := run(t, "busybox")
	stopped := run(t, "busybox")
	stopped.docker("kill", stopped.name)
	t.Setenv("DOCKER_HOST", engine.host())
	names, err := provider.Completer(docker.Driver{}).Complete(t.Context(), "box-")
	if got := strings.Join(names, " "); err != nil || !strings.Contains(got, b.name) || strings.Contains(got, stopped.name) {
		t.Errorf("completions %q, %v", names, err)
	}
	if out := b.must("__complete", "push", "src", "docker:"+b.name[:6]); !strings.Contains(out, "docker:"+b.name+":/") {
		t.Errorf("completions of the program: %s", out)
	}
}
