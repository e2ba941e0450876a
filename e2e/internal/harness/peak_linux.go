package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Peak runs a command, which must succeed, and returns the most memory that it
// had resident, in bytes. What getrusage says includes what this process had when
// it started it.
func Peak(t testing.TB, cmd *exec.Cmd) (peak int64) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	Must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for tick := time.NewTicker(2 * time.Millisecond); ; {
		select {
		case <-tick.C:
			peak = max(peak, highWater(cmd.Process.Pid))
		case err := <-ended:
			tick.Stop()
			if err != nil {
				t.Fatalf("%q: %v\n%s", cmd.Args, err, out.String())
			}
			if peak == 0 {
				t.Fatalf("%q: it ended before its memory could be looked at", cmd.Args)
			}
			return peak
		}
	}
}

// highWater is the most memory that a process had so far since it became what it
// is (proc_pid_status(5)).
func highWater(pid int) (size int64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Sscan(after, &size)
	return size << 10
}
