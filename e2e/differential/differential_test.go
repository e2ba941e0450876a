//go:build e2e && linux

// Package differential carries many random trees there and back by every route,
// with GNU's and with BusyBox's tools in the sandbox, and compares what arrives
// with the source and with what tar makes of it.
//
//	go test -tags e2e ./e2e/differential -seed N -trees N
package differential

import (
	"flag"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sbsync/sbsync/internal/differential"
)

var (
	seed  = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of all trees")
	trees = flag.Uint64("trees", 2000, "how many")
	first = flag.Uint64("first", 0, "number of the first one")
)

func TestRandomTrees(t *testing.T) {
	var next atomic.Uint64
	next.Store(*first)
	end := *first + *trees
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) + 1 {
		b, err := differential.NewBench(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		workers.Go(func() {
			for !t.Failed() {
				i := next.Add(1) - 1
				if i >= end {
					return
				}
				if err := b.Try(*seed, i); err != nil {
					t.Errorf("tree %d: %v\nagain with: -seed %d -first %d -trees 1", i, err, *seed, i)
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d trees, -seed %d", min(next.Load(), end)-*first, *seed)
}

// TestMain runs as the superuser, or some kinds of entries are not there.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() != 0 {
		panic("e2e/differential needs root, for devices")
	}
	os.Exit(m.Run())
}
