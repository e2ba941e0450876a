package docker

import (
	"fmt"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
)

// noShell explains a command whose launch never said anything.
func (s *Sandbox) noShell(res provider.Result, stdout []byte) error {
	text := strings.TrimSpace(string(stdout) + string(res.Stderr))
	e := &provider.Error{Op: "exec", Err: shorten(fmt.Errorf("no shell could be run in container %q (exit code %d): %s", s.name, res.ExitCode, text))}
	switch {
	case strings.Contains(text, "unable to find user"), strings.Contains(text, "no matching entries in passwd"):
		e.Kind, e.Hint = provider.Usage, userHint
	case strings.Contains(text, "executable file not found"), strings.Contains(text, "no such file or directory"):
		e.Kind, e.Err = provider.Missing, fmt.Errorf("container %q has no sh", s.name)
		e.Hint = "the image has no shell, and sbsync needs one there; docker cp works without"
	case strings.Contains(text, "stopped container"), strings.Contains(text, "container init"), strings.Contains(text, "task not found"):
		return s.stoppedError("exec")
	}
	return e
}
