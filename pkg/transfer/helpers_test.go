package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
	"github.com/sbsync/sbsync/pkg/tree"
)

// openFake opens a hostile fake sandbox.
func openFake(t testing.TB, opts providertest.Options) *providertest.Fake {
	t.Helper()
	if opts.BusyBox {
		providertest.NeedBusyBox(t)
	}
	return providertest.Open(t, opts)
}

// run carries out one mapping.
func run(t testing.TB, sb provider.Sandbox, dir transfer.Direction, source, target string, opt transfer.Options) (*transfer.Report, error) {
	t.Helper()
	if opt.Observer == nil {
		opt.Observer = logger{t}
	}
	ops := []transfer.Operation{{ID: "test", Files: []transfer.Mapping{{Source: source, Target: target}}}}
	return transfer.Run(context.Background(), dir, transfer.Target{Sandbox: sb, Name: "fake"}, ops, opt)
}

// mustRun is run without errors.
func mustRun(t testing.TB, sb provider.Sandbox, dir transfer.Direction, source, target string, opt transfer.Options) *transfer.Report {
	t.Helper()
	rep, err := run(t, sb, dir, source, target, opt)
	if err != nil {
		t.Fatalf("%s: %v (hint: %s)", dir, err, provider.HintOf(err))
	}
	return rep
}

func options(route transfer.Route) transfer.Options {
	o := transfer.NewOptions()
	o.Route = route
	return o
}

// logger shows what the engine does in the test's log.
type logger struct{ t testing.TB }

func (l logger) Routed(_ transfer.Mapping, route transfer.Route, why string) {
	l.t.Logf("route %s: %s", route, why)
}
func (l logger) Planned(transfer.Mapping, []transfer.PlannedEntry, int, int64) {}
func (l logger) Progress(int, int64)                                           {}
func (l logger) Phase(string)                                                  {}
func (l logger) Warn(p tree.Problem)                                           { l.t.Logf("problem %q: %v", p.Path, p.Err) }
func (l logger) Log(text string)                                               { l.t.Log(text) }

// oddNames are names that break tools which quote, glob, trim or split.
var oddNames = []string{
	"it's", `a"b`, "$(touch pwn)", "`id`", "a;b", "new\nline", "tab\there", `back\slash`, "-rf", "--help", "-",
	"broken[.txt", "[slug]-1.js", "a*b", "q?.md", "{x}", " lead", "trail ", "a:b", "x -> y", "..x", "...",
	"\xff\xfe", "\xed\xa0\x80", "cr\rhere", "é", "e\u0301", ".hidden", "~", "#x", "!x", "%s", "a//b"[:1] + "b",
	"\x01\x02\x7f\x80\x81\x88", strings.Repeat("n", 255),
}

