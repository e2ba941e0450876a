//go:build unix

package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/local"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// versions are the tree before and after a transfer.
type versions struct {
	old, new map[string]described
	merged   bool // entry by entry, not as a whole
}

// state says which of the two a target holds, or what is wrong with it.
func (v versions) state(t testing.TB, target string) string {
	t.Helper()
	if !exists(target) {
		return "nothing"
	}
	now := describeTree(t, target)
	if sameTrees(now, v.new) {
		return "new"
	}
	if sameTrees(now, v.old) {
		return "old"
	}
	if !v.merged {
		return fmt.Sprintf("a mixture: %d entries", len(now))
	}
	for p, d := range now {
		if p != "" && !sameEntry(d, v.old[p]) && !sameEntry(d, v.new[p]) {
			return fmt.Sprintf("%q is neither old nor new", p)
		}
	}
	for p := range v.old {
		if _, stays := v.new[p]; stays && p != "" {
			if _, ok := now[p]; !ok {
				return fmt.Sprintf("%q is gone", p)
			}
		}
	}
	return "between"
}

func sameEntry(a, b described) bool {
	a.time, a.twin, b.twin = b.time, "", ""
	return a == b
}

func sameTrees(a, b map[string]described) bool {
	if len(a) != len(b) {
		return false
	}
	for p, d := range a {
		if p != "" && !sameEntry(d, b[p]) {
			return false
		}
	}
	return true
}

// setUp makes the target as it was.
func setUpOld(t testing.TB, target string) {
	t.Helper()
	must(t, os.RemoveAll(target))
	writeTree(t, target, map[string]string{"a": "old a\n", "dir/b": "old b\n", "dir/gone": "g\n", "mine": "mine\n"})
}

// prepareVersions makes source and target and returns what they may hold.
func prepareVersions(t testing.TB, w way) versions {
	t.Helper()
	files := threeFiles()
	for i := range 40 {
		files[fmt.Sprintf("many/%d", i)] = fmt.Sprint("content ", i)
	}
	if !exists(w.source) {
		writeTree(t, w.source, files)
	}
	setUpOld(t, w.target)
	v := versions{old: describeTree(t, w.target), merged: w.opt.Policy != transfer.Replace}
	w.mustRun()
	v.new = describeTree(t, w.target)
	return v
}

// Cancelled at any moment, a transfer leaves the old tree or the new one, no
// scratch on either side, no process and no goroutine.
func TestCancelledAtAnyMoment(t *testing.T) {
	providertest.NoLeaks(t)
	const times = 9
	t.Run("all", func(t *testing.T) {
		bothWays(t, func(t *testing.T, w way) {
			rnd := rand.New(rand.NewPCG(1, uint64(len(t.Name()))))
			for _, policy := range []transfer.Policy{transfer.Replace, transfer.Mirror} {
				w.opt.Policy, w.opt.ChunkBytes = policy, 100<<10
				start := time.Now()
				v := prepareVersions(t, w)
				whole := time.Since(start)
				seen := map[string]int{}
				for range times {
					setUpOld(t, w.target)
					ctx, cancel := context.WithCancel(context.Background())
					timer := time.AfterFunc(time.Duration(rnd.Int64N(int64(whole))), cancel)
					ops := []transfer.Operation{{Files: []transfer.Mapping{{Source: w.source, Target: w.target}}}}
					rep, err := transfer.Run(ctx, w.dir, transfer.Target{Sandbox: w.f, Name: "fake"}, ops, w.opt)
					timer.Stop()
					cancel()
					state := v.state(t, w.target)
					seen[state]++
					switch {
					case err == nil && state != "new":
						t.Errorf("success, and the target holds %s", state)
					case err != nil && !errors.Is(err, context.Canceled):
						t.Errorf("cancelled, and the error is %v", err)
					case state != "old" && state != "new" && state != "between":
						t.Errorf("the target holds %s (%v)", state, err)
					}
					if len(rep.Warnings) > 0 {
						t.Errorf("warnings: %q", rep.Warnings)
					}
					w.clean()
					if left, _ := os.ReadDir(w.f.TempDir()); len(left) > 0 {
						t.Errorf("%d files are left in the sandbox's TMPDIR", len(left))
					}
				}
				t.Logf("%s: %v", policy, seen)
			}
		})
	})
}

