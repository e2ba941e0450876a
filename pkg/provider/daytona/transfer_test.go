//go:build linux

package daytona_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/internal/daytonatest"
	"github.com/sbsync/sbsync/internal/randtree"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func carry(t *testing.T, sb provider.Sandbox, dir transfer.Direction, from, to string, edit func(*transfer.Options)) (*transfer.Report, error) {
	t.Helper()
	opt := transfer.NewOptions()
	if edit != nil {
		edit(&opt)
	}
	ops := []transfer.Operation{{ID: "test", Files: []transfer.Mapping{{Source: from, Target: to}}}}
	return transfer.Run(t.Context(), dir, transfer.Target{Sandbox: sb, Name: "daytona:box"}, ops, opt)
}

func mustCarry(t *testing.T, sb provider.Sandbox, dir transfer.Direction, from, to string, edit func(*transfer.Options)) *transfer.Report {
	t.Helper()
	report, err := carry(t, sb, dir, from, to, edit)
	if err != nil {
		t.Fatalf("%s: %v (%s)", dir, err, provider.HintOf(err))
	}
	return report
}

// makeTree makes a tree of what an API like this one loses: modes, times, links,
// empty directories and files, hard links, odd names, and files of all sizes.
func makeTree(t *testing.T, root string) {
	t.Helper()
	at := time.Unix(1_700_000_000, 123456789)
	write := func(name string, size int, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, bytes.Repeat([]byte(name[:1]+"\x00\xff\n"), size/4+1)[:size], 0o600))
		must(t, os.Chmod(path, mode))
		must(t, os.Chtimes(path, at, at))
		at = at.Add(time.Second + 1)
	}
	for i, name := range []string{"it's", `a"b`, "$(touch pwn)", "new\nline", " lead", "trail ", "cr\r", "\xff\xfe", "-rf", "*", strings.Repeat("n", 255), "é", "%41+"} {
		write("odd/"+name, i, 0o644)
	}
	for _, mode := range []os.FileMode{0o755, 0o600, 0o444, 0o640} {
		write(fmt.Sprintf("modes/%o", mode), 10, mode)
	}
	write("empty", 0, 0o600)
	write("large", 9<<20, 0o640)
	write("deep/er/large trail ", 8<<20+1, 0o755)
	must(t, os.Link(filepath.Join(root, "large"), filepath.Join(root, "odd/hard")))
	must(t, os.MkdirAll(filepath.Join(root, "dirs/empty"), 0o700))
	must(t, os.Symlink("../large", filepath.Join(root, "dirs/link")))
	must(t, os.Symlink("no\nsuch", filepath.Join(root, "dirs/dangling")))
	for _, dir := range []string{"dirs/empty", "dirs", "odd", "deep/er", "deep", ""} {
		must(t, os.Chtimes(filepath.Join(root, dir), at, at))
	}
}

func same(t *testing.T, want, got string, wholeSeconds bool) {
	t.Helper()
	a, err := randtree.Look(want)
	must(t, err)
	b, err := randtree.Look(got)
	must(t, err)
	if wholeSeconds {
		a, b = a.WholeSeconds(), b.WholeSeconds()
	}
	if text := a.Differs(b); text != "" {
		t.Errorf("%s and %s differ: %s", want, got, text)
	}
}

func noScratch(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(d.Name(), ".sbsync-") {
				t.Errorf("left behind: %s", path)
			}
			return err
		}))
	}
}

// Whatever the daemon, its tools and the route are: the same tree arrives, an
// unchanged one is not sent again, deletes are done, and nothing is left behind.
func TestEveryRouteGivesTheSame(t *testing.T) {
	clean(t)
	for daemon, version := range daemons {
		for _, route := range []transfer.Route{transfer.Bulk, transfer.Base64} {
			for _, tools := range []string{"gnu", "busybox"} {
				t.Run(fmt.Sprintf("%s, %s, %s", daemon, route, tools), func(t *testing.T) {
					providertest.NoLeaks(t)
					opts := daytonatest.Options{Daemon: version}
					if tools == "busybox" {
						opts.Path = providertest.BusyBoxPath(t)
					}
					tmp, work := t.TempDir(), t.TempDir()
					t.Setenv("TMPDIR", tmp)
					sb := open(t, daytonatest.Open(t, opts))
					src, box, back := filepath.Join(work, "src"), filepath.Join(work, "new/box"), filepath.Join(work, "back")
					makeTree(t, src)
					want := func(o *transfer.Options) {
						if route == transfer.Base64 {
							o.Route = route
						}
						o.Verify = version == 190
					}
					for range 2 {
						report := mustCarry(t, sb, transfer.Push, src, box, want)
						if report.Route != route && report.Files > 0 {
							t.Errorf("route %s, want %s", report.Route, route)
						}
					}
					same(t, src, box, tools == "busybox")
					if report := mustCarry(t, sb, transfer.Pull, box, back, want); report.Route != route {
						t.Errorf("route %s, want %s", report.Route, route)
					}
					same(t, box, back, tools == "busybox")
					must(t, os.Remove(filepath.Join(src, "large")))
					must(t, os.WriteFile(filepath.Join(src, "empty"), []byte("no more"), 0o600))
					report := mustCarry(t, sb, transfer.Push, src, box, func(o *transfer.Options) { want(o); o.Policy = transfer.Mirror })
					if report.Deleted != 1 {
						t.Errorf("%d entries were deleted, want 1", report.Deleted)
					}
					must(t, os.Chtimes(src, time.Unix(1_600_000_000, 0), time.Unix(1_600_000_000, 0)))
					must(t, os.Chtimes(box, time.Unix(1_600_000_000, 0), time.Unix(1_600_000_000, 0)))
					same(t, src, box, tools == "busybox")
					noScratch(t, work, tmp)
				})
			}
		}
	}
}
