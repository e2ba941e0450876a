//go:build unix

package docker

import (
	"fmt"
	"os"
	"os/user"
	"strings"
	"syscall"
)

// socketHint says who may use a socket.
func socketHint(host string) string {
	path, isSocket := strings.CutPrefix(host, "unix://")
	if !isSocket {
		return "the daemon lets others in"
	}
	info, err := os.Stat(path)
	if err != nil {
		return "your user may not enter the socket's directory"
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&0o060 != 0o060 {
		return "only the socket's owner may use it"
	}
	group := fmt.Sprint(stat.Gid)
	if g, err := user.LookupGroupId(group); err == nil {
		group = g.Name
	}
	return fmt.Sprintf("it is for members of the group %s: usermod -aG %s USER as root, and log in again", group, group)
}
