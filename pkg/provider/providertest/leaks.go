package providertest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakMark is an environment variable by which the processes of a test program
// are known, orphans too.
const leakMark = "SBSYNC_TEST_PROGRAM"

// leakTime is how long what a test has ended may take to be gone.
const leakTime = 5 * time.Second

// NoLeaks makes the test fail if, when it has ended and all later clean-ups
// have run, it has left a goroutine running, or on Linux a process: whatever
// carries the environment variable that NoLeaks sets, so call it first, before
// any process is started. It can't tell tests apart that run in parallel.
func NoLeaks(t testing.TB) {
	t.Helper()
	mark := fmt.Sprint(os.Getpid())
	if err := os.Setenv(leakMark, mark); err != nil {
		t.Fatal(err)
	}
	goroutines := goleak.IgnoreCurrent()
	before := make(map[string]bool)
	for _, p := range markedProcesses(leakMark + "=" + mark) {
		before[p] = true
	}
	t.Cleanup(func() {
		t.Helper()
		var left []string
		for deadline := time.Now().Add(leakTime); ; time.Sleep(10 * time.Millisecond) {
			left = left[:0]
			for _, p := range markedProcesses(leakMark + "=" + mark) {
				if !before[p] {
					left = append(left, p)
				}
			}
			if len(left) == 0 || time.Now().After(deadline) {
				break
			}
		}
		if len(left) > 0 {
			t.Errorf("processes left running:\n%s", strings.Join(left, "\n"))
		}
		if err := goleak.Find(goroutines); err != nil {
			t.Error(err)
		}
	})
}
