//go:build unix

package transfer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
	"github.com/sbsync/sbsync/pkg/tree"
)

// bothWays runs a test in both directions in all kinds of sandboxes. The source
// and the target are directories that do not exist yet.
func bothWays(t *testing.T, test func(t *testing.T, w way)) {
	t.Helper()
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		everywhereNamed(t, string(dir), func(t *testing.T, k kindOfSandbox) { test(t, newWay(t, k, dir, providertest.Options{})) })
	}
}

// way is a way to carry a tree from source to target.
type way struct {
	t              testing.TB
	k              kindOfSandbox
	f              *providertest.Fake
	dir            transfer.Direction
	host           string
	source, target string
	opt            transfer.Options
}

func newWay(t testing.TB, k kindOfSandbox, dir transfer.Direction, opts providertest.Options) way {
	t.Helper()
	w := way{t: t, k: k, f: k.fake(t, opts), dir: dir, host: t.TempDir(), opt: k.options()}
	w.source, w.target = filepath.Join(w.host, "src"), filepath.Join(w.f.Root(), "dst")
	if dir == transfer.Pull {
		w.source, w.target = filepath.Join(w.f.Root(), "src"), filepath.Join(w.host, "dst")
	}
	t.Cleanup(func() { makeRemovable(w.host); makeRemovable(w.f.Root()) })
	return w
}

func (w way) run() (*transfer.Report, error) {
	w.t.Helper()
	return run(w.t, w.f, w.dir, w.source, w.target, w.opt)
}

func (w way) mustRun() *transfer.Report {
	w.t.Helper()
	return mustRun(w.t, w.f, w.dir, w.source, w.target, w.opt)
}

// clean fails if scratch is left on either side.
func (w way) clean() {
	w.t.Helper()
	noScratch(w.t, w.host, w.f.Root())
}

// names lists what is below a directory.
func names(t testing.TB, dir string) string {
	t.Helper()
	s, err := tree.Scan(context.Background(), dir, tree.ScanOptions{})
	must(t, err)
	var list []string
	for _, e := range s.Entries {
		if e.Type == tree.Dir {
			e.Path += "/"
		}
		list = append(list, e.Path)
	}
	return strings.Join(list, " ")
}

func wantNames(t testing.TB, dir, want string) {
	t.Helper()
	if got := names(t, dir); got != want {
		t.Errorf("%s holds\n %s\nwant\n %s", dir, got, want)
	}
}

// P23, B87: one matcher for what is sent and for what is deleted, and it is the
// source's, nested ignore files included.
func TestMirrorSparesWhatTheSourceIgnores(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{
			".sbsyncignore": "*.log\n/build/\n", "a": "a\n", "sub/.sbsyncignore": "*.o\n!keep.o\n", "sub/b": "b\n", "sub/x.o": "not sent\n", "sub/keep.o": "sent\n",
		})
		writeTree(t, w.target, map[string]string{
			"old.log": "", "build/out/file": "", "sub/y.o": "", "sub/keep.o": "old\n", "sub/stale": "", "gone/deep/z.log": "", "gone/deep/z": "", "x.o": "",
		})
		w.opt.Policy = transfer.Mirror
		rep := w.mustRun()
		wantNames(t, w.target, ".sbsyncignore a build/ build/out/ build/out/file gone/ gone/deep/ gone/deep/z.log old.log sub/ sub/.sbsyncignore sub/b sub/keep.o sub/y.o")
		if rep.Deleted != 3 || rep.Excluded != 1 {
			t.Errorf("deleted %d, excluded %d", rep.Deleted, rep.Excluded)
		}
		w.opt.DeleteExcluded = true
		w.mustRun()
		wantNames(t, w.target, ".sbsyncignore a sub/ sub/.sbsyncignore sub/b sub/keep.o")
		w.clean()
	})
}

func TestMirrorWithGitRules(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{".gitignore": "node_modules/\n", "a": "", "sub/.gitignore": "/out\n", "sub/b": ""})
		writeTree(t, w.target, map[string]string{"node_modules/m/index.js": "", "sub/out": "", "sub/other": "", "out": ""})
		w.opt.Policy, w.opt.Gitignore = transfer.Mirror, true
		w.mustRun()
		wantNames(t, w.target, ".gitignore a node_modules/ node_modules/m/ node_modules/m/index.js sub/ sub/.gitignore sub/b sub/out")
	})
}

