//go:build e2e && linux

// Package daytona measures the Daytona driver against the SDK's own loop over
// files and against the base64 route, on the test server:
//
//	go test -tags e2e -run '^$' -bench . -benchtime 5x ./e2e/daytona
//
// Each run is a process of its own, so that its peak of memory is its own, and
// the ways take turns.
package daytona

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/daytonaio/daytona/libs/sdk-go/pkg/daytona"

	"github.com/sbsync/sbsync/internal/daytonatest"
	driver "github.com/sbsync/sbsync/pkg/provider/daytona"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// result is what a run's process prints.
type result struct {
	Elapsed time.Duration
	PeakKiB int64 // resident
	calls   int
}

// ways to carry a tree.
var ways = []string{"native", "sdk", "base64"}

func TestMain(m *testing.M) {
	way := os.Getenv("BENCH_WAY")
	if way == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	if err := run(way, os.Getenv("BENCH_DIRECTION"), os.Getenv("BENCH_HOST"), os.Getenv("BENCH_BOX")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(result{Elapsed: time.Since(began), PeakKiB: peak()})
}

// peak is the most memory that this process had resident. (What getrusage says
// includes the process that started it.)
func peak() (kib int64) {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Sscan(after, &kib)
	return kib
}

// run carries a tree one way. Address and key are in the environment.
func run(way, direction, host, box string) error {
	ctx := context.Background()
	if way == "sdk" {
		return runSDK(ctx, direction, host, box)
	}
	sb, err := driver.Driver{}.Open(ctx, daytonatest.Name, nil)
	if err != nil {
		return err
	}
	defer sb.Close()
	opt := transfer.NewOptions()
	if way == "base64" {
		opt.Route = transfer.Base64
	}
	m := transfer.Mapping{Source: host, Target: box}
	if direction == string(transfer.Pull) {
		m.Source, m.Target = box, host
	}
	_, err = transfer.Run(ctx, transfer.Direction(direction), transfer.Target{Sandbox: sb, Name: "daytona"}, []transfer.Operation{{ID: "bench", Files: []transfer.Mapping{m}}}, opt)
	return err
}

// runSDK does what an SDK user does: a call for each file. The sandbox's side is
// a directory of this machine, so that the files to fetch can be listed for
// nothing.
func runSDK(ctx context.Context, direction, host, box string) error {
	client, err := sdk.NewClient()
	if err != nil {
		return err
	}
	found, err := client.Get(ctx, daytonatest.Name)
	if err != nil {
		return err
	}
	from := host
	if direction == string(transfer.Pull) {
		from = box
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if direction == string(transfer.Push) {
			return found.FileSystem.UploadFile(ctx, path, filepath.Join(box, rel))
		}
		to := filepath.Join(host, rel)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		_, err = found.FileSystem.DownloadFile(ctx, path, &to)
		return err
	})
}

func BenchmarkLargeFile(b *testing.B)  { compare(b, 1, 256<<20) }
func BenchmarkSmallFiles(b *testing.B) { compare(b, 5000, 4<<10) }

// compare carries files of a size each way, in turns, and prints medians.
func compare(b *testing.B, files, size int) {
	src := filepath.Join(b.TempDir(), "src")
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i*i>>8 + i)
	}
	for i := range files {
		path := filepath.Join(src, fmt.Sprintf("%02d", i%50), fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	s := daytonatest.Open(b, daytonatest.Options{})
	for _, direction := range []transfer.Direction{transfer.Push, transfer.Pull} {
		b.Run(string(direction), func(b *testing.B) {
			runs := map[string][]result{}
			for b.Loop() {
				for _, way := range ways {
					runs[way] = append(runs[way], measure(b, s, way, direction, src))
				}
			}
			native := median(runs["native"])
			for _, way := range ways {
				m := median(runs[way])
				b.Logf("%-6s %8.0f ms, %.2f times native; peak %4d MiB; %d requests", way, float64(m.Elapsed.Milliseconds()),
					m.Elapsed.Seconds()/native.Elapsed.Seconds(), m.PeakKiB>>10, m.calls)
				b.ReportMetric(m.Elapsed.Seconds()/native.Elapsed.Seconds(), way+"/native")
			}
		})
	}
}

// measure runs one process, whose target does not exist yet.
func measure(b *testing.B, s *daytonatest.Server, way string, direction transfer.Direction, src string) result {
	dir, err := os.MkdirTemp(b.TempDir(), "")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	host, box := src, filepath.Join(dir, "to")
	if direction == transfer.Pull {
		host, box = box, src
	}
	before := len(s.Requests(""))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "BENCH_WAY="+way, "BENCH_DIRECTION="+string(direction), "BENCH_HOST="+host, "BENCH_BOX="+box,
		"DAYTONA_API_KEY="+daytonatest.Key, "DAYTONA_API_URL="+s.URL, "TMPDIR="+dir)
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s %s: %v: %s", way, direction, err, failed.Bytes())
	}
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		b.Fatal(err)
	}
	r.calls = len(s.Requests("")) - before
	return r
}

func median(all []result) result {
	all = slices.Clone(all)
	slices.SortFunc(all, func(x, y result) int { return int(x.Elapsed - y.Elapsed) })
	m := all[len(all)/2]
	for _, r := range all {
		m.PeakKiB = max(m.PeakKiB, r.PeakKiB)
	}
	return m
}
