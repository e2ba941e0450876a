//go:build unix

package transfer_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/local"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// kubernetes/kubernetes#69572, tilt-dev/tilt#6562, openshift/origin#7650. The
// sandbox's user owns nothing but the target and can't give anything away, and
// there is no chown: nobody tries.
func TestCase_B53(t *testing.T) {
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		everywhereNamed(t, string(dir), func(t *testing.T, k kindOfSandbox) {
			w := newWay(t, k, dir, providertest.Options{OtherUser: true, Umask: 0o077})
			makeTree(t, w.source)
			if dir == transfer.Pull {
				own(t, w.f, w.source)
			}
			w.mustRun()
			compare{wholeSeconds: k.busybox}.same(t, w.source, w.target)
			w.clean()
		})
	}
	f := openFake(t, providertest.Options{Stream: true, OtherUser: true, Without: []string{"chown", "chgrp", "id"}})
	source := filepath.Join(t.TempDir(), "src")
	makeTree(t, source)
	t.Cleanup(func() { makeRemovable(f.Root()) })
	mustRun(t, f, transfer.Push, source, filepath.Join(f.Root(), "dst"), options(transfer.Auto))
}

// kubernetes/kubernetes#58512, GoogleContainerTools/skaffold#1814,
// rocky-data/rocky#1915. The best way that is left is taken; where none is, one
// error names what is missing. More of the ladder is in
// TestEverySandboxGivesTheSame.
func TestCase_B59(t *testing.T) {
	tests := []struct {
		name  string
		opts  providertest.Options
		route transfer.Route // "": none
		says  string
	}{
		{"no tar", providertest.Options{Stream: true, Without: []string{"tar"}}, transfer.Base64, ""},
		{"BusyBox without tar", providertest.Options{Stream: true, BusyBox: true, Without: []string{"tar"}}, transfer.Base64, ""},
		{"few tools", providertest.Options{Stream: true, Only: strings.Fields("sh base64 cat cksum chmod cmp dd head ln mkdir mv readlink rm rmdir sed stat tail touch tr wc xargs")}, transfer.Base64, ""},
		{"no tar, no base64", providertest.Options{Without: []string{"tar", "base64"}}, "", "base64"},
		{"no base64", providertest.Options{Without: []string{"base64"}}, "", "base64"},
		{"cat only", providertest.Options{Stream: true, Only: []string{"cat"}}, "", " sh"},
		{"nothing", providertest.Options{Stream: true, Only: []string{}}, "", " sh"},
		{"nothing, no stream", providertest.Options{Only: []string{}}, "", " sh"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := openFake(t, test.opts)
			source, target := filepath.Join(t.TempDir(), "src"), filepath.Join(f.Root(), "dst")
			writeTree(t, source, threeFiles())
			rep, err := run(t, f, transfer.Push, source, target, options(transfer.Auto))
			if test.route != "" {
				must(t, err)
				if rep.Route != test.route {
					t.Errorf("route %s", rep.Route)
				}
				compare{wholeSeconds: test.opts.BusyBox}.same(t, source, target)
				noScratch(t, f.Root())
				return
			}
			wantKind(t, err, provider.Missing)
			if err != nil && (!strings.Contains(err.Error(), test.says) || provider.HintOf(err) == "") {
				t.Errorf("%v, hint %q", err, provider.HintOf(err))
			}
			_, err = run(t, f, transfer.Pull, f.Root(), filepath.Join(t.TempDir(), "out"), options(transfer.Auto))
			wantKind(t, err, provider.Missing)
			if exists(target) {
				t.Error("something was made")
			}
		})
	}
}

// devspace-sh/devspace#2574. Nothing but the target itself can be written:
// neither its parent nor a directory for temporary files.
func TestCase_B61(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Push, providertest.Options{OtherUser: true})
		w.target = filepath.Join(w.f.Root(), "dst")
		writeTree(t, w.source, threeFiles())
		writeTree(t, w.target, map[string]string{"old": "old\n"})
		own(t, w.f, w.target)
		must(t, os.Chmod(w.f.TempDir(), 0o500))
		must(t, os.Chmod(w.f.Root(), 0o555))
		if os.Geteuid() == 0 {
			must(t, os.Chown(w.f.Root(), 0, 0))
			must(t, os.Chown(w.f.TempDir(), 0, 0))
		}
		t.Cleanup(func() { os.Chmod(w.f.Root(), 0o755); os.Chmod(w.f.TempDir(), 0o755) })
		w.mustRun()
		wantNames(t, w.target, "a dir/ dir/b dir/c empty/ link old")
		w.opt.Policy = transfer.Replace
		rep := w.mustRun()
		wantNames(t, w.target, "a dir/ dir/b dir/c empty/ link")
		if rep.Atomic {
			t.Error("a directory that can't be renamed was swapped, it says")
		}
		w.clean()
		noScratch(t, w.f.TempDir())
	})
}

// kubernetes/kubernetes#89899, and fabric8#6212 with it (P20). A command's input
// never ends, or is lost: readers are bounded, and nothing empty is published.
func TestCase_B65(t *testing.T) {
	tests := map[string]providertest.Options{
		"no half-close":          {NoHalfClose: true},
		"no half-close, BusyBox": {NoHalfClose: true, BusyBox: true},
		"no half-close, stream":  {NoHalfClose: true, Stream: true},
		"input lost now and then": {
			DropStdin: 3,
		},
		"input always lost":          {DropStdin: -1},
		"input always lost, BusyBox": {DropStdin: -1, BusyBox: true},
	}
	for name, opts := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := openFake(t, opts)
			source, target := filepath.Join(t.TempDir(), "src"), filepath.Join(f.Root(), "dst")
			writeTree(t, source, threeFiles())
			mustRun(t, f, transfer.Push, source, target, options(transfer.Auto))
			compare{wholeSeconds: opts.BusyBox}.same(t, source, target)
			back := filepath.Join(t.TempDir(), "back")
			mustRun(t, f, transfer.Pull, target, back, options(transfer.Auto))
			compare{wholeSeconds: opts.BusyBox}.same(t, source, back)
			noScratch(t, f.Root())
		})
	}
}

