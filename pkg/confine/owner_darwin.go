package confine

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// machine is the id of this boot; macOS has no pid namespaces.
func machine() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil || id == "" {
		id = "-"
	}
	return id + "/-"
}

// processStart returns when a process was started, in seconds and microseconds.
func processStart(pid int) (string, procState) {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return "", procGone
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return "", procUnknown
	}
	start := info.Proc.P_starttime
	return fmt.Sprintf("%d.%06d", start.Sec, start.Usec), procKnown
}