// What is excluded by a mapping's own patterns stays too, and nothing excluded
// goes with a directory whose place is taken.
func TestForceSparesWhatIsExcluded(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{"x": "a file\n"})
		writeTree(t, w.target, map[string]string{"x/secret.key": "precious\n", "x/other": ""})
		w.opt.Exclude, w.opt.Force = []string{"*.key"}, true
		_, err := w.run()
		wantKind(t, err, provider.Refused)
		if readFile(t, filepath.Join(w.target, "x/secret.key")) != "precious" {
			t.Error("it is gone")
		}
		w.opt.DeleteExcluded = true
		w.mustRun()
		if readFile(t, filepath.Join(w.target, "x")) != "a file" {
			t.Error("not converted")
		}
		w.clean()
	})
}

// B81
func TestConflicts(t *testing.T) {
	var mu = make(chan struct{}, 1)
	texts := map[string]string{}
	bothWays(t, func(t *testing.T, w way) {
		cases := map[string][2]map[string]string{
			"file over directory": {{"x": "new\n"}, {"x/y": "old\n"}},
			"directory over file": {{"x/y": "new\n"}, {"x": "old\n"}},
			"directory over link": {{"x/y": "new\n"}, {"x": "-> y", "y/z": ""}},
			"link over directory": {{"x": "-> y"}, {"x/y": "old\n"}},
		}
		for name, c := range cases {
			w := w
			w.source, w.target = w.source+name, w.target+name
			writeTree(t, w.source, c[0])
			writeTree(t, w.source, map[string]string{"a-first": "f\n", "z-last": "l\n"})
			writeTree(t, w.target, c[1])
			before := describeTree(t, w.target)
			_, err := w.run()
			wantKind(t, err, provider.Refused)
			after := describeTree(t, w.target)
			for p, d := range before {
				if p != "" && after[p] != d || len(before) != len(after) {
					t.Errorf("%s: %q was changed by a run that was refused", name, p)
				}
			}
			mu <- struct{}{}
			if texts[name] == "" {
				texts[name] = fmt.Sprint(err, provider.HintOf(err))
			}
			if err != nil && texts[name] != fmt.Sprint(err, provider.HintOf(err)) {
				t.Errorf("%s: another text: %v, not %s", name, err, texts[name])
			}
			<-mu
			w.opt.Force = true
			w.mustRun()
			s, _ := tree.Scan(context.Background(), w.source, tree.ScanOptions{})
			for _, e := range s.Entries {
				if d, ok := describeTree(t, w.target)[e.Path]; !ok || d.kind != e.Type {
					t.Errorf("%s: %q is %v after --force", name, e.Path, d)
				}
			}
			w.clean()
		}
	})
}

func TestConflictsOfTheTargetItself(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, filepath.Dir(w.source), map[string]string{"tree/f": "f\n", "file": "content\n"})
		writeTree(t, filepath.Dir(w.target), map[string]string{"tree/old": "o\n", "file": "old\n"})
		from, to := filepath.Dir(w.source), filepath.Dir(w.target)
		for _, c := range [][2]string{{"tree", "file"}, {"file", "tree"}} {
			for _, policy := range []transfer.Policy{transfer.Update, transfer.Replace} {
				w.opt.Policy = policy
				w.source, w.target = filepath.Join(from, c[0]), filepath.Join(to, c[1])
				before := describeTree(t, w.target)
				_, err := w.run()
				wantKind(t, err, provider.Refused)
				if d := describeTree(t, w.target); fmt.Sprint(d) != fmt.Sprint(before) {
					t.Errorf("%v was changed", c)
				}
			}
		}
		w.opt.Force, w.opt.Policy = true, transfer.Update
		w.source, w.target = filepath.Join(from, "tree"), filepath.Join(to, "file")
		w.mustRun()
		wantNames(t, w.target, "f")
		w.source, w.target = filepath.Join(from, "file"), filepath.Join(to, "tree")
		w.mustRun()
		if readFile(t, w.target) != "content" {
			t.Error("the directory is still there")
		}
		w.clean()
	})
}

