//go:build unix

package providertest

import (
	"os/exec"
	"syscall"
)

// asUser makes c run as the user and the group of this number, without other
// groups.
func asUser(c *exec.Cmd, id uint32) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = new(syscall.SysProcAttr)
	}
	c.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id}
}
