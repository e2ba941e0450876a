package tree

import (
	"path/filepath"
	"runtime"
	"testing"
)

// BenchmarkScan scans the sources of the Go standard library.
func BenchmarkScan(b *testing.B) {
	root := filepath.Join(runtime.GOROOT(), "src")
	for b.Loop() {
		s, err := Scan(b.Context(), root, ScanOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(s.Entries)), "entries")
	}
}