// A path names the thing itself; only a trailing slash on a file's target means
// "into".
func TestWhereThingsGo(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		from, to := filepath.Dir(w.source), filepath.Dir(w.target)
		writeTree(t, from, map[string]string{"f": "f\n", "d/g": "g\n"})
		must(t, os.Mkdir(filepath.Join(to, "there"), 0o755))
		for _, c := range []struct{ source, target, want string }{
			{"f", "new", "new"}, {"f", "there/", "there/f"}, {"f", "made/deep/", "made/deep/f"}, {"f", "there/named", "there/named"},
			{"f", "a/b/c", "a/b/c"}, {"d", "e/", "e/g"}, {"d", "h", "h/g"}, {"d/", "i", "i/g"}, {"d", "there", "there/g"},
		} {
			rep, err := run(t, w.f, w.dir, from+"/"+c.source, to+"/"+c.target, w.opt)
			if err != nil || rep.Files != 1 {
				t.Errorf("%v: %v, %+v", c, err, rep)
			}
			if want := strings.TrimSuffix(filepath.Base(c.source), "/"); !exists(filepath.Join(to, c.want)) {
				t.Errorf("%v: %s is not there", c, want)
			}
		}
		_, err := run(t, w.f, w.dir, from+"/f/", to+"/x", w.opt)
		wantKind(t, err, provider.Usage)
		w.clean()
	})
}

// B38: what is above the target is the user's choice, links included.
func TestTargetBelowALink(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		to := filepath.Dir(w.target)
		writeTree(t, w.source, map[string]string{"f": "f\n"})
		writeTree(t, to, map[string]string{"real/": "", "way": "-> real", "real/tree/old": "", "linked": "-> real/tree"})
		w.target = filepath.Join(to, "way/new")
		w.mustRun()
		wantNames(t, filepath.Join(to, "real/new"), "f")
		w.target = filepath.Join(to, "linked")
		w.mustRun()
		wantNames(t, filepath.Join(to, "real/tree"), "f old")
		w.opt.Policy = transfer.Replace
		w.mustRun()
		wantNames(t, filepath.Join(to, "real/tree"), "f")
		if text, err := os.Readlink(w.target); err != nil || text != "real/tree" {
			t.Errorf("the link itself was replaced: %v", err)
		}
		w.clean()
	})
}

// P03: the directory that is updated belongs to someone.
func TestTargetDirectoryKeepsModeAndOwner(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Push, providertest.Options{OtherUser: true, Umask: 0o077})
		writeTree(t, w.source, map[string]string{"f": "f\n", "d/g": "g\n"})
		writeTree(t, w.target, map[string]string{"old": "old\n"})
		must(t, os.Chmod(w.target, 0o777))
		before, err := os.Stat(w.target)
		must(t, err)
		w.mustRun()
		after, err := os.Stat(w.target)
		must(t, err)
		if before.Mode() != after.Mode() || !os.SameFile(before, after) || before.Sys().(*syscall.Stat_t).Uid != after.Sys().(*syscall.Stat_t).Uid {
			t.Errorf("from %v to %v", before.Mode(), after.Mode())
		}
		wantNames(t, w.target, "d/ d/g f old")
		for name, mode := range map[string]os.FileMode{"f": 0o644, "d/g": 0o644, "d": 0o755} {
			if info, err := os.Stat(filepath.Join(w.target, name)); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: %v", name, info.Mode())
			}
		}
		w.clean()
	})
}

// What may not be written by its owner is filled and emptied all the same, and
// is as the source has it afterwards.
func TestDirectoriesThatMayNotBeWritten(t *testing.T) {
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		everywhereNamed(t, string(dir), func(t *testing.T, k kindOfSandbox) {
			w := newWay(t, k, dir, providertest.Options{OtherUser: true})
			writeTree(t, w.source, map[string]string{"ro/new": "n\n", "ro/deep/new": "n\n", "turns/new": "n\n"})
			writeTree(t, w.target, map[string]string{"ro/old": "o\n", "ro/deep/old": "o\n", "turns/old": "o\n", "gone/x": ""})
			for _, p := range []string{w.source + "/ro/deep", w.source + "/ro", w.source + "/turns", w.target + "/ro/deep", w.target + "/ro", w.target + "/gone"} {
				must(t, os.Chmod(p, 0o555))
			}
			own(t, w.f, w.source, w.target)
			w.opt.Policy = transfer.Mirror
			w.mustRun()
			wantNames(t, w.target, "ro/ ro/deep/ ro/deep/new ro/new turns/ turns/new")
			for _, d := range []string{"ro", "ro/deep", "turns"} {
				if info, err := os.Stat(filepath.Join(w.target, d)); err != nil || info.Mode().Perm() != 0o555 {
					t.Errorf("%s: %v", d, info.Mode())
				}
			}
			w.clean()
		})
	}
}

