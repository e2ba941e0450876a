//go:build e2e && linux

// Package docker runs sbsync against a real Docker Engine: Debian's docker.io, on
// a socket and in directories of its own, with images made of this machine's
// programs. It needs root.
//
//	go test -tags e2e ./e2e/docker
package docker

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
	"github.com/sbsync/sbsync/e2e/internal/rootfs"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/docker"
)

var engine *dockerd

func TestMain(m *testing.M) { os.Exit(withEngine(m)) }

func withEngine(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "e2e-docker-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	engine = &dockerd{dir: dir}
	code = harness.Main(m, func() error {
		if err := engine.start(); err != nil {
			return err
		}
		return engine.images()
	})
	for _, err := range []error{engine.tearDown(), os.RemoveAll(dir)} {
		if err != nil {
			fmt.Fprintln(os.Stderr, "tear down:", err)
			code = 1
		}
	}
	return code
}

// dockerd is an engine, whose processes all have its directory in their
// command lines.
type dockerd struct {
	dir string
	log bytes.Buffer
	cmd *exec.Cmd
}

func (d *dockerd) path(name string) string { return filepath.Join(d.dir, name) }
func (d *dockerd) host() string            { return "unix://" + d.path("socket") }

// start starts the engine without networks, for which a kernel may lack what is
// needed.
func (d *dockerd) start() error {
	// The engine, not the docker command's plugins, decides on its groups.
	d.cmd = exec.Command("dockerd", "--data-root", d.path("data"), "--exec-root", d.path("exec"), "-p", d.path("pid"), "-H", d.host(),
		"--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--bridge=none", "--storage-driver", "overlay2")
	d.cmd.Env = append(os.Environ(), "DOCKER_TMPDIR="+d.path("tmp"))
	d.log.Reset()
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := d.docker("version"); err == nil {
			return nil
		} else if time.Now().After(deadline) {
			d.kill()
			return fmt.Errorf("dockerd does not start: %w\n%s", err, d.log.String())
		}
	}
}

// kill ends the engine without a chance to clean up. Containers go on.
func (d *dockerd) kill() {
	d.cmd.Process.Kill()
	d.cmd.Wait()
	// Its containerd dies with it, but is taken for alive by the next engine if
	// nobody waits for it, as in a container without an init.
	os.Remove(d.path("exec/containerd/containerd.pid"))
}

// stop ends the engine and its containers.
func (d *dockerd) stop() {
	d.cmd.Process.Signal(syscall.SIGTERM)
	time.AfterFunc(30*time.Second, func() { d.cmd.Process.Kill() })
	d.cmd.Wait()
}

// tearDown leaves no process and no mount.
func (d *dockerd) tearDown() error {
	if out, _ := d.docker("ps", "-aq"); out != "" {
		d.docker(append([]string{"rm", "-f"}, strings.Fields(out)...)...)
	}
	d.stop()
	for _, pid := range d.processes() { // what a killed engine has left
		syscall.Kill(pid, syscall.SIGKILL)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	var left []string
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, d.dir+"/") {
			left = append(left, at)
		}
	}
	slices.Reverse(left)
	for _, at := range left {
		if uerr := syscall.Unmount(at, syscall.MNT_DETACH); uerr != nil {
			err = uerr
		}
	}
	return err
}

func (d *dockerd) processes() []int {
	var found []int
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		line, _ := os.ReadFile(name)
		var pid int
		if fmt.Sscanf(name, "/proc/%d/cmdline", &pid); bytes.Contains(line, []byte(d.dir+"/")) && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}

// docker runs the docker command.
func (d *dockerd) docker(args ...string) (string, error) {
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+d.host(), "DOCKER_CONFIG="+d.path("config"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("docker %q: %w\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// images imports the systems "gnu", "busybox" and "bare".
func (d *dockerd) images() error {
	for name, make := range map[string]func(string) error{"gnu": rootfs.GNU, "busybox": rootfs.BusyBox, "bare": rootfs.Bare} {
		root := d.path("root-" + name)
		if err := make(root); err != nil {
			return err
		}
		archive := d.path(name + ".tar")
		if out, err := exec.Command("tar", "-C", root, "-cf", archive, ".").CombinedOutput(); err != nil {
			return fmt.Errorf("tar: %w\n%s", err, out)
		}
		if _, err := d.docker("import", "--change", "ENV PATH=/bin", archive, name); err != nil {
			return err
		}
		os.Remove(archive)
		os.RemoveAll(root)
	}
	return nil
}

// box is a container, and a place from where sbsync is run.
type box struct {
	*harness.Place
	t    *testing.T
	name string
}

// run starts a container; options are those of docker run.
func run(t *testing.T, image string, options ...string) *box {
	t.Helper()
	place, err := harness.NewPlace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &box{Place: place, t: t, name: fmt.Sprintf("box-%d", time.Now().UnixNano())}
	command := []string{"sleep", "1000000"}
	if image == "bare" {
		command = []string{"/sleeper"}
	}
	args := append([]string{"run", "-d", "--init=false", "--network", "none", "--name", b.name}, options...)
	b.docker(append(append(args, image), command...)...)
	t.Cleanup(func() { b.docker("rm", "-f", "-v", b.name) })
	return b
}

func (b *box) docker(args ...string) string {
	b.t.Helper()
	out, err := engine.docker(args...)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// open opens a container through the driver.
func open(t *testing.T, ref string, cfg provider.Config) (provider.Sandbox, error) {
	t.Setenv("DOCKER_HOST", engine.host())
	sb, err := docker.Driver{}.Open(t.Context(), ref, cfg)
	if err == nil {
		t.Cleanup(func() { sb.Close() })
	}
	return sb, err
}

// sbsync is a run of the program that finds the engine.
func (b *box) sbsync(args ...string) *exec.Cmd {
	cmd := b.Command(args...)
	cmd.Env = append(cmd.Env, "DOCKER_HOST="+engine.host())
	return cmd
}

func (b *box) must(args ...string) string {
	b.t.Helper()
	out, err := b.sbsync(args...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("sbsync %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// fails runs sbsync, which must end with an exit code and say something.
func (b *box) fails(code int, says []string, args ...string) {
	b.t.Helper()
	cmd := b.sbsync(args...)
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		b.t.Errorf("sbsync %q: exit code %d, want %d\n%s", args, got, code, out)
	}
	for _, s := range says {
		if !strings.Contains(string(out), s) {
			b.t.Errorf("sbsync %q does not say %q:\n%s", args, s, out)
		}
	}
}

// commands are the command lines of what runs in the container, but for its
// first process.
func (b *box) commands() []string {
	b.t.Helper()
	var found []string
	for i, line := range strings.Split(b.docker("top", b.name, "-eo", "pid,args"), "\n") {
		if i > 0 && !strings.Contains(line, "sleep 1000000") {
			found = append(found, line)
		}
	}
	return found
}

// quiet waits until nothing is left that sbsync has started in the container.
func (b *box) quiet(patience time.Duration) []string {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left := b.commands()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}
