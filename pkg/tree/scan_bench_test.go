package tree

import (
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goSource is the source of the Go standard library.
func goSource(b *testing.B) string {
	b.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src")
}

// BenchmarkScan scans the sources of the Go standard library.
func BenchmarkScan(b *testing.B) {
	root := goSource(b)
	for b.Loop() {
		s, err := Scan(b.Context(), root, ScanOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(s.Entries)), "entries")
	}
}

// BenchmarkWalkDir is what the standard library needs for the same.
func BenchmarkWalkDir(b *testing.B) {
	root := goSource(b)
	for b.Loop() {
		err := filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
			if err == nil {
				_, err = d.Info()
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkScanIgnored scans with a long ignore file.
func BenchmarkScanIgnored(b *testing.B) {
	root := goSource(b)
	opt := RuleOptions{TarExclude: []string{"*.o", "node_modules", ".git"}}
	for i := range 100 {
		opt.Exclude = append(opt.Exclude, fmt.Sprintf("name%d", i), fmt.Sprintf("*.ext%d", i), fmt.Sprintf("/a/b%d/*.[oa]", i), fmt.Sprintf("x*y%d*", i))
	}
	rules, err := NewRules(opt)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Scan(b.Context(), root, ScanOptions{Rules: rules}); err != nil {
			b.Fatal(err)
		}
	}
}