// own gives what is in the sandbox to the user that its commands run as.
func own(t testing.TB, f *providertest.Fake, dirs ...string) {
	t.Helper()
	root, err := os.Stat(f.Root())
	must(t, err)
	uid := int(root.Sys().(*syscall.Stat_t).Uid)
	for _, dir := range dirs {
		if !strings.HasPrefix(dir, f.Root()) {
			continue
		}
		must(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
			if err == nil {
				err = os.Lchown(p, uid, uid)
			}
			return err
		}))
	}
}

// P21: what needs no change is not touched.
func TestUnchangedFilesKeepTheirInodes(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{"a": "a\n", "d/b": "b\n", "d/c": "c\n"})
		w.mustRun()
		stat := func(p string) os.FileInfo {
			info, err := os.Stat(filepath.Join(w.target, p))
			must(t, err)
			return info
		}
		a, b, c := stat("a"), stat("d/b"), stat("d/c")
		writeTree(t, w.source, map[string]string{"d/c": "changed\n"})
		rep := w.mustRun()
		if rep.Files != 1 || rep.Unchanged != 2 {
			t.Errorf("%+v", rep)
		}
		for _, s := range []struct {
			name  string
			was   os.FileInfo
			stays bool
		}{{"a", a, true}, {"d/b", b, true}, {"d/c", c, false}} {
			now := stat(s.name)
			if os.SameFile(now, s.was) != s.stays || s.stays && !now.ModTime().Equal(s.was.ModTime()) {
				t.Errorf("%s: same file %v, want %v", s.name, os.SameFile(now, s.was), s.stays)
			}
		}
	})
}

// B50: who has the old file open keeps it.
func TestReadersKeepTheOldFile(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{"f": "new content\n"})
		writeTree(t, w.target, map[string]string{"f": "old content\n"})
		for _, policy := range []transfer.Policy{transfer.Update, transfer.Replace} {
			f, err := os.Open(filepath.Join(w.target, "f"))
			must(t, err)
			defer f.Close()
			before := readFile(t, f.Name())
			w.opt.Policy = policy
			w.mustRun()
			b := make([]byte, 100)
			n, _ := f.Read(b)
			if strings.TrimSpace(string(b[:n])) != before {
				t.Errorf("%s: the open file now holds %q", policy, b[:n])
			}
			must(t, os.WriteFile(filepath.Join(w.target, "f"), []byte("old again\n"), 0o644))
		}
	})
}

// A mirror with the file system's own trouble: what could not be read deletes
// nothing (P24).
func TestUnreadableSourceDeletesNothing(t *testing.T) {
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		everywhereNamed(t, string(dir), func(t *testing.T, k kindOfSandbox) {
			w := newWay(t, k, dir, providertest.Options{OtherUser: true})
			if dir == transfer.Push && os.Geteuid() == 0 {
				return // root may read everything
			}
			writeTree(t, w.source, map[string]string{"a": "", "closed/b": ""})
			writeTree(t, w.target, map[string]string{"a": "", "closed/b": "", "closed/c": "", "d": ""})
			own(t, w.f, w.source)
			must(t, os.Chmod(w.source+"/closed", 0))
			w.opt.Policy = transfer.Mirror
			_, err := w.run()
			wantKind(t, err, provider.Refused)
			wantNames(t, w.target, "a closed/ closed/b closed/c d")
			w.opt.Policy = transfer.Update
			_, err = w.run()
			wantKind(t, err, provider.Partial)
			must(t, os.Chmod(w.source+"/closed", 0o755))
			must(t, os.RemoveAll(w.source))
			w.opt.Policy = transfer.Mirror
			_, err = w.run()
			wantKind(t, err, provider.SourceMissing)
			wantNames(t, w.target, "a closed/ closed/b closed/c d")
			w.clean()
		})
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, threeFiles())
		writeTree(t, w.target, map[string]string{"a": "old\n", "extra": "e\n"})
		before := describeTree(t, w.target)
		for _, policy := range []transfer.Policy{transfer.Update, transfer.Mirror, transfer.Replace} {
			w.opt.Policy, w.opt.DryRun = policy, true
			planned := map[transfer.Action]int{}
			w.opt.Observer = &watcher{t: t, planned: func(plan []transfer.PlannedEntry) {
				for _, e := range plan {
					planned[e.Action]++
				}
			}}
			rep := w.mustRun()
			deleted := 1
			if policy == transfer.Update {
				deleted = 0
			}
			if !rep.DryRun || rep.Files != 3 || rep.Links != 1 || rep.Deleted != deleted || planned[transfer.Delete] != deleted || planned[transfer.Change] != 1 {
				t.Errorf("%s: %+v, planned %v", policy, rep, planned)
			}
			if got := describeTree(t, w.target); fmt.Sprint(got) != fmt.Sprint(before) {
				t.Errorf("%s changed something", policy)
			}
			w.clean()
		}
	})
}