// A sandbox that goes away at the k-th call can't be cleaned. The next run that
// reaches it sweeps what was left and completes.
func TestSandboxDiesAtEveryCall(t *testing.T) {
	for _, late := range []bool{false, true} {
		bothWaysNamed(t, fmt.Sprintf("late %v", late), func(t *testing.T, w way) {
			if w.k.busybox && late {
				return
			}
			w.opt.Policy, w.opt.ChunkBytes = transfer.Replace, 200<<10
			v := prepareVersions(t, w)
			calls := w.mustRun().Calls
			for k := 1; k <= calls; k++ {
				setUpOld(t, w.target)
				dying := w.k.fake(t, providertest.Options{Root: w.f.Root(), DieAt: k, DieLate: late})
				_, err := run(t, dying, w.dir, w.source, w.target, w.opt)
				state := v.state(t, w.target)
				if state != "old" && state != "new" || state == "old" && err == nil {
					t.Fatalf("dead at call %d: the target holds %s, error %v", k, state, err)
				}
				if err != nil && provider.KindOf(err) != provider.Unreachable {
					t.Errorf("dead at call %d: %v", k, err)
				}
				orphan(t, w.f.Root())
				w.mustRun()
				if state := v.state(t, w.target); state != "new" {
					t.Errorf("the next run left %s", state)
				}
				w.clean()
				dying.Close()
			}
		})
	}
}

func bothWaysNamed(t *testing.T, what string, test func(t *testing.T, w way)) {
	t.Helper()
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		everywhereNamed(t, what+", "+string(dir), func(t *testing.T, k kindOfSandbox) { test(t, newWay(t, k, dir, providertest.Options{})) })
	}
}

// orphan makes the staging directories below dir look as if the process that
// made them had ended.
func orphan(t testing.TB, dir string) {
	t.Helper()
	owners, err := filepath.Glob(filepath.Join(dir, ".sbsync-*", "owner"))
	must(t, err)
	nested, err := filepath.Glob(filepath.Join(dir, "*", ".sbsync-*", "owner"))
	must(t, err)
	for _, p := range append(owners, nested...) {
		must(t, os.WriteFile(p, []byte(deadOwner()), 0o600))
	}
}

// deadOwner is the owner's text of a process that is no more.
func deadOwner() string {
	f := strings.Fields(confine.Owner())
	return f[0] + " " + f[1] + " 1\n" // this pid, started at another time
}

// A run that was killed between two renames in the sandbox: what it had moved
// away is put back, and then the target is not taken for missing.
func TestWhatAKilledRunHadMovedAwayComesBack(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Push, providertest.Options{})
		root := w.f.Root()
		writeTree(t, w.source, map[string]string{"a": "new\n"})
		stage := func(at string, files map[string]string) {
			t.Helper()
			files["owner"] = deadOwner()
			writeTree(t, filepath.Join(at, ".sbsync-aaaaaaaaaaaaaaaa"), files)
		}
		// A tree that was being swapped.
		stage(root, map[string]string{"old/mine": "mine\n", "old.to": w.target, "t/a": "half\n"})
		w.mustRun()
		wantNames(t, w.target, "a mine")
		w.clean()
		// Another target's tree, swept up by the way.
		other := filepath.Join(root, "other ' name\n")
		stage(root, map[string]string{"old/theirs": "t\n", "old.to": other})
		w.mustRun()
		wantNames(t, other, "theirs")
		w.clean()
		// An entry that was being converted, and children that were being replaced.
		stage(w.target, map[string]string{"old3/in": "i\n", "old3.to": filepath.Join(w.target, "dir"), "old4": "f\n", "old4.to": filepath.Join(w.target, "-f")})
		w.mustRun()
		wantNames(t, w.target, "-f a dir/ dir/in mine")
		w.clean()
		// What is there again stays.
		stage(w.target, map[string]string{"old1": "older\n", "old1.to": filepath.Join(w.target, "a")})
		w.mustRun()
		if readFile(t, filepath.Join(w.target, "a")) != "new" {
			t.Error("something that is there was replaced")
		}
		w.clean()
		// Nothing goes where it can't have come from.
		stage(w.target, map[string]string{"old1": "evil\n", "old1.to": filepath.Join(root, "evil"), "old2": "evil\n", "old2.to": "relative"})
		w.mustRun()
		if exists(filepath.Join(root, "evil")) || exists("relative") {
			t.Error("a file came out of the target")
		}
		w.clean()
	})
}

