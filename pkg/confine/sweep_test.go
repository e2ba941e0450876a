package confine

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// helperEnv makes the test binary a process that stages something, says so and
// waits to be killed.
const helperEnv = "CONFINE_TEST_HELPER"

func TestMain(m *testing.M) {
	if scene := os.Getenv(helperEnv); scene != "" {
		helper(scene, os.Args[len(os.Args)-1])
		return
	}
	os.Exit(m.Run())
}

// scenes are what the helper process does before it is killed.
var scenes = map[string]struct {
	place Place
	do    func(s *Stage) error
}{
	"staged beside": {Beside, func(s *Stage) error { return stageOne(s, "f") }},
	"staged inside": {Inside, func(s *Stage) error { return stageOne(s, "n") }},
	"between two renames": {Beside, func(s *Stage) error {
		return errors.Join(s.Mkdir(""), move(s.outer.top, s.base, s.inner.top, oldName, noReplace))
	}},
	"after the swap": {Beside, func(s *Stage) error {
		if err := stageOne(s, "f"); err != nil {
			return err
		}
		return s.inBoth("swap", "", s.swapInTwo)
	}},
	"retired": {Inside, func(s *Stage) error {
		return errors.Join(s.Retire("d/sub/y"), s.Retire("d/sub"), s.Retire("f"))
	}},
	"half replaced": {Inside, func(s *Stage) error {
		return errors.Join(s.Retire("f"), s.Retire("d/x"), stageOne(s, "f"), s.PublishNew("f"))
	}},
	"committed": {Inside, func(s *Stage) error {
		return errors.Join(s.Retire("f"), s.Retire("d"), s.seal())
	}},
	"half removed": {Beside, func(s *Stage) error {
		return errors.Join(stageOne(s, "f"), emptyStage(s.outer.top, s.name))
	}},
	"locked": {Beside, func(s *Stage) error {
		return errors.Join(stageOne(s, "ro/f"), s.FinishDir("ro", 0o555, testTime), s.FinishDir("", 0, testTime))
	}},
}

// stageOne stages a file, with the directories above it.
func stageOne(s *Stage, rel string) error {
	if s.place == Beside {
		if err := s.Mkdir(""); err != nil {
			return err
		}
		if dir, _, ok := strings.Cut(rel, "/"); ok {
			if err := s.Mkdir(dir); err != nil {
				return err
			}
		}
	}
	f, err := s.Create(rel)
	if err != nil {
		return err
	}
	f.WriteString("new")
	return s.FinishFile(f, 0o644, testTime)
}

func helper(scene, dest string) {
	s, err := OpenStage(dest, scenes[scene].place)
	if err == nil {
		err = scenes[scene].do(s)
	}
	os.Stdout.WriteString(strconv.Quote(errText(err)) + "\n")
	select {}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// startHelper returns a process that has played the scene and waits.
func startHelper(t *testing.T, scene, dest string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], dest)
	cmd.Env = append(os.Environ(), helperEnv+"="+scene)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "\"\"\n" || err != nil {
		t.Fatalf("helper: %s, %v", line, err)
	}
	return cmd
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	check(t, cmd.Process.Kill())
	cmd.Wait()
}

func TestSweepAfterAKill(t *testing.T) {
	before := map[string]string{"f": "1", "d/x": "2", "d/sub/y": "3"}
	tests := map[string]map[string]string{ // what is in the destination after the sweep
		"staged beside":       before,
		"staged inside":       before,
		"between two renames": before,
		"after the swap":      {"f": "new"},
		"retired":             before,
		"half replaced":       {"f": "new", "d/x": "2", "d/sub/y": "3"},
		"committed":           {},
		"half removed":        before,
		"locked":              before,
	}
	for scene, want := range tests {
		t.Run(scene, func(t *testing.T) {
			dest := filepath.Join(t.TempDir(), "out")
			plant(t, dest, before)
			cmd := startHelper(t, scene, dest)

			left := leftovers(dest)
			if len(left) != 1 {
				t.Fatalf("the helper made %q", left)
			}
			check(t, Sweep(dest))
			if got := leftovers(dest); !slices.Equal(got, left) {
				t.Errorf("the stage of a living process was swept: %q, want %q", got, left)
			}
			kill(t, cmd)
			check(t, Sweep(dest))
			if got := leftovers(dest); len(got) != 0 {
				t.Errorf("left after the sweep: %q", got)
			}
			assertTree(t, dest, want)
			check(t, Sweep(dest))
		})
	}
}

// A run that is killed right after it made a stage, or right before the end of
// removing it, leaves an empty directory, or one with a part of an owner.
func TestSweepEmpty(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "out")
	plant(t, dest, map[string]string{"f": "1"})
	for _, dir := range []string{filepath.Dir(dest), dest} {
		check(t, os.Mkdir(filepath.Join(dir, scratchName()), 0o700))
		plant(t, filepath.Join(dir, scratchName()), map[string]string{draftFile: ""})
	}
	check(t, Sweep(dest))
	if got := leftovers(dest); len(got) != 0 {
		t.Errorf("left after the sweep: %q", got)
	}
}

// leftovers lists the stages beside and inside dest.
func leftovers(dest string) []string {
	beside, _ := filepath.Glob(filepath.Join(filepath.Dir(dest), ".sbsync-*"))
	inside, _ := filepath.Glob(filepath.Join(dest, ".sbsync-*"))
	return append(beside, inside...)
}