// watcher is an observer with hooks.
type watcher struct {
	t        testing.TB
	phase    func(name string)
	progress func(files int, bytes int64)
	planned  func([]transfer.PlannedEntry)
	warn     func(tree.Problem)
}

func (w *watcher) Routed(transfer.Mapping, transfer.Route, string) {}
func (w *watcher) Planned(_ transfer.Mapping, plan []transfer.PlannedEntry, _ int, _ int64) {
	if w.planned != nil {
		w.planned(plan)
	}
}
func (w *watcher) Progress(files int, bytes int64) {
	if w.progress != nil {
		w.progress(files, bytes)
	}
}
func (w *watcher) Phase(name string) {
	if w.phase != nil {
		w.phase(name)
	}
}
func (w *watcher) Warn(p tree.Problem) {
	if w.warn != nil {
		w.warn(p)
	}
	w.t.Logf("problem %q: %v", p.Path, p.Err)
}
func (w *watcher) Log(text string) { w.t.Log(text) }

// B56, B57
func TestChecksum(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{"same": "content\n", "other": "aaaa\n", "odd\nname": "x\n", "empty": ""})
		writeTree(t, w.target, map[string]string{"same": "content\n", "other": "bbbb\n", "odd\nname": "x\n", "empty": ""})
		old := time.Unix(1_500_000_000, 0)
		for _, n := range []string{"same", "odd\nname", "empty"} {
			must(t, os.Chtimes(filepath.Join(w.target, n), old, old))
		}
		same, err := os.Stat(filepath.Join(w.source, "other"))
		must(t, err)
		must(t, os.Chtimes(filepath.Join(w.target, "other"), same.ModTime(), same.ModTime()))
		before, err := os.Stat(filepath.Join(w.target, "same"))
		must(t, err)
		w.opt.Checksum = true
		rep := w.mustRun()
		if rep.Files != 1 || rep.Bytes != 5 || rep.Changed != 3 {
			t.Errorf("files %d, bytes %d, changed %d", rep.Files, rep.Bytes, rep.Changed)
		}
		c := w.k.compare()
		c.same(t, w.source, w.target)
		if after, err := os.Stat(filepath.Join(w.target, "same")); err != nil || !os.SameFile(before, after) {
			t.Error("a file with the same content was replaced")
		}
		if rep = w.mustRun(); rep.Files+rep.Changed != 0 {
			t.Errorf("again: %+v", rep)
		}
		w.clean()
	})
}

func TestModeAndSetID(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{"d/f": "f\n", "tool": "t\n"})
		must(t, os.Chmod(filepath.Join(w.source, "tool"), 0o755|os.ModeSetuid))
		check := func(want map[string]os.FileMode) {
			t.Helper()
			for name, mode := range want {
				if info, err := os.Stat(filepath.Join(w.target, name)); err != nil || info.Mode() != mode {
					t.Errorf("%s: %v, want %v", name, info.Mode(), mode)
				}
			}
		}
		w.mustRun()
		check(map[string]os.FileMode{"tool": 0o755, "d/f": 0o644, "d": 0o755 | os.ModeDir})
		w.opt.SetID = true
		if rep := w.mustRun(); rep.Changed != 1 || rep.Files != 0 {
			t.Errorf("%+v", rep)
		}
		check(map[string]os.FileMode{"tool": 0o755 | os.ModeSetuid})
		mode := uint32(0o600)
		w.opt.SetID, w.opt.Mode = false, &mode
		if rep := w.mustRun(); rep.Changed != 2 || rep.Files != 0 {
			t.Errorf("%+v", rep)
		}
		check(map[string]os.FileMode{"tool": 0o600, "d/f": 0o600, "d": 0o755 | os.ModeDir})
		// The same for a single file: its attributes alone.
		w.source, w.target = filepath.Join(w.source, "tool"), filepath.Join(w.target, "tool")
		w.opt.Mode = nil
		if rep := w.mustRun(); rep.Changed != 1 || rep.Files != 0 {
			t.Errorf("%+v", rep)
		}
		if info, err := os.Stat(w.target); err != nil || info.Mode() != 0o755 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		w.clean()
	})
}

