//go:build unix

package differential_test

import (
	"flag"
	"testing"
	"time"

	"github.com/sbsync/sbsync/internal/differential"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random trees")

// 30 random trees; e2e/differential carries 2,000.
func TestRandomTrees(t *testing.T) {
	providertest.NeedBusyBox(t)
	b, err := differential.NewBench(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for i := range uint64(30) {
		if err := b.Try(*seed, i); err != nil {
			t.Fatalf("tree %d of -seed %d: %v", i, *seed, err)
		}
	}
}
