//go:build unix

package transfer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// arguments notes the longest argument and the most bytes of arguments that a
// sandbox was given.
type arguments struct {
	mu            sync.Mutex
	longest, most int
}

func (a *arguments) note(_ int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
	a.mu.Lock()
	all := 0
	for _, arg := range cmd.Args {
		a.longest = max(a.longest, len(arg))
		all += len(arg) + 1
	}
	a.most = max(a.most, all)
	a.mu.Unlock()
	return run(cmd)
}

// check fails if a command had arguments that Linux refuses: of 131,072 bytes
// and more (measured), or of more than 1 MiB together.
func (a *arguments) check(t testing.TB) {
	t.Helper()
	if a.longest >= 131072 || a.most > 1<<20 {
		t.Errorf("an argument of %d bytes; %d bytes of arguments", a.longest, a.most)
	}
}

// truefoundry/trueforge#416, earendil-works/gondolin#130,
// langchain-ai/deepagents#1402, agentscope-ai/agentscope-java#2618. Without a
// standard input all goes in arguments, none of which is too long.
func TestCase_B72(t *testing.T) {
	for _, busybox := range []bool{false, true} {
		for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
			t.Run(fmt.Sprint(dir, " BusyBox ", busybox), func(t *testing.T) {
				t.Parallel()
				w := newWay(t, kindOfSandbox{name: "base64", busybox: busybox}, dir, providertest.Options{NoStdin: true})
				files := map[string]string{}
				for _, kib := range []int{90, 96, 97, 98, 128, 1024} {
					for _, more := range []int{-1, 0, 1} {
						files[fmt.Sprintf("%d KiB %+d", kib, more)] = noise(kib<<10 + more)
					}
				}
				writeTree(t, w.source, files)
				var a arguments
				_, _, err := w.runMeddled(a.note)
				must(t, err)
				a.check(t)
				compare{wholeSeconds: busybox}.same(t, w.source, w.target)

				// Each alone, as a file of its own.
				for name := range files {
					if strings.HasSuffix(name, "+0") {
						one := w
						one.source, one.target = filepath.Join(w.source, name), w.target+".one"
						_, _, err := one.runMeddled(a.note)
						must(t, err)
						compare{wholeSeconds: busybox}.same(t, one.source, one.target)
					}
				}
				a.check(t)
				w.clean()
			})
		}
	}
}

// GoogleContainerTools/skaffold#4821, madarco/agentbox#359. Lists of 20,000 names
// travel as data: to make, to change, to delete.
func TestCase_B73(t *testing.T) {
	const files = 20_000
	for _, k := range []kindOfSandbox{kindsOfSandboxes[0], kindsOfSandboxes[3]} {
		for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
			t.Run(k.name+", "+string(dir), func(t *testing.T) {
				t.Parallel()
				w := newWay(t, k, dir, providertest.Options{})
				for i := range files {
					p := filepath.Join(w.source, fmt.Sprint("directory ", i%20), fmt.Sprintf("a file with a rather long name, number %d", i))
					if i < 20 {
						must(t, os.MkdirAll(filepath.Dir(p), 0o755))
					}
					must(t, os.WriteFile(p, nil, 0o644))
				}
				var a arguments
				rep, _, err := w.runMeddled(a.note)
				must(t, err)
				if rep.Files != files {
					t.Errorf("%d files", rep.Files)
				}
				for i := range 20 {
					must(t, os.RemoveAll(filepath.Join(w.source, fmt.Sprint("directory ", i))))
				}
				writeTree(t, w.source, map[string]string{"left": "left\n"})
				w.opt.Policy = transfer.Mirror
				rep, _, err = w.runMeddled(a.note)
				must(t, err)
				if rep.Deleted != files+20 {
					t.Errorf("%d were deleted", rep.Deleted)
				}
				wantNames(t, w.target, "left")
				a.check(t)
				w.clean()
			})
		}
	}
}

// agentscope-ai/agentscope-java#1860. However base64 wraps its lines, pulls
// decode it; what is no base64 is an error with its place, in script.TestDecode
// and script.TestUnpackRefuses.
func TestCase_B74(t *testing.T) {
	for _, wrap := range []string{providertest.WrapLF, providertest.WrapCRLF, providertest.WrapBare} {
		for _, busybox := range []bool{false, true} {
			t.Run(fmt.Sprint(wrap, " BusyBox ", busybox), func(t *testing.T) {
				t.Parallel()
				f := openFake(t, providertest.Options{Base64Wrap: wrap, BusyBox: busybox})
				box, out := filepath.Join(f.Root(), "src"), filepath.Join(t.TempDir(), "out")
				files := threeFiles()
				for n := range 10 { // ends of all kinds
					files[fmt.Sprint("tail", n)] = noise(57*3 + n)
				}
				writeTree(t, box, files)
				opt := options(transfer.Base64)
				opt.Retries = 0
				mustRun(t, f, transfer.Pull, box, out, opt)
				compare{wholeSeconds: busybox}.same(t, box, out)
				big := filepath.Join(f.Root(), "big")
				must(t, os.WriteFile(big, []byte(noise(3<<20+1)), 0o644))
				opt.ChunkBytes = 1 << 20
				mustRun(t, f, transfer.Pull, big, out+".big", opt)
				compare{wholeSeconds: busybox}.same(t, big, out+".big")
			})
		}
	}
}

// kubernetes/kubernetes#138518, kubernetes/kubectl#1617: here 4,000 files, in
// e2e/scale 45,000. Calls take long, each: there are few of them, and a stall is
// an error and no hang (TestCase_B70).
func TestCase_B76(t *testing.T) {
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		everywhereNamed(t, string(dir), func(t *testing.T, k kindOfSandbox) {
			w := newWay(t, k, dir, providertest.Options{})
			for i := range 4000 {
				p := filepath.Join(w.source, fmt.Sprint(i%100), fmt.Sprint(i))
				if i < 100 {
					must(t, os.MkdirAll(filepath.Dir(p), 0o755))
				}
				must(t, os.WriteFile(p, []byte(fmt.Sprint(i)), 0o644))
			}
			rep := w.mustRun()
			if rep.Files != 4000 || rep.Calls > 12 {
				t.Errorf("%d files, %d calls", rep.Files, rep.Calls)
			}
			compare{wholeSeconds: k.busybox}.same(t, w.source, w.target)
			w.clean()
		})
	}
}
