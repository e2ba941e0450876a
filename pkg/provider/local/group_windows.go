package local

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/sbsync/sbsync/pkg/provider"
)

// A command line of CreateProcess has at most 32,767 characters; quoting may
// double some of them.
const (
	maxArg  = 8 << 10
	maxArgs = 14 << 10
)

// check looks for the sh that all scripts need.
func (s *Sandbox) check() error {
	if _, err := lookPath("sh", "", s.environ(nil)); err != nil {
		return &provider.Error{Kind: provider.Missing, Op: "open local", Err: err,
			Hint: "no sh in PATH: install Git for Windows and add its usr\\bin folder to PATH, or set the key path of provider local"}
	}
	return nil
}

// hostDir turns /c/dir, as sh writes it here, into c:\dir.
func hostDir(dir string) string {
	if len(dir) < 2 || dir[0] != '/' || len(dir) > 2 && dir[2] != '/' {
		return dir
	}
	return dir[1:2] + `:\` + strings.ReplaceAll(strings.TrimPrefix(dir[2:], "/"), "/", `\`)
}

func sameVariable(a, b string) bool { return strings.EqualFold(a, b) }

func findExecutable(file string) (string, error) { return exec.LookPath(file) }

func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// endGroup kills p and its descendants: there is no SIGTERM here.
func endGroup(p *os.Process, exited <-chan struct{}) {
	select {
	case <-exited:
		return // its descendants can't be found any more
	default:
	}
	if exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(p.Pid)).Run() != nil {
		_ = p.Kill()
	}
}

func exitCode(state *os.ProcessState) int { return state.ExitCode() }
