//go:build e2e && linux

// Package kill ends sbsync at random moments and looks at what is left: the
// old tree or the new one, and nothing else.
//
//	go test -tags e2e ./e2e/kill -seed N -kills N
package kill

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
)

var (
	seed  = flag.Uint64("seed", 0, "of all choices; 0 takes one")
	kills = flag.Int("kills", 12, "in each scene")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	os.Exit(harness.Main(m, nil))
}

// kind is what is carried, and how it is published.
type kind struct {
	name   string
	flags  []string
	file   bool // a single file
	single bool // the target changes as a whole, not entry by entry
}

var (
	mirror  = kind{"mirror", []string{"--delete"}, false, false}
	replace = kind{"replace", []string{"--replace"}, false, true}
	file    = kind{"file", nil, true, true}
)

// scene is one way to carry one thing, back and forth between two versions.
type scene struct {
	verb, route string
	kind        kind
	// slow makes mv take its time, so that a push is often hit between two of
	// its renames.
	slow bool
}

func (s scene) String() string {
	name := strings.Join([]string{s.verb, s.route, s.kind.name}, " ")
	if s.slow {
		name += " slow"
	}
	return name
}

func scenes() []scene {
	var all []scene
	for _, route := range []string{"stream", "base64", "exec only"} {
		for _, k := range []kind{mirror, replace, file} {
			all = append(all, scene{"push", route, k, false}, scene{"pull", route, k, false})
		}
		all = append(all, scene{"push", route, mirror, true}, scene{"push", route, replace, true})
	}
	return all
}

// patience is how long what was started in the sandbox may take to end. When
// sbsync was killed, publishing goes on to its end, on a machine that is busy.
func (s scene) patience(signal os.Signal) time.Duration {
	switch {
	case signal != syscall.SIGKILL:
		return 5 * time.Second
	case s.slow:
		return time.Minute
	}
	return 15 * time.Second
}

func TestKill(t *testing.T) {
	for _, s := range scenes() {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			name := fnv.New64a()
			name.Write([]byte(s.String()))
			st := setStage(t, s, rand.New(rand.NewPCG(*seed, name.Sum64())))
			for attempt := 0; st.killed < *kills && !t.Failed(); attempt++ {
				if attempt > 4**kills {
					t.Fatalf("only %d runs in %d were caught alive", st.killed, attempt)
				}
				st.round(t)
			}
			if t.Failed() {
				t.Logf("again with: -seed %d -run 'TestKill/%s'", *seed, strings.ReplaceAll(s.String(), " ", "_"))
			}
		})
	}
}

// stage is where a scene plays.
type stage struct {
	scene
	*harness.Place
	rng      *rand.Rand
	versions [2]harness.State
	now      int           // the version that the target has
	takes    time.Duration // a run that nobody disturbs, as far as is known
	killed   int
	config   string
}

func setStage(t *testing.T, s scene, rng *rand.Rand) *stage {
	t.Helper()
	place, err := harness.NewPlace(t.TempDir())
	st := &stage{scene: s, Place: place, rng: rng}
	st.must(t, err)
	if s.kind.file {
		st.must(t, harness.WriteFile(rng, st.source(0), 3<<20))
		st.must(t, harness.WriteFile(rng, st.source(1), 4<<20))
	} else {
		st.must(t, harness.WriteTrees(rng, st.source(0), st.source(1)))
	}
	for i := range st.versions {
		st.versions[i], err = harness.Look(st.source(i))
		st.must(t, err)
	}
	st.configure(t)
	// One run makes the target, the next takes a usual run's time.
	for _, st.now = range []int{1, 0} {
		start := time.Now()
		st.finish(t)
		st.takes = time.Since(start)
	}
	return st
}

func (st *stage) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (st *stage) source(version int) string { return st.Path(fmt.Sprintf("version %d", version)) }
func (st *stage) target() string            { return st.Path("parent", "target") }

// configure writes the config file.
func (st *stage) configure(t *testing.T) {
	t.Helper()
	var settings strings.Builder
	fmt.Fprintf(&settings, "providers: {local: {exec_only: %v", st.route == "exec only")
	if st.slow {
		shims := st.Path("shims")
		st.must(t, os.Mkdir(shims, 0o755))
		mv, err := exec.LookPath("mv")
		st.must(t, err)
		text := fmt.Sprintf("#!/bin/sh\n%s \"$@\"; code=$?\nsleep 0.05\nexit $code\n", mv)
		st.must(t, os.WriteFile(shims+"/mv", []byte(text), 0o755))
		fmt.Fprintf(&settings, ", path: %q", shims+":"+os.Getenv("PATH"))
	}
	settings.WriteString("}}\n")
	st.config = st.Path("config.yaml")
	st.must(t, os.WriteFile(st.config, []byte(settings.String()), 0o600))
}

