//go:build unix

package local

import (
	"os"
	"syscall"
	"time"
)

// maxArg 0 stands for the default, which is Linux's; no other system has less.
const maxArg = 0

func (s *Sandbox) check() error { return nil }

// hostDir returns a sandbox path as this system writes it.
func hostDir(dir string) string { return dir }

func sameVariable(a, b string) bool { return a == b }

func findExecutable(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return "", syscall.EACCES
	}
	return file, nil
}

// groupAttr makes a process the leader of a group of its own.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks the group that p leads to end, and kills it if it does not. It
// returns when the group is gone or has been killed.
func endGroup(p *os.Process, _ <-chan struct{}) {
	// A stopped process gets SIGTERM only once it goes on.
	_ = syscall.Kill(-p.Pid, syscall.SIGTERM)
	_ = syscall.Kill(-p.Pid, syscall.SIGCONT)
	deadline := time.Now().Add(killAfter)
	for pause := time.Millisecond; groupLives(p.Pid); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
			return
		}
		time.Sleep(pause)
	}
}

// groupLives says whether the group has a member that can still do something.
// A zombie can't; those whose parent is gone wait for the system's process 1 to
// reap them, which in containers may take long or for ever.
func groupLives(id int) bool {
	return syscall.Kill(-id, 0) != syscall.ESRCH && hasLiveMember(id)
}

// exitCode is what a shell would have as $?.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