// On the stream route lost input makes an error, not an empty file.
func TestCase_P20(t *testing.T) {
	for _, busybox := range []bool{false, true} {
		f := openFake(t, providertest.Options{Stream: true, BusyBox: busybox, DropStdin: -1})
		source, target := filepath.Join(t.TempDir(), "src"), filepath.Join(f.Root(), "dst")
		must(t, os.WriteFile(source, []byte("newer\n"), 0o644))
		must(t, os.WriteFile(target, []byte("old\n"), 0o644))
		opt := options(transfer.Stream)
		opt.Retries = 0
		_, err := run(t, f, transfer.Push, source, target, opt)
		wantKind(t, err, provider.Integrity)
		if got := readFile(t, target); got != "old" {
			t.Errorf("the target holds %q", got)
		}
		noScratch(t, f.Root())
	}
}

// containers/conmon#119, kata-containers/kata-containers#11747. The end of each
// command is told late, or never: few commands carry much, and a reply that is
// complete is enough.
func TestCase_B67(t *testing.T) {
	files := map[string]string{"big": noise(4 << 20)}
	for i := range 200 {
		files[fmt.Sprintf("d%d/f%d", i%7, i)] = fmt.Sprintln(i)
	}
	few := func(t *testing.T, w way) {
		writeTree(t, w.source, files)
		rep := w.mustRun()
		compare{wholeSeconds: w.k.busybox}.same(t, w.source, w.target)
		if rep.Calls > 12 {
			t.Errorf("%d calls", rep.Calls)
		}
		w.clean()
	}
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		everywhereNamed(t, "late, "+string(dir), func(t *testing.T, k kindOfSandbox) {
			few(t, newWay(t, k, dir, providertest.Options{DelayExit: 500 * time.Millisecond}))
		})
		t.Run("never, "+string(dir), func(t *testing.T) {
			t.Parallel()
			few(t, newWay(t, kindsOfSandboxes[0], dir, providertest.Options{LoseExit: -1}))
		})
	}
}

// kubernetes/kubernetes#64949, #66661, #94301. Whoever stands in between gives up
// when nothing is heard for some seconds, and the sandbox takes longer to hash.
func TestCase_B68(t *testing.T) {
	shims := t.TempDir()
	for _, tool := range []string{"sha256sum", "openssl"} {
		real, err := exec.LookPath(tool)
		if err != nil {
			continue
		}
		must(t, os.WriteFile(filepath.Join(shims, tool), []byte("#!/bin/sh\nsleep 7\nexec "+real+" \"$@\"\n"), 0o755))
	}
	sb := local.New(local.Options{Path: shims + ":" + os.Getenv("PATH")})
	for _, route := range []transfer.Route{transfer.Stream, transfer.Base64} {
		t.Run(string(route), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeTree(t, dir+"/src", map[string]string{"a": "a\n"})
			opt := options(route)
			opt.Verify, opt.Retries, opt.IdleTimeout = true, 0, 6*time.Second
			mustRun(t, sb, transfer.Push, dir+"/src", dir+"/dst", opt)
			compare{}.same(t, dir+"/src", dir+"/dst")
		})
	}
}

// ginlix-ai/LangAlpha#201, daytonaio/daytona#4142. A call that is never answered
// ends when nothing moves, not when all has taken long; answers of 502 pass.
func TestCase_B70(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Push, providertest.Options{})
		writeTree(t, w.source, threeFiles())
		writeTree(t, w.target, map[string]string{"old": "old\n"})
		w.opt.IdleTimeout, w.opt.Retries = 300*time.Millisecond, 1
		hang := func(n int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
			if n == 1 { // it looks, and then
				return run(cmd)
			}
			cmd.Args = []string{"sh", "-c", "exec sleep 600"}
			return run(cmd)
		}
		start := time.Now()
		_, _, err := w.runMeddled(hang)
		wantKind(t, err, provider.Timeout)
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("it took %v", d)
		}
		wantNames(t, w.target, "old")

		w = newWay(t, k, transfer.Push, providertest.Options{UnreachableFirst: 2, RoundTrip: 100 * time.Millisecond})
		writeTree(t, w.source, threeFiles())
		w.opt.Retries, w.opt.IdleTimeout = 3, 10*time.Second
		w.mustRun()
		k.compare().same(t, w.source, w.target)
		w.clean()
	})
}

// ProfessionalWiki/SimpleBatchUpload#83. No more calls a second than that, and 429
// for the rest: all files arrive, however many workers there are.
func TestCase_B71(t *testing.T) {
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		for _, busybox := range []bool{false, true} {
			t.Run(fmt.Sprint(dir, " BusyBox ", busybox), func(t *testing.T) {
				t.Parallel()
				w := newWay(t, kindOfSandbox{name: "base64", busybox: busybox}, dir, providertest.Options{RatePerSecond: 5})
				files := map[string]string{}
				for i := range 200 {
					files[fmt.Sprintf("f%d", i)] = noise(2000 + i)
				}
				writeTree(t, w.source, files)
				w.opt.ChunkBytes, w.opt.Retries = 32<<10, 3
				w.mustRun()
				compare{wholeSeconds: busybox}.same(t, w.source, w.target)
				w.clean()
			})
		}
	}
}