// Leftovers are removed if their run is dead, and they are ours.
func TestWhichLeftoversAreSwept(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Push, providertest.Options{})
		// "/ " and newlines in the path must not confuse what is removed.
		w.target = filepath.Join(w.f.Root(), " lead/ in\nside")
		writeTree(t, w.source, map[string]string{"a": "new\n"})
		writeTree(t, w.target, map[string]string{
			"a": "old\n", ".sbsync-mine": "the user's\n",
			".sbsync-aaaaaaaaaaaaaaaa/owner": deadOwner(), ".sbsync-aaaaaaaaaaaaaaaa/t/x": "",
			".sbsync-bbbbbbbbbbbbbbbb/owner": confine.Owner() + "\n",
			".sbsync-cccccccccccccccc/owner": "another machine 1 2\n",
			".sbsync-dddddddddddddddd/owner": deadOwner(), ".sbsync-dddddddddddddddd/pid": fmt.Sprintln(os.Getpid()),
			".sbsync-eeeeeeeeeeeeeeee/owner": "another machine 1 2\n", ".sbsync-eeeeeeeeeeeeeeee/t/x": "",
			".sbsync-ffffffffffffffff/draft": "",
		})
		must(t, os.Mkdir(filepath.Join(w.target, ".sbsync-gggggggggggggggg"), 0o700))
		old := time.Now().Add(-2 * time.Hour)
		must(t, os.Chtimes(filepath.Join(w.target, ".sbsync-eeeeeeeeeeeeeeee"), old, old))
		w.mustRun()
		left, err := filepath.Glob(filepath.Join(w.target, ".sbsync-*"))
		must(t, err)
		for i := range left {
			left[i] = strings.TrimPrefix(filepath.Base(left[i]), ".sbsync-")[:1]
		}
		if got := strings.Join(left, ""); got != "bcdm" {
			t.Errorf("left are %q", got)
		}
	})
}

// The test program itself is the client that gets killed.
const helperEnv = "SBSYNC_TEST_TRANSFER"

func TestHelperTransfer(t *testing.T) {
	words := strings.Split(os.Getenv(helperEnv), "\n")
	if len(words) != 4 {
		return // not called by TestKilledAtAnyMoment
	}
	opt := transfer.NewOptions()
	opt.Policy, opt.Route, opt.ChunkBytes = transfer.Replace, transfer.Route(words[1]), 100<<10
	sb := local.New(local.Options{})
	ops := []transfer.Operation{{Files: []transfer.Mapping{{Source: words[2], Target: words[3]}}}}
	if _, err := transfer.Run(context.Background(), transfer.Direction(words[0]), transfer.Target{Sandbox: sb}, ops, opt); err != nil {
		t.Fatal(err)
	}
}

// A client that is killed can't clean up. The target is the old tree or the new
// one all the same, and the next run sweeps.
func TestKilledAtAnyMoment(t *testing.T) {
	const times = 6
	bothWays(t, func(t *testing.T, w way) {
		if w.k.busybox {
			return // the commands run with this machine's tools
		}
		w.opt.Policy = transfer.Replace
		v := prepareVersions(t, w)
		start := time.Now()
		client := func() *exec.Cmd {
			c := exec.Command(os.Args[0], "-test.run=^TestHelperTransfer$")
			c.Env = append(os.Environ(), helperEnv+"="+strings.Join([]string{string(w.dir), string(w.k.route()), w.source, w.target}, "\n"))
			return c
		}
		if out, err := client().CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		whole := time.Since(start)
		rnd := rand.New(rand.NewPCG(2, uint64(len(t.Name()))))
		seen := map[string]int{}
		for range times {
			setUpOld(t, w.target)
			c := client()
			must(t, c.Start())
			time.Sleep(time.Duration(rnd.Int64N(int64(whole))))
			c.Process.Signal(syscall.SIGKILL)
			c.Wait()
			// What the client had started in the sandbox may be ending itself.
			state := ""
			eventually(t, func() bool { state = v.state(t, w.target); return state == "old" || state == "new" }, func() {
				t.Errorf("the target holds %s", state)
			})
			seen[state]++
			// It may even publish while the next run is under way, which then says so.
			_, err := run(t, w.f, w.dir, w.source, w.target, w.opt)
			for n := 0; n < 3 && err != nil && strings.Contains(err.Error(), "meanwhile"); n++ {
				_, err = run(t, w.f, w.dir, w.source, w.target, w.opt)
			}
			must(t, err)
			if state := v.state(t, w.target); state != "new" {
				t.Errorf("the next run left %s", state)
			}
			left := ""
			eventually(t, func() bool { left = anyScratch(w.host, w.f.Root()); return left == "" }, func() { t.Errorf("left behind: %s", left) })
		}
		t.Log(seen)
	})
}

// eventually waits for ok, and calls failed if it does not come about.
func eventually(t testing.TB, ok func() bool, failed func()) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			failed()
			return
		}
	}
}

// anyScratch returns a staging directory below the directories, or "".
func anyScratch(dirs ...string) (found string) {
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(d.Name(), ".sbsync-") {
				found = p
			}
			return nil
		})
	}
	return found
}
