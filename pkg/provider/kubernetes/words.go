package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/remote"
	"github.com/sbsync/sbsync/pkg/shell"
)

// wrap returns the arguments by which sh runs cmd. Kubernetes carries them as
// text. The process leads a session of its own (runc's nsexec calls setsid), so its
// number is also its group's.
//
// sh stays the command's parent and keeps standard output and error open:
// containerd stops feeding the input as soon as the process has closed one of
// them (containerd/containerd#13934, #12734), and `exec cat >file` would get 32
// to 192 KiB of 256 MiB, with exit code 0.
func wrap(cmd provider.Command, mark string) ([]string, error) {
	if len(cmd.Args) == 0 {
		return nil, provider.New(provider.Usage, "exec: no command", "")
	}
	if cmd.Dir != "" && !strings.HasPrefix(cmd.Dir, "/") {
		return nil, provider.New(provider.Usage, fmt.Sprintf("exec: directory %q is not absolute", cmd.Dir), "")
	}
	var b strings.Builder
	var w shell.Words
	dir := ""
	if cmd.Dir != "" {
		dir = w.Add(cmd.Dir)
	}
	b.WriteString(remote.Launch(mark, dir) + "\n")
	for _, name := range slices.Sorted(maps.Keys(cmd.Env)) {
		if !shell.IsVariable(name) {
			return nil, provider.New(provider.Usage, fmt.Sprintf("exec: %q can't be the name of an environment variable", name), "")
		}
		fmt.Fprintf(&b, "%s=%s\nexport %s\n", name, w.Add(cmd.Env[name]), name)
	}
	var run []string
	for _, arg := range cmd.Args {
		run = append(run, w.Add(arg))
	}
	b.WriteString(strings.Join(run, " ") + "\nexit $?\n")
	text := w.Assignments() + b.String()
	if strings.IndexByte(text+strings.Join(w.Args(), ""), 0) >= 0 {
		return nil, provider.New(provider.Usage, "exec: an argument has a NUL byte", "")
	}
	return append([]string{"sh", "-c", text, "sh"}, w.Args()...), nil
}
