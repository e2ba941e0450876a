//go:build unix

package transfer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// A mount point can't be swapped, and what is in it can be replaced.
func TestReplaceOfAMountPoint(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		must(t, os.MkdirAll(w.target, 0o755))
		if !mountSmall(t, w.target, 4<<20) {
			return // the same happens in TestReplaceInPlace
		}
		must(t, os.Chmod(w.target, 0o755))
		writeTree(t, w.source, map[string]string{"a": "new\n", ".hidden/x": "h\n"})
		writeTree(t, w.target, map[string]string{"a": "old\n", ".old/x": "o\n", "b": ""})
		w.opt.Policy = transfer.Replace
		rep := w.mustRun()
		if rep.Atomic {
			t.Error("it says that this was atomic")
		}
		wantNames(t, w.target, ".hidden/ .hidden/x a")
		w.clean()
		// Too much for it: the old content comes back.
		writeTree(t, w.source, map[string]string{"large": noise(6 << 20)})
		_, err := w.run()
		wantKind(t, err, provider.NoSpace)
		wantNames(t, w.target, ".hidden/ .hidden/x a")
		w.clean()
	})
}

// B63: the disk that is full is the host's.
func TestHostIsFull(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Pull, providertest.Options{})
		disk := filepath.Join(w.host, "disk")
		must(t, os.Mkdir(disk, 0o755))
		if !mountSmall(t, disk, 1<<20) {
			return // e2e/full has a file system of its own
		}
		writeTree(t, w.source, map[string]string{"a": "new\n", "large": noise(5 << 20), "many/x": noise(100 << 10)})
		w.target = filepath.Join(disk, "dst")
		writeTree(t, w.target, map[string]string{"a": "old\n"})
		for _, policy := range []transfer.Policy{transfer.Update, transfer.Replace} {
			w.opt.Policy = policy
			_, err := w.run()
			wantKind(t, err, provider.NoSpace)
			if !strings.Contains(err.Error(), "bytes free") {
				t.Errorf("it does not say how much is free: %v", err)
			}
			wantNames(t, w.target, "a")
			if readFile(t, filepath.Join(w.target, "a")) != "old" {
				t.Error("the old file is gone")
			}
			w.clean()
		}
	})
}

// A sandbox that may not be written: nothing is made, and that is what is said.
func TestReadOnlySandbox(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Push, providertest.Options{ReadOnly: true})
		writeTree(t, w.source, map[string]string{"a": "a\n"})
		for _, target := range []string{w.target, filepath.Join(w.target, "deep/er"), w.f.Root()} {
			_, err := run(t, w.f, w.dir, w.source, target, w.opt)
			if provider.KindOf(err) != provider.ReadOnly || provider.HintOf(err) == "" {
				t.Errorf("%s: %v, kind %s", target, err, provider.KindOf(err))
			}
		}
		wantNames(t, w.f.Root(), "")
		// Reading it is fine, and leaves nothing there.
		must(t, os.Chmod(w.f.Root(), 0o755))
		writeTree(t, w.f.Root(), map[string]string{"src/a": "a\n"})
		must(t, os.Chmod(w.f.Root(), 0o555))
		mustRun(t, w.f, transfer.Pull, w.f.Root()+"/src", filepath.Join(w.host, "back"), w.opt)
	})
}

// A tool that is not there is named.
func TestMissingTools(t *testing.T) {
	for _, stream := range []bool{true, false} {
		for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
			for _, missing := range []string{"base64", "dd", "cmp", "xargs", "mv", "rm", "sha256sum openssl shasum cksum", "find stat", "tar base64"} {
				if dir == transfer.Pull && (missing == "cmp" || missing == "xargs" || missing == "mv" || missing == "rm") {
					continue // not needed
				}
				if stream && missing != "mv" && missing != "find stat" && missing != "tar base64" {
					continue
				}
				t.Run(strings.Join([]string{map[bool]string{true: "stream", false: "base64"}[stream], string(dir), missing}, ", "), func(t *testing.T) {
					t.Parallel()
					f := openFake(t, providertest.Options{Stream: stream, Without: strings.Fields(missing)})
					host := t.TempDir()
					writeTree(t, host, map[string]string{"tree/f": "f\n"})
					writeTree(t, f.Root(), map[string]string{"tree/f": "old\n", "tree/g": "g\n"})
					source, target := host+"/tree", f.Root()+"/tree"
					if dir == transfer.Pull {
						source, target = target, source
					}
					_, err := run(t, f, dir, source, target, options(transfer.Auto))
					wantKind(t, err, provider.Missing)
					last := strings.Fields(missing)[len(strings.Fields(missing))-1]
					if err != nil && (!strings.Contains(err.Error(), last) || provider.HintOf(err) == "") {
						t.Errorf("it does not name %s: %v (hint %q)", last, err, provider.HintOf(err))
					}
					wantNames(t, host+"/tree", "f")
					wantNames(t, f.Root()+"/tree", "f g")
					noScratch(t, host, f.Root())
				})
			}
		}
	}
	t.Run("no shell", func(t *testing.T) {
		f := openFake(t, providertest.Options{Only: []string{"cat"}})
		_, err := run(t, f, transfer.Push, t.TempDir(), f.Root()+"/x", options(transfer.Auto))
		wantKind(t, err, provider.Missing)
	})
}
