package transfer_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// sandboxes are kinds of sandboxes that all must give the same result.
var sandboxes = []struct {
	name    string
	opts    providertest.Options
	options func(*transfer.Options)
	compare compare
	route   transfer.Route
}{
	{name: "stream, GNU", opts: providertest.Options{Stream: true}, route: transfer.Stream},
	{name: "stream, GNU, verified", opts: providertest.Options{Stream: true}, options: func(o *transfer.Options) { o.Verify = true }, route: transfer.Stream},
	{name: "stream, BusyBox", opts: providertest.Options{Stream: true, BusyBox: true}, compare: compare{wholeSeconds: true}, route: transfer.Stream},
	{name: "stream, umask 077", opts: providertest.Options{Stream: true, Umask: 0o077}, route: transfer.Stream},
	{name: "stream, other user", opts: providertest.Options{Stream: true, OtherUser: true, Umask: 0o077}, route: transfer.Stream},
	{name: "stream, BusyBox, other user", opts: providertest.Options{Stream: true, BusyBox: true, OtherUser: true, Umask: 0o077}, compare: compare{wholeSeconds: true}, route: transfer.Stream},
	{name: "stream without half-close", opts: providertest.Options{Stream: true, NoHalfClose: true}, route: transfer.Base64},
	{name: "stream without tar", opts: providertest.Options{Stream: true, Without: []string{"tar"}}, route: transfer.Base64},
	{name: "stream, late exit", opts: providertest.Options{Stream: true, DelayExit: 300 * time.Millisecond}, route: transfer.Stream},
	{name: "stream, tail lost unless acknowledged", opts: providertest.Options{Stream: true, LoseTail: 4096, StopStdin: true}, route: transfer.Stream},
	{name: "exec, GNU", opts: providertest.Options{}, route: transfer.Base64},
	{name: "exec, BusyBox", opts: providertest.Options{BusyBox: true}, compare: compare{wholeSeconds: true}, route: transfer.Base64},
	{name: "exec, BusyBox, other user", opts: providertest.Options{BusyBox: true, OtherUser: true, Umask: 0o027}, compare: compare{wholeSeconds: true}, route: transfer.Base64},
	{name: "exec, without stdin", opts: providertest.Options{NoStdin: true}, route: transfer.Base64},
	{name: "exec, without stdin, BusyBox", opts: providertest.Options{NoStdin: true, BusyBox: true}, compare: compare{wholeSeconds: true}, route: transfer.Base64},
	{name: "exec, stdin lost once", opts: providertest.Options{DropStdin: 1}, route: transfer.Base64},
	{name: "exec, stdin lost always", opts: providertest.Options{DropStdin: 1 << 30}, route: transfer.Base64},
	{name: "exec, output capped and said", opts: providertest.Options{MaxStdout: 256 << 10}, route: transfer.Base64},
	{name: "exec, output capped and not said", opts: providertest.Options{CutStdout: 512 << 10}, route: transfer.Base64},
	{name: "exec, output merged and text", opts: providertest.Options{MergedOutput: true, TextOutput: true, NoStdin: true}, route: transfer.Base64},
	{name: "exec, base64 wraps with CRLF", opts: providertest.Options{Base64Wrap: providertest.WrapCRLF}, route: transfer.Base64},
	{name: "exec, base64 wraps with LF", opts: providertest.Options{Base64Wrap: providertest.WrapLF}, route: transfer.Base64},
	{name: "exec without half-close", opts: providertest.Options{NoHalfClose: true}, route: transfer.Base64},
	{name: "exec without gzip", opts: providertest.Options{Without: []string{"gzip"}}, route: transfer.Base64},
	{name: "exec without SHA-256", opts: providertest.Options{Without: []string{"sha256sum", "openssl", "shasum"}}, route: transfer.Base64},
	{name: "exec without find", opts: providertest.Options{Without: []string{"find"}}, route: transfer.Base64},
	{name: "exec without tar", opts: providertest.Options{Without: []string{"tar"}}, route: transfer.Base64},
	{name: "exec without stdin, find, tar, gzip", opts: providertest.Options{NoStdin: true, Without: []string{"find", "tar", "gzip"}}, route: transfer.Base64},
	{name: "exec, calls fail at first", opts: providertest.Options{UnreachableFirst: 2}, route: transfer.Base64},
	{name: "exec, little input at a time", opts: providertest.Options{MaxStdin: 256 << 10}, route: transfer.Base64},
}

func TestEverySandboxGivesTheSame(t *testing.T) {
	for _, s := range sandboxes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			sb := openFake(t, s.opts)
			host := t.TempDir()
			src, back := filepath.Join(host, "src"), filepath.Join(host, "back")
			makeTree(t, src)
			t.Cleanup(func() { makeRemovable(host); makeRemovable(sb.Root()) })
			opt := options(transfer.Auto)
			if s.options != nil {
				s.options(&opt)
			}
			box := filepath.Join(sb.Root(), "new", "box")

			rep := mustRun(t, sb, transfer.Push, src, box, opt)
			if rep.Route != s.route {
				t.Errorf("route %s, want %s", rep.Route, s.route)
			}
			s.compare.same(t, src, box)
			rep = mustRun(t, sb, transfer.Push, src, box, opt)
			if rep.Files+rep.Links+rep.Dirs+rep.Changed != 0 {
				t.Errorf("an unchanged tree was sent again: %+v", rep)
			}

			rep = mustRun(t, sb, transfer.Pull, box, back, opt)
			if rep.Route != s.route {
				t.Errorf("route %s, want %s", rep.Route, s.route)
			}
			s.compare.same(t, src, back)
			rep = mustRun(t, sb, transfer.Pull, box, back, opt)
			if rep.Files+rep.Links+rep.Dirs+rep.Changed != 0 {
				t.Errorf("an unchanged tree was fetched again: %+v", rep)
			}
			noScratch(t, host, sb.Root())
		})
	}
}
