//go:build linux

package kubernetes

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

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

func carry(t *testing.T, sb provider.Sandbox, dir transfer.Direction, from, to string, edit func(*transfer.Options)) *transfer.Report {
	t.Helper()
	opt := transfer.NewOptions()
	edit(&opt)
	ops := []transfer.Operation{{ID: "test", Files: []transfer.Mapping{{Source: from, Target: to}}}}
	report, err := transfer.Run(t.Context(), dir, transfer.Target{Sandbox: sb, Name: "kubernetes:web-1"}, ops, opt)
	if err != nil {
		t.Fatalf("%s: %v (%s)", dir, err, provider.HintOf(err))
	}
	return report
}

// makeTree makes a tree with more in one file than a pipe and a connection hold.
func makeTree(t *testing.T, root string) {
	t.Helper()
	at := time.Unix(1_700_000_000, 123456789)
	for i, name := range []string{"large", "deep/er/empty", "odd/it's", "odd/new\nline", "odd/\xff\xfe", "odd/-rf", "odd/ lead", "x"} {
		path := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		size := i % 5 * 1000
		if i == 0 {
			size = 3<<20 + 1
		}
		must(t, os.WriteFile(path, bytes.Repeat([]byte(name[:1]+"\x00\xff\n"), size/4+1)[:size], 0o640))
		must(t, os.Chtimes(path, at, at))
	}
	must(t, os.Symlink("../large", filepath.Join(root, "deep/link")))
	for _, dir := range []string{"odd", "deep/er", "deep", ""} {
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

// The server loses input once an output has ended, and, if the machine happens to
// be slow enough, output of a command that has exited. Trees arrive whole all the same.
func TestPushAndPull(t *testing.T) {
	providertest.NoLeaks(t)
	t.Run("over", func(t *testing.T) { // so that NoLeaks comes after those in parallel
		for _, protocol := range []string{protocolSPDY, protocolWebSocket} {
			for _, route := range []transfer.Route{transfer.Stream, transfer.Base64} {
				for _, tools := range []string{"gnu", "busybox"} {
					if route == transfer.Base64 && (tools == "gnu") != (protocol == protocolSPDY) {
						continue // it is slow, and each is there once
					}
					t.Run(fmt.Sprintf("%s, %s, %s", protocol, route, tools), func(t *testing.T) {
						t.Parallel()
						testPushAndPull(t, protocol, route, tools)
					})
				}
			}
		}
	})
}

func testPushAndPull(t *testing.T, protocol string, route transfer.Route, tools string) {
	s := &server{pods: pods}
	if tools == "busybox" {
		s.path = providertest.BusyBoxPath(t)
	}
	sb, work := open(t, s, protocol), t.TempDir()
	src, box, back := filepath.Join(work, "src"), filepath.Join(work, "box"), filepath.Join(work, "back")
	makeTree(t, src)
	want := func(o *transfer.Options) { o.Route = route }
	if report := carry(t, sb, transfer.Push, src, box, want); report.Route != route {
		t.Errorf("push: route %s, want %s", report.Route, route)
	}
	same(t, src, box, tools == "busybox")
	if report := carry(t, sb, transfer.Push, src, box, want); report.Files != 0 {
		t.Errorf("unchanged: %d files are sent again", report.Files)
	}
	if report := carry(t, sb, transfer.Pull, box, back, want); report.Route != route {
		t.Errorf("pull: route %s, want %s", report.Route, route)
	}
	same(t, box, back, tools == "busybox")
}
