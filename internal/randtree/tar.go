//go:build unix

package randtree

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
)

// ByTar makes a copy of a tree the way that everybody would:
//
//	tar -C from -cf - . | tar -C to -xpf -
//
// to exists. With follow, links are followed (tar -h); those that lead nowhere
// are left out then.
func ByTar(from, to string, follow bool) error {
	flags := "-cf"
	if follow {
		flags = "-chf"
	}
	pack, unpack := exec.Command("tar", "-C", from, flags, "-", "."), exec.Command("tar", "-C", to, "-xpf", "-")
	var complaints, trouble bytes.Buffer
	pack.Stderr, unpack.Stderr = &complaints, &trouble
	pipe, err := pack.StdoutPipe()
	if err != nil {
		return err
	}
	unpack.Stdin = pipe
	if err := pack.Start(); err != nil {
		return err
	}
	if err := unpack.Run(); err != nil {
		return fmt.Errorf("tar -x: %w: %s", err, trouble.Bytes())
	}
	err = pack.Wait()
	for line := range strings.Lines(complaints.String()) {
		if strings.Contains(line, "No such file or directory") || follow && strings.Contains(line, "File removed before we read it") || strings.Contains(line, "previous errors") || strings.Contains(line, "socket ignored") {
			continue
		}
		return fmt.Errorf("tar -c: %w: %s", err, line)
	}
	return nil
}
