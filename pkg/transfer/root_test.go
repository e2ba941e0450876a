package transfer_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// A whole file system is never mirrored onto or replaced. Dry runs, in case the
// guard is missing.
func TestRootOfTheFileSystemIsRefused(t *testing.T) {
	t.Parallel()
	sb := openFake(t, providertest.Options{Stream: true})
	src := t.TempDir()
	must(t, os.WriteFile(filepath.Join(src, "file"), []byte("x"), 0o644))
	for _, policy := range []transfer.Policy{transfer.Mirror, transfer.Replace} {
		opt := options(transfer.Auto)
		opt.Policy, opt.DryRun, opt.Force = policy, true, true
		opt.Limits.Entries = 1000
		if _, err := run(t, sb, transfer.Push, src, "/", opt); provider.KindOf(err) != provider.Refused {
			t.Errorf("push, %s: %v", policy, err)
		}
		if _, err := run(t, sb, transfer.Pull, src, "/", opt); provider.KindOf(err) != provider.Refused {
			t.Errorf("pull, %s: %v", policy, err)
		}
	}
}
