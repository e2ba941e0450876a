//go:build unix

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkStream compares push and pull on the stream route, local provider,
// with `tar -cf - | tar -xf -` of the same tree.
func BenchmarkStream(b *testing.B) {
	dir := scratch(b)
	big := filepath.Join(dir, "1GiB")
	if err := os.Mkdir(big, 0o755); err != nil {
		b.Fatal(err)
	}
	randomFile(b, filepath.Join(big, "file"), 1<<30)
	for _, work := range []struct{ name, tree string }{{"gosrc", goSource(b)}, {"1GiB", big}} {
		size, _ := treeSize(b, work.tree)
		box, out, peer := filepath.Join(dir, "box"), filepath.Join(dir, "out"), filepath.Join(dir, "peer")
		tar := side{remake(b, peer), func() sample {
			return command(b, "sh", "-c", `tar -cf - -C "$1" . | tar -xf - -C "$2"`, "sh", work.tree, peer)
		}}
		b.Run(work.name+"/push", func(b *testing.B) {
			all := compare(side{remake(b, box), func() sample {
				return command(b, sbsync, "push", "-q", work.tree, "local:"+filepath.Join(box, "tree"))
			}}, tar)
			report(b, all[0], all[1], size)
		})
		b.Run(work.name+"/pull", func(b *testing.B) {
			all := compare(side{remake(b, out), func() sample {
				return command(b, sbsync, "pull", "-q", "local:"+work.tree, filepath.Join(out, "tree"))
			}}, tar)
			report(b, all[0], all[1], size)
		})
		os.RemoveAll(box)
		os.RemoveAll(out)
		os.RemoveAll(peer)
	}
}

// BenchmarkMemory shows the peak resident memory for files of 10 MiB and 1 GiB.
func BenchmarkMemory(b *testing.B) {
	dir := scratch(b)
	for _, size := range []int64{10 << 20, 1 << 30} {
		file := filepath.Join(dir, "file")
		randomFile(b, file, size)
		for _, route := range []string{"stream", "base64"} {
			b.Run(fmt.Sprintf("%dMiB/%s", size>>20, route), func(b *testing.B) {
				target := filepath.Join(dir, "target")
				push := command(b, sbsync, "push", "-q", "--route", route, file, "local:"+target)
				pull := command(b, sbsync, "pull", "-q", "--route", route, "local:"+target, filepath.Join(dir, "back"))
				b.ReportMetric(float64(push.rss)/(1<<20), "push-MiB")
				b.ReportMetric(float64(pull.rss)/(1<<20), "pull-MiB")
				b.ReportMetric(0, "ns/op")
				os.Remove(target)
				os.Remove(filepath.Join(dir, "back"))
			})
		}
	}
}

// BenchmarkRepush compares pushing a tree again, unchanged and with one file
// changed, with its first push.
func BenchmarkRepush(b *testing.B) {
	dir := scratch(b)
	tree, box := filepath.Join(dir, "tree"), filepath.Join(dir, "box")
	command(b, "cp", "-a", goSource(b), tree)
	push := func() sample { return command(b, sbsync, "push", "-q", tree, "local:"+box) }
	touched := filepath.Join(tree, "fmt", "print.go")
	all := compare(
		side{func() { os.RemoveAll(box) }, push},
		side{nil, push},
		side{func() {
			now := time.Now()
			if err := os.Chtimes(touched, now, now); err != nil {
				b.Fatal(err)
			}
		}, push})
	first := median(all[0], seconds)
	b.ReportMetric(100*median(all[1], seconds)/first, "%unchanged")
	b.ReportMetric(100*median(all[2], seconds)/first, "%one-file")
	b.ReportMetric(first, "first-s")
	b.ReportMetric(0, "ns/op")
}
