//go:build e2e && linux

package docker

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
)

var comparison = harness.NewComparison()

// cp is docker cp.
func (b *box) cp(from, to string) *exec.Cmd {
	cmd := exec.Command("docker", "cp", from, to)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+engine.host(), "DOCKER_CONFIG="+engine.path("config"))
	return cmd
}

// TestAgainstPeers prints medians, and how many times as long as docker cp's
// sbsync's are. The two take turns.
func TestAgainstPeers(t *testing.T) {
	b := run(t, "gnu")
	b.docker("exec", b.name, "mkdir", "/srv") // docker cp makes no parents
	for _, l := range comparison.Loads(t) {
		t.Run(l.Name, func(t *testing.T) {
			dir := t.TempDir()
			source := dir + "/source"
			harness.Must(t, l.Make(source))
			ours, theirs := map[string][]time.Duration{}, map[string][]time.Duration{}
			for n := range comparison.Runs() {
				there, back := fmt.Sprintf("/srv/there-%d", n), fmt.Sprintf("%s/back-%d", dir, n)
				push := func() *exec.Cmd { return b.sbsync("push", "-q", source, "docker:"+b.name+":"+there) }
				theirs["1 push"] = append(theirs["1 push"], harness.Timed(t, b.cp(source, b.name+":"+there+"-cp")))
				ours["1 push"] = append(ours["1 push"], harness.Timed(t, push()))
				theirs["2 pull"] = append(theirs["2 pull"], harness.Timed(t, b.cp(b.name+":"+there+"-cp", back+"-cp")))
				ours["2 pull"] = append(ours["2 pull"], harness.Timed(t, b.sbsync("pull", "-q", "docker:"+b.name+":"+there, back)))
				ours["3 push of nothing new"] = append(ours["3 push of nothing new"], harness.Timed(t, push()))
				harness.Same(t, back, source)
				b.docker("exec", b.name, "rm", "-rf", there, there+"-cp")
				for _, d := range []string{back, back + "-cp"} {
					if err := os.RemoveAll(d); err != nil {
						t.Fatal(err)
					}
				}
			}
			show(t, ours, theirs)
		})
	}
}

func show(t *testing.T, ours, theirs map[string][]time.Duration) {
	for _, step := range []string{"1 push", "2 pull"} {
		a, b := harness.Median(ours[step]), harness.Median(theirs[step])
		t.Logf("%s: sbsync %v  docker cp %v  ratio %.2f", step, a.Round(time.Millisecond), b.Round(time.Millisecond), float64(a)/float64(b))
	}
	again, first := harness.Median(ours["3 push of nothing new"]), harness.Median(theirs["1 push"])
	t.Logf("3 push of nothing new: sbsync %v  docker cp, which sends all again, %v  ratio %.2f",
		again.Round(time.Millisecond), first.Round(time.Millisecond), float64(again)/float64(first))
}

// Memory does not grow with what is carried.
func TestFlatMemory(t *testing.T) {
	b := run(t, "gnu")
	comparison.FlatMemory(t, b.sbsync, b.Path("source"), "docker:"+b.name+":/srv/there", b.Path("back"))
}
