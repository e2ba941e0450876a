package confine

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// machine is the kernel's boot id and the pid namespace, since pids mean
// something within these alone (proc(5), pid_namespaces(7)).
func machine() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id := strings.TrimSpace(string(boot))
	if err != nil || id == "" {
		id = "-"
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		// Two namespaces of one boot must not be taken for one.
		return "-/-"
	}
	return id + "/" + namespace
}

// processStart returns when a process was started, in clock ticks since boot:
// field 22 of /proc/PID/stat.
func processStart(pid int) (string, procState) {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return "", procGone
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", procUnknown // hidden, perhaps
	}
	// The second field is a name in parentheses that may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", procUnknown
	}
	if state := fields[0][0]; state == 'Z' || state == 'X' {
		return "", procGone
	}
	return string(fields[19]), procKnown
}
