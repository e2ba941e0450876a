package confine

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/windows"
)

// machine is the host's name: a stage on a network share may be another host's.
// Windows reveals no boot id, but start times are exact enough without one.
func machine() string {
	name, err := os.Hostname()
	if err != nil || name == "" || strings.ContainsAny(name, " /") {
		name = "-"
	}
	return name + "/-"
}

// processStart returns when a process was started, in units of 100 ns.
func processStart(pid int) (string, procState) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err == windows.ERROR_INVALID_PARAMETER {
		return "", procGone
	}
	if err != nil {
		return "", procUnknown
	}
	defer windows.CloseHandle(h)
	const stillActive = 259 // STILL_ACTIVE
	var code uint32
	if err := windows.GetExitCodeProcess(h, &code); err == nil && code != stillActive {
		return "", procGone
	}
	var start, exit, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &start, &exit, &kernel, &user); err != nil {
		return "", procUnknown
	}
	return strconv.FormatInt(start.Nanoseconds(), 10), procKnown
}
