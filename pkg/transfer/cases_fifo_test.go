package transfer_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// https://github.com/oven-sh/bun/issues/37937,
// https://github.com/osscontainertools/kaniko/issues/948 and
// https://github.com/otiai10/copy/issues/47: a FIFO is waited for. Here a file
// becomes one after it was listed; case_B43.txtar has those that are there
// before. The rest is carried, and nothing waits.
func TestCase_B43(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "large": 5 << 20} {
		for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
			everywhereNamed(t, name+", "+string(dir), func(t *testing.T, k kindOfSandbox) {
				host, box := t.TempDir(), t.TempDir()
				files := map[string]string{"first": "1\n", "pipe": noise(size), "zlast": "z\n"}
				o := newOldAndNewIn(t, host, box, dir, files)
				sb := &planting{Sandbox: k.machine(t, nil), plant: func() {
					p := filepath.Join(o.source, "pipe")
					must(t, os.Remove(p))
					makeFIFO(t, p)
				}}
				opt := k.options()
				opt.ChunkBytes = 1 << 20
				opt.Observer = onSend{logger{t}, func() { sb.now("send") }}
				opt.IdleTimeout = time.Minute // to be waited for by whoever hangs
				start := time.Now()
				again := dir == transfer.Pull && k.stream // listed again, it is no file any more
				if again {
					opt.Retries = 1
				}
				rep, err := run(t, sb, dir, o.source, o.target, opt)
				if again {
					must(t, err)
				} else {
					wantKind(t, err, provider.Partial)
				}
				if len(rep.Problems) != 1 || rep.Problems[0].Path != "pipe" {
					t.Errorf("problems: %v", rep.Problems)
				}
				if exists(filepath.Join(o.target, "pipe")) {
					t.Error("something took the FIFO's place")
				}
				for _, name := range []string{"first", "zlast"} {
					if got := readFile(t, filepath.Join(o.target, name)); got+"\n" != files[name] {
						t.Errorf("%q is %q", name, got)
					}
				}
				if d := time.Since(start); d > 30*time.Second {
					t.Errorf("it took %v", d)
				}
				noScratch(t, o.dirs...)
			})
		}
	}
}

// Neighbours of B43: sockets and devices. They are left out with a warning, or
// refused if they are what was named.
func TestCase_B43_kinds(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		host, box := t.TempDir(), t.TempDir()
		for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
			from, to := host, box
			if dir == transfer.Pull {
				from, to = box, host
			}
			src, dst := filepath.Join(from, "src"), filepath.Join(to, "dst")
			writeTree(t, src, map[string]string{"file": "file\n", "link": "-> s"})
			special := makeSpecial(t, src)
			sb := k.machine(t, nil)
			rep := mustRun(t, sb, dir, src, dst, k.options())
			if rep.Skipped != len(special) || len(rep.Problems) != len(special) {
				t.Errorf("%d skipped, %d problems, want %d", rep.Skipped, len(rep.Problems), len(special))
			}
			if got := readFile(t, filepath.Join(dst, "file")); got != "file" {
				t.Errorf("the file is %q", got)
			}
			for _, name := range special {
				if exists(filepath.Join(dst, name)) {
					t.Errorf("%q is there", name)
				}
				_, err := run(t, sb, dir, filepath.Join(src, name), filepath.Join(to, "single"), k.options())
				wantKind(t, err, provider.Usage)
				// Nor is one replaced, unless that is asked for.
				_, err = run(t, sb, dir, filepath.Join(dst, "file"), filepath.Join(src, name), k.options())
				if err == nil {
					t.Errorf("a file took the place of %q", name)
				}
			}
		}
	})
}

// onSend does something when all is looked at and the sending begins.
type onSend struct {
	logger
	do func()
}

func (o onSend) Phase(name string) {
	if name == "send" {
		o.do()
	}
}