func TestVerify(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		makeTree(t, w.source)
		w.opt.Verify = true
		rep := w.mustRun()
		if !rep.Digests {
			t.Error("no digests were compared")
		}
		compare{wholeSeconds: w.k.busybox}.same(t, w.source, w.target)
		w.clean()
	})
}

func TestMaxDelete(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{"a": "new a\n"})
		writeTree(t, w.target, map[string]string{"a": "old\n", "b": "", "c": ""})
		w.opt.Policy, w.opt.MaxDelete = transfer.Mirror, 1
		_, err := w.run()
		wantKind(t, err, provider.Refused)
		if readFile(t, filepath.Join(w.target, "a")) != "old" {
			t.Error("something was changed")
		}
		w.opt.MaxDelete = 2
		if rep := w.mustRun(); rep.Deleted != 2 {
			t.Errorf("deleted %d", rep.Deleted)
		}
		must(t, os.Remove(filepath.Join(w.source, "a")))
		_, err = w.run()
		wantKind(t, err, provider.Refused) // B88
		wantNames(t, w.target, "a")
	})
}

func TestLimits(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{"a": "12345", "long/path": "123", "b": ""})
		for name, l := range map[string]transfer.Limits{
			"entries": {Entries: 3}, "total": {Total: 7}, "file": {File: 4}, "path": {PathBytes: 8},
		} {
			w.opt.Limits = l
			_, err := w.run()
			if provider.KindOf(err) != provider.TooLarge || provider.HintOf(err) == "" {
				t.Errorf("%s: %v", name, err)
			}
			if exists(w.target) {
				t.Errorf("%s: something was made", name)
			}
		}
		w.opt.Limits = transfer.Limits{Entries: 4, Total: 8, File: 5, PathBytes: 9}
		w.mustRun()
		w.clean()
	})
}

// Where the sandbox's tools cut times to whole seconds, a file that was sent
// within the second of its time may be edited in the rest of that second and
// keep its size.
func TestEditWithinTheSecond(t *testing.T) {
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		everywhereNamed(t, string(dir), func(t *testing.T, k kindOfSandbox) {
			w := newWay(t, k, transfer.Push, providertest.Options{})
			writeTree(t, w.source, map[string]string{"edited": "1\n", "same": "s\n"})
			// Wait for a second to begin, so that all happens in it.
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
			for _, name := range []string{"edited", "same"} {
				now := time.Now().Truncate(time.Second).Add(100 * time.Millisecond)
				must(t, os.Chtimes(filepath.Join(w.source, name), now, now))
			}
			w.mustRun()
			later := time.Now().Truncate(time.Second).Add(900 * time.Millisecond)
			writeTree(t, w.source, map[string]string{"edited": "2\n"})
			must(t, os.Chtimes(filepath.Join(w.source, "edited"), later, later))
			if dir == transfer.Push {
				rep := w.mustRun()
				if rep.Files != 1 || rep.Unchanged != 1 {
					t.Errorf("pushed %d files, %d unchanged", rep.Files, rep.Unchanged)
				}
				if got := readFile(t, filepath.Join(w.target, "edited")); got != "2" {
					t.Errorf("the edit was missed: %q", got)
				}
				return
			}
			rep := mustRun(t, w.f, transfer.Pull, w.target, w.source, w.opt)
			if got := readFile(t, filepath.Join(w.source, "edited")); got != "1" || rep.Files != 1 {
				t.Errorf("pulled %d files, edited is %q", rep.Files, got)
			}
		})
	}
}

// Both sides may have times that were cut: what one host has pulled, another has
// pushed anew within the same second.
func TestEditWithinTheSecondPulledElsewhere(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Push, providertest.Options{})
		back := filepath.Join(w.host, "back")
		push := func(content string, fraction time.Duration) {
			writeTree(t, w.source, map[string]string{"edited": content})
			when := time.Now().Truncate(time.Second).Add(time.Hour + fraction)
			if info, err := os.Stat(filepath.Join(back, "edited")); err == nil {
				when = info.ModTime().Truncate(time.Second).Add(fraction)
			}
			must(t, os.Chtimes(filepath.Join(w.source, "edited"), when, when))
			w.mustRun()
			mustRun(t, w.f, transfer.Pull, w.target, back, w.opt)
			if got := readFile(t, filepath.Join(back, "edited")) + "\n"; got != content {
				t.Errorf("pulled %q, want %q", got, content)
			}
		}
		push("1\n", 100*time.Millisecond)
		push("2\n", 600*time.Millisecond)
	})
}
