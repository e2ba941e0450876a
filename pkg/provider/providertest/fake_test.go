package providertest

import (
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

func TestFakePassesSuite(t *testing.T) {
	for name, opts := range map[string]Options{
		"exec only":     {},
		"all verbs":     {Stream: true, Files: true},
		"no stdin":      {NoStdin: true, TextOutput: true, MergedOutput: true, Files: true},
		"no half-close": {NoHalfClose: true, Stream: true},
		"limits":        {MaxStdin: 100_000, MaxStdout: 65_536, MaxArg: 30_000, MaxConcurrent: 2},
		"containerd":    {Stream: true, StopStdin: true},
		"busybox":       {Stream: true, BusyBox: true},
		"other user":    {Stream: true, OtherUser: true, Umask: 0o077},
	} {
		t.Run(name, func(t *testing.T) {
			NoLeaks(t)
			Suite(t, func(t *testing.T) (provider.Sandbox, string) {
				f := Open(t, opts)
				return f, f.Root()
			})
		})
	}
}
