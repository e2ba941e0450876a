package transfer_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
	"github.com/sbsync/sbsync/pkg/tree"
)

// Tests named TestCase_ID are about a public report; docs/cases.md lists them
// all. What is said there of the sandbox's tools and of the routes is here:

// kindOfSandbox is one of the four that a case is tried in.
type kindOfSandbox struct {
	name            string
	stream, busybox bool
}

var kindsOfSandboxes = []kindOfSandbox{
	{name: "stream, GNU", stream: true},
	{name: "base64, GNU"},
	{name: "stream, BusyBox", stream: true, busybox: true},
	{name: "base64, BusyBox", busybox: true},
}

// everywhere runs a test in all kinds of sandboxes.
func everywhere(t *testing.T, test func(t *testing.T, k kindOfSandbox)) {
	t.Helper()
	everywhereNamed(t, "", test)
}

func everywhereNamed(t *testing.T, what string, test func(t *testing.T, k kindOfSandbox)) {
	t.Helper()
	for _, k := range kindsOfSandboxes {
		t.Run(strings.TrimPrefix(what+", "+k.name, ", "), func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

// fake opens a sandbox of the kind, with faults.
func (k kindOfSandbox) fake(t testing.TB, opts providertest.Options) *providertest.Fake {
	t.Helper()
	opts.Stream, opts.BusyBox = k.stream, k.busybox
	return openFake(t, opts)
}

// route is the one that the kind is about.
func (k kindOfSandbox) route() transfer.Route {
	if k.stream {
		return transfer.Stream
	}
	return transfer.Base64
}

// options are those of the route, without retries: what fails once fails.
func (k kindOfSandbox) options() transfer.Options {
	o := options(k.route())
	o.Retries = 0
	return o
}

// compare is for merged trees, whose old directories keep their times.
func (k kindOfSandbox) compare() compare { return compare{wholeSeconds: k.busybox, noDirTimes: true} }

// writeTree makes files with the given contents; a name that ends in a slash is
// a directory, and a content that begins with "-> " makes a link.
func writeTree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	for name, content := range files {
		p := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(p, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		if text, isLink := strings.CutPrefix(content, "-> "); isLink {
			must(t, os.Symlink(text, p))
		} else {
			must(t, os.WriteFile(p, []byte(content), 0o644))
		}
	}
}

// threeFiles is a tree that is large enough to be cut in many places.
func threeFiles() map[string]string {
	return map[string]string{"a": strings.Repeat("aA1\n", 1000), "dir/b": noise(300 << 10), "dir/c": "c\n", "link": "-> a", "empty/": ""}
}

// noise is text that does not compress, always the same.
func noise(n int) string {
	b := make([]byte, n)
	x := uint64(n)*2 + 1
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	return string(b)
}

// oldAndNew is a transfer over an existing tree, or with nil for the files over
// an existing file: from the host to the sandbox on a push, and the reverse.
type oldAndNew struct {
	t              testing.TB
	source, target string
	dirs           []string // where scratch could be left
	old            map[string]described
}

func newOldAndNew(t testing.TB, f *providertest.Fake, dir transfer.Direction, files map[string]string) *oldAndNew {
	t.Helper()
	return newOldAndNewIn(t, t.TempDir(), f.Root(), dir, files)
}

func newOldAndNewIn(t testing.TB, host, box string, dir transfer.Direction, files map[string]string) *oldAndNew {
	t.Helper()
	o := &oldAndNew{t: t, dirs: []string{host, box}}
	o.source, o.target = filepath.Join(host, "src"), filepath.Join(box, "dst")
	if dir == transfer.Pull {
		o.source, o.target = filepath.Join(box, "src"), filepath.Join(host, "dst")
	}
	if files == nil {
		must(t, os.WriteFile(o.source, []byte(noise(400<<10)), 0o644))
		must(t, os.WriteFile(o.target, []byte("old\n"), 0o600))
	} else {
		writeTree(t, o.source, files)
		writeTree(t, o.target, map[string]string{"a": "old a\n", "dir/b": "old b\n", "mine": "mine\n"})
	}
	o.old = describeTree(t, o.target)
	return o
}

// unchanged fails if the target is not as it was, but for times of directories,
// or if scratch is left.
func (o *oldAndNew) unchanged() {
	o.t.Helper()
	now := describeTree(o.t, o.target)
	for p, was := range o.old {
		is := now[p]
		if was.kind == tree.Dir {
			is.time, was.time = tree.Time{}, tree.Time{}
		}
		if is != was {
			o.t.Errorf("%q was changed", p)
		}
	}
	for p := range now {
		if _, ok := o.old[p]; !ok {
			o.t.Errorf("%q should not be there", p)
		}
	}
	noScratch(o.t, o.dirs...)
}

// wantKind fails if an error is not of one of the kinds.
func wantKind(t testing.TB, err error, kinds ...provider.Kind) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, k := range kinds {
		if provider.KindOf(err) == k {
			return
		}
	}
	t.Errorf("error of kind %s, want %v: %v", provider.KindOf(err), kinds, err)
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return !errors.Is(err, fs.ErrNotExist)
}
