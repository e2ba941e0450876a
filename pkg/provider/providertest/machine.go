package providertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sbsync/sbsync/pkg/provider"
)

// otherID is the user and the group of Options.OtherUser: nobody.
const otherID = 65534

// usualTools are the programs that a small but complete image has, so that
// taking one away means something. Others, like Python, could stand in for what
// was taken away, and are left out.
var usualTools = strings.Fields(`sh [ awk base64 basename cat chmod chown cksum cmp cp cut date dd
	df diff dirname du echo egrep env expr false find gawk grep gunzip gzip head id kill ln ls
	md5sum mkdir mkfifo mktemp mv nl od paste printf ps pwd readlink rm rmdir sed seq sha1sum
	sha256sum shasum sleep sort split stat sync tac tail tar tee test touch tr true uname uniq
	wc xargs zstd`)

// prepare makes the root, the scratch and the tools.
func (f *Fake) prepare() error {
	var err error
	if f.shell, err = findTool("sh"); err != nil {
		return err
	}
	if f.state, err = os.MkdirTemp("", "sbsync-fake-"); err != nil {
		return err
	}
	// Others may pass through, but not look around: only OtherUser needs it.
	if err := os.Chmod(f.state, 0o711); err != nil {
		return err
	}
	if f.root = f.opts.Root; f.root == "" {
		f.root = filepath.Join(f.state, "box")
		if err := os.Mkdir(f.root, 0o755); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Mkdir(f.TempDir(), 0o700), f.own(f.TempDir()), f.own(f.root)); err != nil {
		return err
	}
	if err := f.prepareTools(); err != nil {
		return err
	}
	if f.opts.ReadOnly {
		return os.Chmod(f.root, 0o555)
	}
	return nil
}

// Close removes the sandbox. A Root that was given stays.
func (f *Fake) Close() error {
	if f.opts.ReadOnly && f.root != "" {
		_ = os.Chmod(f.root, 0o755)
	}
	if f.state == "" {
		return nil
	}
	return os.RemoveAll(f.state)
}

// adjust changes what a process gets that is about to start.
func (f *Fake) adjust(c *exec.Cmd) {
	if f.opts.MergedOutput {
		c.Stderr = c.Stdout
	}
	if f.otherUser() {
		asUser(c, otherID)
	}
}

func (f *Fake) otherUser() bool { return f.opts.OtherUser && os.Geteuid() == 0 }

// own gives a file to the user that commands run as.
func (f *Fake) own(path string) error {
	if !f.otherUser() {
		return nil
	}
	return os.Lchown(path, otherID, otherID)
}

// prepareTools makes the directory that is the commands' PATH, if the options
// want another one than the environment's.
func (f *Fake) prepareTools() error {
	o := f.opts
	special := len(o.Without) > 0 || o.Only != nil || o.Base64Wrap != "" || o.SpaceLeft > 0
	if !special && !o.BusyBox {
		if f.otherUser() {
			f.path = publicPath(os.Getenv("PATH"))
		}
		return nil
	}
	bin := filepath.Join(f.state, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	f.path = bin
	names := usualTools
	if o.Only != nil {
		names = o.Only
	}
	tools, err := f.findTools(names, special)
	if err != nil {
		return err
	}
	for _, name := range o.Without {
		delete(tools, name)
	}
	shims, err := f.shims()
	if err != nil {
		return err
	}
	for name, file := range tools {
		at := filepath.Join(bin, name)
		if script, ok := shims[name]; ok {
			err = writeProgram(at, script)
		} else {
			err = os.Symlink(file, at)
		}
		if err != nil {
			return err
		}
	}
	return f.checkGone(o.Without)
}

// publicPath leaves out what only root may look into: a shell that is not
// allowed to takes every command that is not found for one that may not be run.
func publicPath(path string) string {
	var public []string
	for _, dir := range filepath.SplitList(path) {
		open := filepath.IsAbs(dir)
		for at := dir; open && at != filepath.Dir(at); at = filepath.Dir(at) {
			info, err := os.Stat(at)
			open = err == nil && info.Mode()&0o001 != 0
		}
		if open {
			public = append(public, dir)
		}
	}
	return strings.Join(public, string(filepath.ListSeparator))
}

// findTools returns the files that provide names; a name that this machine
// lacks is left out.
func (f *Fake) findTools(names []string, special bool) (map[string]string, error) {
	tools := make(map[string]string, len(names))
	if !f.opts.BusyBox {
		for _, name := range names {
			if file, err := findTool(name); err == nil {
				tools[name] = file
			}
		}
		return tools, nil
	}
	busybox, err := findTool("busybox")
	if err != nil {
		return nil, err
	}
	list, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w", busybox, err)
	}
	applets := strings.Fields(string(list))
	for _, name := range names {
		if slices.Contains(applets, name) {
			tools[name] = busybox
		}
	}
	if special && tools["sh"] != "" {
		tools["sh"] = f.shell
	}
	return tools, nil
}

// findTool is exec.LookPath with a way out.
func findTool(name string) (string, error) {
	file, err := exec.LookPath(name)
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err == nil {
		return file, nil
	}
	hint := "install " + name
	if name == "busybox" {
		hint = "install busybox, for instance Debian's package busybox-static"
	}
	return "", &provider.Error{Kind: provider.Missing, Op: "fake", Err: err, Hint: hint}
}

// checkGone runs the shell to see that it does not find what was taken away:
// a shell that has tools built in would make the fake a lie.
func (f *Fake) checkGone(names []string) error {
	for _, name := range names {
		c := exec.Command(f.shell, "-c", `command -v "$1"`, "sh", name)
		c.Env = []string{"PATH=" + f.path}
		if out, err := c.Output(); err == nil && strings.HasPrefix(string(out), "/") || c.ProcessState == nil {
			return &provider.Error{Kind: provider.Missing, Op: "fake", Err: fmt.Errorf("%s finds %s without PATH", f.shell, name),
				Hint: "let sh be dash or bash on this machine"}
		}
	}
	return nil
}

// writeProgram writes a script. No process may be started while it is open for
// writing: the child would keep it open for an instant, in which the system
// refuses to run it ("text file busy").
func writeProgram(path, script string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(script), 0o755)
}