func TestSweepBesideAndInsideOfOthers(t *testing.T) {
	parent := t.TempDir()
	plant(t, filepath.Join(parent, "one"), map[string]string{"f": "1"})
	plant(t, filepath.Join(parent, "two"), map[string]string{"f": "2"})
	kill(t, startHelper(t, "between two renames", filepath.Join(parent, "one")))
	check(t, Sweep(filepath.Join(parent, "two")))
	if got := leftovers(filepath.Join(parent, "two")); len(got) != 1 {
		t.Errorf("another destination's leftover was swept: %q", got)
	}
	// For the parent it lies inside, and its backup is still put back.
	check(t, Sweep(parent))
	assertTree(t, parent, map[string]string{"one/f": "1", "two/f": "2"})
}

func TestSweepThroughALink(t *testing.T) {
	dir := t.TempDir()
	dest := filepath.Join(dir, "real", "tree")
	plant(t, dest, map[string]string{"f": "1"})
	plant(t, dir, map[string]string{"link": "->real/tree"})
	kill(t, startHelper(t, "staged beside", filepath.Join(dir, "link")))
	if got := leftovers(dest); len(got) != 1 {
		t.Fatalf("leftovers %q", got)
	}
	check(t, Sweep(filepath.Join(dir, "link")))
	if got := leftovers(dest); len(got) != 0 {
		t.Errorf("left after the sweep: %q", got)
	}
}

func TestSweepLeavesAlone(t *testing.T) {
	parent := t.TempDir()
	dest := filepath.Join(parent, "out")
	name := ".sbsync-aaaaaaaaaaaaaaa"
	files := map[string]string{
		"out/f":                       "1",
		name + "a/for":                "other", // of another destination
		name + "a/owner":              "- - -",
		name + "b":                    "a file with such a name",
		".sbsync-mine/for":            "out", // the user's own
		"out/.sbsync-mine":            "x",
		name + "c/owner":              Owner(), // of a living process
		name + "c/for":                "out",
		name + "d":                    "->out",
		name + "e/precious":           "x",   // not of ours, to all appearance
		name + "f/for":                "out", // young, of an unknown owner
		"out/" + name + "g/for":       "child",
		"out/" + name + "g/owner":     Owner(),
		name + "h/old/backup-of-whom": "x",
	}
	plant(t, parent, files)
	old := time.Now().Add(-24 * time.Hour)
	for _, n := range []string{"a", "a/owner", "b", "e", "h"} {
		check(t, os.Chtimes(filepath.Join(parent, name+n), old, old))
	}
	check(t, Sweep(dest))
	assertTree(t, parent, files)
}

func TestSweepRemovesOldLeftoversOfUnknownOwners(t *testing.T) {
	for _, owner := range []string{"", "garbage", "some-boot/pid:[1] 1 1", "-/- 1 1"} {
		parent := t.TempDir()
		stage := filepath.Join(parent, ".sbsync-aaaaaaaaaaaaaaaa")
		plant(t, stage, map[string]string{"owner": owner, "for": "out", "new/f": "1", "old/f": "2"})
		old := time.Now().Add(-2 * time.Hour)
		check(t, os.Chtimes(filepath.Join(stage, "owner"), old, old))
		check(t, os.Chtimes(stage, old, old))
		check(t, Sweep(filepath.Join(parent, "out")))
		assertTree(t, parent, map[string]string{"out/f": "2"})
	}
}

func TestSweepOfNothing(t *testing.T) {
	check(t, Sweep(filepath.Join(t.TempDir(), "no", "such", "place")))
}

func TestSweepIgnoresHostileNames(t *testing.T) {
	outside := canary(t)
	parent := filepath.Join(t.TempDir(), "a", "b")
	stage := filepath.Join(parent, ".sbsync-aaaaaaaaaaaaaaaa")
	for _, dest := range []string{"../b2", "..", "x/y", outside} {
		plant(t, stage, map[string]string{"owner": "gone", "for": dest, "old/f": "2"})
		old := time.Now().Add(-2 * time.Hour)
		check(t, os.Chtimes(filepath.Join(stage, "owner"), old, old))
		check(t, os.Chtimes(stage, old, old))
		check(t, Sweep(parent))
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(parent), "b2")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a name in a leftover led outside: %v", err)
	}
}

func TestOwner(t *testing.T) {
	owner := Owner()
	words := strings.Fields(owner)
	if len(words) != 3 || words[1] != strconv.Itoa(os.Getpid()) || !strings.Contains(words[0], "/") {
		t.Fatalf("Owner() = %q", owner)
	}
	if again := Owner(); again != owner {
		t.Errorf("Owner changes from %q to %q", owner, again)
	}
	known := !strings.HasPrefix(words[0], "-")
	gone := exec.Command(os.Args[0], "-test.run=^$")
	check(t, gone.Run())
	tests := []struct {
		name string
		text string
		age  time.Duration
		want bool
	}{
		{"this process", Owner(), 48 * time.Hour, !known},
		{"this process, with a newline", Owner() + "\n", 48 * time.Hour, !known},
		{"this pid, another start", words[0] + " " + words[1] + " 1", 0, known},
		{"a process that ended", words[0] + " " + strconv.Itoa(gone.Process.Pid) + " 1", 0, known},
		{"another boot, young", "x/y 1 1", 59 * time.Minute, false},
		{"another boot, old", "x/y 1 1", 61 * time.Minute, true},
		{"nothing, young", "", 0, false},
		{"nothing, old", "", 61 * time.Minute, true},
		{"bad pid, young", words[0] + " -1 1", 0, false},
		{"bad pid, old", words[0] + " x 1", 2 * time.Hour, true},
		{"clock set back", "x/y 1 1", -time.Hour, false},
	}
	for _, tt := range tests {
		if got := OwnerDead(tt.text, tt.age); got != tt.want {
			t.Errorf("%s: OwnerDead(%q, %v) = %v", tt.name, tt.text, tt.age, got)
		}
	}
}