// makeTree makes a tree with everything that can go wrong in it.
func makeTree(t testing.TB, dir string) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	write := func(name string, size int, mode fs.FileMode) {
		t.Helper()
		p := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		must(t, os.WriteFile(p, b, 0o600))
		must(t, os.Chmod(p, mode))
		must(t, os.Chtimes(p, time.Time{}, time.Unix(1_600_000_000+int64(rnd.IntN(1e8)), int64(rnd.IntN(1e9)))))
	}
	for i, n := range oddNames {
		write("odd/"+n, i*7, 0o644)
	}
	for _, mode := range []fs.FileMode{0o755, 0o600, 0o444, 0o640, 0o400} {
		write(fmt.Sprintf("modes/%04o", mode), 10, mode)
	}
	write("big", 3<<20, 0o644)
	write("empty", 0, 0o644)
	write("zeros", 0, 0o644)
	must(t, os.Truncate(filepath.Join(dir, "zeros"), 2<<20))
	write(strings.Repeat("deep/", 60)+"down", 100, 0o644)
	write("long/"+strings.Repeat("d", 120)+"/"+strings.Repeat("f", 120), 5, 0o644)
	must(t, os.MkdirAll(filepath.Join(dir, "dirs/empty"), 0o755))
	must(t, os.Mkdir(filepath.Join(dir, "dirs/private"), 0o700))
	write("dirs/readonly/file", 3, 0o644)
	must(t, os.Symlink("../big", filepath.Join(dir, "dirs/link")))
	must(t, os.Symlink("no such\nthing", filepath.Join(dir, "dirs/dangling")))
	must(t, os.Symlink(".", filepath.Join(dir, "dirs/self")))
	must(t, os.Symlink(strings.Repeat("x", 120), filepath.Join(dir, "dirs/longlink")))
	must(t, os.Link(filepath.Join(dir, "big"), filepath.Join(dir, "hard")))
	must(t, os.Link(filepath.Join(dir, "empty"), filepath.Join(dir, "dirs/hardempty")))
	old := time.Unix(-86400, 0)
	write("before1970", 4, 0o644)
	must(t, os.Chtimes(filepath.Join(dir, "before1970"), old, old))
	for _, d := range []string{"dirs/empty", "dirs/private", "odd", "modes", "dirs"} {
		must(t, os.Chtimes(filepath.Join(dir, d), time.Time{}, time.Unix(1_500_000_000+int64(len(d)), 0)))
	}
	must(t, os.Chmod(filepath.Join(dir, "dirs/readonly"), 0o555))
	t.Cleanup(func() { makeRemovable(dir) })
}

// makeRemovable lets a temporary directory be removed by a normal user.
func makeRemovable(dir string) {
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(p, 0o755)
		}
		return nil
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// compare says how two trees differ.
type compare struct {
	wholeSeconds bool // a tool of the sandbox keeps no fractions
	noDirTimes   bool
	noTimes      bool
}

func (c compare) same(t testing.TB, want, got string) {
	t.Helper()
	a, b := describeTree(t, want), describeTree(t, got)
	for p, x := range a {
		y, ok := b[p]
		if !ok {
			t.Errorf("%q is missing", p)
			continue
		}
		if c.wholeSeconds {
			x.time.Nsec, y.time.Nsec = 0, 0
		}
		if c.noTimes || c.noDirTimes && x.kind == tree.Dir || x.kind == tree.Symlink {
			x.time, y.time = tree.Time{}, tree.Time{}
		}
		if x != y {
			t.Errorf("%q differs:\n want %+v\n  got %+v", p, x, y)
		}
	}
	for p := range b {
		if _, ok := a[p]; !ok {
			t.Errorf("%q should not be there", p)
		}
	}
}

// described is what is compared of an entry.
type described struct {
	kind   tree.Type
	mode   uint32
	size   int64
	time   tree.Time
	link   string
	digest [32]byte
	twin   string // the first name of the same inode
}

func describeTree(t testing.TB, dir string) map[string]described {
	t.Helper()
	s, err := tree.Scan(context.Background(), dir, tree.ScanOptions{})
	must(t, err)
	all := map[string]described{}
	first := map[[2]uint64]string{}
	for _, e := range append([]tree.Entry{s.Root}, s.Entries...) {
		d := described{kind: e.Type, mode: e.Mode, size: e.Size, time: e.Time, link: e.Link}
		if e.Type == tree.Symlink {
			d.mode = 0
		}
		if e.Type == tree.File {
			b, err := os.ReadFile(filepath.Join(dir, e.Path))
			must(t, err)
			d.digest = sha256.Sum256(b)
			id := [2]uint64{e.Dev, e.Ino}
			if e.Nlink > 1 {
				if name, ok := first[id]; ok {
					d.twin = name
				} else {
					first[id] = e.Path
				}
			}
		}
		all[e.Path] = d
	}
	return all
}

// noScratch fails if anything of ours is left below the directories.
func noScratch(t testing.TB, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && tree.IsScratch(d.Name()) {
				t.Errorf("left behind: %s", p)
			}
			return nil
		})
	}
}

func readFile(t testing.TB, p string) string {
	t.Helper()
	b, err := os.ReadFile(p)
	must(t, err)
	return string(bytes.TrimSpace(b))
}
