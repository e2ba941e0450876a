//go:build unix

package bench

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

var (
	runs    = flag.Int("runs", 5, "how often each side is measured")
	workDir = flag.String("dir", "", "where to make trees (default: /dev/shm if it is there)")
	sbsync  string // the binary that is measured
)

// launchVariable in the environment makes this program start another and print
// how much memory that took. A process inherits the peak of the one that
// started it, so the launcher has to be small, which benchmarks are not.
const launchVariable = "BENCH_LAUNCH"

func launch() int {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	fmt.Println(use.Maxrss, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Microseconds())
	return 0
}

func TestMain(m *testing.M) {
	if os.Getenv(launchVariable) != "" {
		os.Exit(launch())
	}
	flag.Parse()
	if *workDir == "" {
		if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
			*workDir = "/dev/shm"
		}
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if flag.Lookup("test.bench").Value.String() == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "sbsync-bench-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	sbsync = filepath.Join(dir, "sbsync")
	build := exec.Command("go", "build", "-o", sbsync, "github.com/sbsync/sbsync")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// scratch makes a directory that is removed at the end.
func scratch(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp(*workDir, "sbsync-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// sample is one measured run.
type sample struct {
	seconds float64
	cpu     float64 // user and system time of the process and what it waited for
	rss     int64   // peak resident bytes of the process itself
}

// command runs a program and measures it.
func command(b *testing.B, name string, args ...string) sample {
	b.Helper()
	cmd := exec.Command(os.Args[0], append([]string{name}, args...)...)
	cmd.Env = append(os.Environ(), launchVariable+"=1")
	cmd.Stderr = os.Stderr
	start := time.Now()
	out, err := cmd.Output()
	s := sample{seconds: time.Since(start).Seconds()}
	var micro int64
	if _, serr := fmt.Sscan(string(out), &s.rss, &micro); err != nil || serr != nil {
		b.Fatalf("%s %q: %v %v", name, args, err, serr)
	}
	s.cpu = float64(micro) / 1e6
	if runtime.GOOS == "linux" {
		s.rss <<= 10 // getrusage(2): kilobytes on Linux, bytes on macOS
	}
	return s
}

// side is one of the things that are compared. prepare is not measured.
type side struct {
	prepare func()
	measure func() sample
}

// compare measures the sides in turn and returns their samples.
func compare(sides ...side) [][]sample {
	all := make([][]sample, len(sides))
	for range *runs {
		for i, s := range sides {
			if s.prepare != nil {
				s.prepare()
			}
			all[i] = append(all[i], s.measure())
		}
	}
	return all
}

func median(samples []sample, of func(sample) float64) float64 {
	v := make([]float64, len(samples))
	for i, s := range samples {
		v[i] = of(s)
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func seconds(s sample) float64 { return s.seconds }

// report shows ours beside the peer's, and how much faster ours is.
func report(b *testing.B, ours, peer []sample, bytes int64) {
	b.Helper()
	our, their := median(ours, seconds), median(peer, seconds)
	b.ReportMetric(their/our, "x-peer")
	b.ReportMetric(our, "s")
	b.ReportMetric(their, "peer-s")
	if bytes > 0 {
		b.ReportMetric(float64(bytes)/our/1e6, "MB/s")
	}
	rss := median(ours, func(s sample) float64 { return float64(s.rss) })
	if rss > 0 {
		b.ReportMetric(rss/(1<<20), "peak-MiB")
	}
	cpu := median(ours, func(s sample) float64 { return s.cpu })
	if cpu > 0 {
		b.ReportMetric(cpu, "cpu-s")
	}
	b.ReportMetric(0, "ns/op") // the whole loop, which says nothing
}

// goSource is the standard library's source: about 10,000 files.
func goSource(b *testing.B) string {
	b.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	return filepath.Join(string(out[:len(out)-1]), "src")
}

func treeSize(b *testing.B, dir string) (bytes int64, files int) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			info, ierr := d.Info()
			if ierr != nil {
				return ierr
			}
			bytes += info.Size()
			files++
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return bytes, files
}

// randomFile makes a file that no compression makes smaller.
func randomFile(b *testing.B, name string, size int64) {
	b.Helper()
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	var seed [32]byte
	if _, err := io.CopyN(f, rand.NewChaCha8(seed), size); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

// smallFiles makes n files of 1 to 16 KiB.
func smallFiles(b *testing.B, dir string, n int) {
	b.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		d := filepath.Join(dir, fmt.Sprintf("d%03d", i/50))
		if err := os.MkdirAll(d, 0o755); err != nil {
			b.Fatal(err)
		}
		buf := make([]byte, 1<<10+rnd.IntN(15<<10))
		for k := range buf {
			buf[k] = byte('a' + rnd.IntN(16))
		}
		if err := os.WriteFile(filepath.Join(d, fmt.Sprintf("f%05d", i)), buf, 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

func remake(b *testing.B, dir string) func() {
	return func() {
		if err := os.RemoveAll(dir); err != nil {
			b.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
	}
}

var ctx = context.Background()
