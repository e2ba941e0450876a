//go:build unix

package bench

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/local"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// delayed adds a round trip to every command.
type delayed struct {
	provider.Sandbox
	rtt time.Duration
}

func (d *delayed) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	time.Sleep(d.rtt)
	return d.Sandbox.Exec(ctx, cmd)
}

func openDelayed(b *testing.B, rtt time.Duration) provider.Sandbox {
	b.Helper()
	sb, err := local.Driver{}.Open(ctx, "", provider.Config{"exec_only": true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { sb.Close() })
	return &delayed{Sandbox: sb, rtt: rtt}
}

// upstream is the loop that docs/contract.md compares the base64 route with: an
// archive in memory, 3 MiB of it at a time as base64 text on standard input,
// one command after the other, the length the only check.
type upstream struct {
	b  *testing.B
	sb provider.Sandbox
}

const upstreamChunk = 3 << 20

func (u upstream) exec(script string, stdin io.Reader) string {
	u.b.Helper()
	res, err := u.sb.Exec(ctx, provider.Command{Args: []string{"sh", "-c", script}, Stdin: stdin})
	if err != nil || res.ExitCode != 0 {
		u.b.Fatalf("%s: %v, exit code %d: %s", script, err, res.ExitCode, res.Stderr)
	}
	return string(bytes.TrimSpace(res.Stdout))
}

// put writes content to a file: 3 + ceil(n / 3 MiB) commands.
func (u upstream) put(content []byte, target string) {
	tmp := target + ".tmp"
	u.exec("mkdir -p "+filepath.Dir(target)+" && rm -f "+tmp, nil)
	for i := 0; i < len(content); i += upstreamChunk {
		part := content[i:min(i+upstreamChunk, len(content))]
		u.exec("base64 -d >>"+tmp, bytes.NewReader([]byte(base64.StdEncoding.EncodeToString(part))))
	}
	if got := u.exec("wc -c <"+tmp, nil); got != fmt.Sprint(len(content)) {
		u.b.Fatalf("%s bytes arrived", got)
	}
	u.exec("mv -f "+tmp+" "+target, nil)
}

func (u upstream) pushFile(file, target string) {
	content, err := os.ReadFile(file)
	if err != nil {
		u.b.Fatal(err)
	}
	u.put(content, target)
}

func (u upstream) pushTree(tree, target string) {
	archive, err := exec.Command("tar", "-cf", "-", "-C", tree, ".").Output()
	if err != nil {
		u.b.Fatal(err)
	}
	u.put(archive, target+".tar")
	u.exec("mkdir -p "+target+" && tar -xf "+target+".tar -C "+target+" && rm -f "+target+".tar", nil)
}

// get reads a file: chunks of base64 text, each by one command.
func (u upstream) get(source string) []byte {
	size := 0
	fmt.Sscan(u.exec("wc -c <"+source, nil), &size)
	content := make([]byte, 0, size)
	for i := 0; i < size; i += upstreamChunk {
		text := u.exec(fmt.Sprintf("dd if=%s bs=%d skip=%d count=1 2>/dev/null | base64 | tr -d '\\n'", source, upstreamChunk, i/upstreamChunk), nil)
		part, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			u.b.Fatal(err)
		}
		content = append(content, part...)
	}
	return content
}

func (u upstream) pullFile(source, file string) {
	if err := os.WriteFile(file, u.get(source), 0o644); err != nil {
		u.b.Fatal(err)
	}
}

func (u upstream) pullTree(source, dir string) {
	u.exec("tar -cf "+source+".tar -C "+source+" .", nil)
	archive := u.get(source + ".tar")
	u.exec("rm -f "+source+".tar", nil)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		u.b.Fatal(err)
	}
	x := exec.Command("tar", "-xf", "-", "-C", dir)
	x.Stdin = bytes.NewReader(archive)
	if out, err := x.CombinedOutput(); err != nil {
		u.b.Fatalf("%v: %s", err, out)
	}
}

// engine runs sbsync's own base64 route in this process.
func engine(b *testing.B, sb provider.Sandbox, dir transfer.Direction, source, target string) *transfer.Report {
	b.Helper()
	opt := transfer.NewOptions()
	opt.Route = transfer.Base64
	rep, err := transfer.Run(ctx, dir, transfer.Target{Sandbox: sb, Name: "local"},
		[]transfer.Operation{{ID: "bench", Files: []transfer.Mapping{{Source: source, Target: target}}}}, opt)
	if err != nil {
		b.Fatal(err)
	}
	return rep
}

func timed(do func()) sample {
	start := time.Now()
	do()
	return sample{seconds: time.Since(start).Seconds()}
}

// BenchmarkBase64 compares the base64 route with upstream's loop, with and
// without a round trip.
func BenchmarkBase64(b *testing.B) {
	dir := scratch(b)
	file := filepath.Join(dir, "64MiB")
	randomFile(b, file, 64<<20)
	for _, rtt := range []time.Duration{0, 50 * time.Millisecond} {
		for _, work := range []struct {
			name, source string
			tree         bool
		}{{"64MiB", file, false}, {"gosrc", goSource(b), true}} {
			size, _ := treeSize(b, work.source)
			sb := openDelayed(b, rtt)
			up := upstream{b, sb}
			box, peer := filepath.Join(dir, "box"), filepath.Join(dir, "peer")
			b.Run(fmt.Sprintf("%s/%dms/push", work.name, rtt.Milliseconds()), func(b *testing.B) {
				all := compare(
					side{remake(b, box), func() sample {
						return timed(func() { engine(b, sb, transfer.Push, work.source, filepath.Join(box, "x")) })
					}},
					side{remake(b, peer), func() sample {
						return timed(func() {
							if work.tree {
								up.pushTree(work.source, filepath.Join(peer, "x"))
							} else {
								up.pushFile(work.source, filepath.Join(peer, "x"))
							}
						})
					}})
				report(b, all[0], all[1], size)
			})
			b.Run(fmt.Sprintf("%s/%dms/pull", work.name, rtt.Milliseconds()), func(b *testing.B) {
				from, out := filepath.Join(box, "x"), filepath.Join(dir, "out")
				remake(b, box)()
				engine(b, openDelayed(b, 0), transfer.Push, work.source, from)
				all := compare(
					side{remake(b, out), func() sample {
						return timed(func() { engine(b, sb, transfer.Pull, from, filepath.Join(out, "x")) })
					}},
					side{remake(b, peer), func() sample {
						return timed(func() {
							if work.tree {
								up.pullTree(from, filepath.Join(peer, "x"))
							} else {
								up.pullFile(from, filepath.Join(peer, "x"))
							}
						})
					}})
				report(b, all[0], all[1], size)
			})
		}
	}
}

// BenchmarkCalls counts the commands that 5,000 small files take.
func BenchmarkCalls(b *testing.B) {
	dir := scratch(b)
	tree := filepath.Join(dir, "tree")
	smallFiles(b, tree, 5000)
	sb := openDelayed(b, 0)
	push := engine(b, sb, transfer.Push, tree, filepath.Join(dir, "box"))
	pull := engine(b, sb, transfer.Pull, filepath.Join(dir, "box"), filepath.Join(dir, "out"))
	b.ReportMetric(float64(push.Calls), "push-calls")
	b.ReportMetric(float64(pull.Calls), "pull-calls")
	b.ReportMetric(0, "ns/op")
}