// command carries the version that the target does not have.
func (st *stage) command() *exec.Cmd {
	from, to := st.source(1-st.now), st.target()
	if st.verb == "push" {
		to = "local:" + to
	} else {
		from = "local:" + from
	}
	args := append([]string{st.verb, "--verbose", "--config", st.config}, st.kind.flags...)
	if st.route != "exec only" {
		args = append(args, "--route", st.route)
	}
	return st.Command(append(args, from, to)...)
}

// round kills one run and has another one finish its work.
func (st *stage) round(t *testing.T) {
	signal := syscall.SIGKILL
	if st.rng.IntN(2) == 0 {
		signal = syscall.SIGINT
	}
	after := time.Duration(st.rng.Float64() * 1.1 * float64(st.takes))
	what := fmt.Sprintf("%v after %v of about %v", signal, after.Round(time.Millisecond), st.takes.Round(time.Millisecond))
	start := time.Now()
	code, output := st.kill(t, signal, after)
	// How long a run takes depends on what else the machine does.
	if st.takes += st.takes / 50; code == 0 {
		st.takes = (st.takes + time.Since(start)) / 2
	}
	if left := st.Gone(st.patience(signal)); len(left) > 0 {
		t.Errorf("%s: processes are left: %s", what, left)
	}
	switch {
	case code == 0:
		st.check(t, what+", too late", st.versions[1-st.now])
	case code == -1 && signal == syscall.SIGINT:
		// The program had not come so far as to catch signals.
		st.check(t, what+", too early", st.versions[st.now])
		st.checkTidy(t, what+", too early")
	case code == -1 && signal == syscall.SIGKILL:
		st.killed++
		st.checkEither(t, what)
	case code == 130 && signal == syscall.SIGINT:
		st.killed++
		st.checkEither(t, what)
		st.checkTidy(t, what)
	default:
		t.Errorf("%s: exit code %d\n%s", what, code, output)
	}
	if !t.Failed() {
		st.finish(t)
	}
}

// kill starts a run and sends it a signal, unless it ends before. The code is
// -1 if a signal ended it.
func (st *stage) kill(t *testing.T, signal os.Signal, after time.Duration) (code int, output string) {
	t.Helper()
	cmd := st.command()
	var both strings.Builder
	cmd.Stdout, cmd.Stderr = &both, &both
	// What the killed one has started may keep the output open.
	cmd.WaitDelay = time.Millisecond
	st.must(t, cmd.Start())
	timer := time.AfterFunc(after, func() { cmd.Process.Signal(signal) })
	hangs := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	if !hangs.Stop() {
		t.Fatalf("%v after %v: it hangs", signal, after)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), both.String()
}

// finish lets a run end undisturbed, after which all is new and tidy.
func (st *stage) finish(t *testing.T) {
	t.Helper()
	if out, err := st.command().CombinedOutput(); err != nil {
		t.Fatalf("a run that nobody disturbs: %v\n%s", err, out)
	}
	st.now = 1 - st.now
	st.check(t, "a run that nobody disturbs", st.versions[st.now])
	st.checkTidy(t, "a run that nobody disturbs")
	if left := st.Gone(st.patience(nil)); len(left) > 0 {
		t.Errorf("a run that nobody disturbs leaves processes: %s", left)
	}
}

func (st *stage) look(t *testing.T) harness.State {
	t.Helper()
	state, err := harness.Look(st.target())
	st.must(t, err)
	return state
}

// check says whether the target has exactly this state.
func (st *stage) check(t *testing.T, what string, want harness.State) {
	t.Helper()
	if d := st.look(t).Different(want); d != "" {
		t.Errorf("%s:\n%s", what, d)
	}
}

// checkEither says whether the target is as before or as it was to become:
// each of its entries, or the whole where the whole is replaced.
func (st *stage) checkEither(t *testing.T, what string) {
	t.Helper()
	state, old, next := st.look(t), st.versions[st.now], st.versions[1-st.now]
	if d := state.Between(old, next); d != "" {
		t.Errorf("%s: neither old nor new:\n%s", what, d)
		return
	}
	if d := state.Different(old); st.kind.single && d != "" && state.Different(next) != "" {
		t.Errorf("%s: a mixture of old and new; compared with the old:\n%s", what, d)
	}
}

func (st *stage) checkTidy(t *testing.T, what string) {
	t.Helper()
	rubbish, err := st.Rubbish()
	st.must(t, err)
	if len(rubbish) > 0 {
		t.Errorf("%s leaves %q", what, rubbish)
	}
}
