package confine

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// benchFiles is the tree of the benchmarks: 10,000 small files, 100 to a
// directory, five levels deep.
func benchFiles() (dirs, files []string) {
	for i := range 10 {
		top := fmt.Sprintf("packages/p%d", i)
		dirs = append(dirs, top, top+"/lib", top+"/lib/src")
		for j := range 10 {
			dir := fmt.Sprintf("%s/lib/src/m%d", top, j)
			dirs = append(dirs, dir)
			for k := range 100 {
				files = append(files, fmt.Sprintf("%s/f%d.txt", dir, k))
			}
		}
	}
	return append([]string{"packages"}, dirs...), files
}

// spread calls do for all files from n goroutines, as a walk in order does.
func spread(b *testing.B, n int, files []string, do func(rel string) error) {
	b.Helper()
	work := make(chan string, 64)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for rel := range work {
				if err := do(rel); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for _, rel := range files {
		work <- rel
	}
	close(work)
	wg.Wait()
}

func BenchmarkStage(b *testing.B) {
	dirs, files := benchFiles()
	content := make([]byte, 1024)
	for _, workers := range []int{1, 4} {
		b.Run(fmt.Sprintf("os.WriteFile/workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				root := b.TempDir()
				for _, rel := range dirs {
					os.Mkdir(filepath.Join(root, rel), 0o700)
				}
				spread(b, workers, files, func(rel string) error {
					return os.WriteFile(filepath.Join(root, rel), content, 0o600)
				})
			}
		})
		b.Run(fmt.Sprintf("os.WriteFile+chmod+chtimes/workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				root := b.TempDir()
				for _, rel := range dirs {
					os.Mkdir(filepath.Join(root, rel), 0o700)
				}
				spread(b, workers, files, func(rel string) error {
					p := filepath.Join(root, rel)
					if err := os.WriteFile(p, content, 0o600); err != nil {
						return err
					}
					if err := os.Chmod(p, 0o644); err != nil {
						return err
					}
					return os.Chtimes(p, testTimeStd, testTimeStd)
				})
			}
		})
		b.Run(fmt.Sprintf("os.Root/workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				root, err := os.OpenRoot(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				for _, rel := range dirs {
					root.Mkdir(rel, 0o700)
				}
				spread(b, workers, files, func(rel string) error { return root.WriteFile(rel, content, 0o600) })
				root.Close()
			}
		})
		b.Run(fmt.Sprintf("Stage/workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				s, err := OpenStage(filepath.Join(b.TempDir(), "out"), Beside)
				if err != nil {
					b.Fatal(err)
				}
				s.Mkdir("")
				for _, rel := range dirs {
					if err := s.Mkdir(rel); err != nil {
						b.Fatal(err)
					}
				}
				spread(b, workers, files, func(rel string) error {
					f, err := s.Create(rel)
					if err != nil {
						return err
					}
					f.Write(content)
					return s.FinishFile(f, 0o644, testTime)
				})
				if err := s.PublishRoot(); err != nil {
					b.Fatal(err)
				}
				if err := s.Commit(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPublish(b *testing.B) {
	dirs, files := benchFiles()
	for b.Loop() {
		b.StopTimer()
		dest := b.TempDir()
		for _, rel := range dirs {
			os.Mkdir(filepath.Join(dest, rel), 0o700)
		}
		s, err := OpenStage(dest, Inside)
		if err != nil {
			b.Fatal(err)
		}
		for _, rel := range files {
			os.WriteFile(filepath.Join(dest, rel), nil, 0o600)
			f, err := s.Create(rel)
			if err != nil {
				b.Fatal(err)
			}
			s.FinishFile(f, 0o644, testTime)
		}
		b.StartTimer()
		for _, rel := range files {
			if err := s.PublishOver(rel); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		if err := s.Commit(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkSource(b *testing.B) {
	dirs, files := benchFiles()
	dir := b.TempDir()
	for _, rel := range dirs {
		os.Mkdir(filepath.Join(dir, rel), 0o700)
	}
	for _, rel := range files {
		os.WriteFile(filepath.Join(dir, rel), make([]byte, 1024), 0o600)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	s, err := OpenSource(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	drain := func(f *os.File, err error) error {
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(io.Discard, f)
		return err
	}
	opens := []struct {
		name string
		open func(rel string) (*os.File, error)
	}{
		{"os.Open", func(rel string) (*os.File, error) { return os.Open(filepath.Join(dir, rel)) }},
		{"os.Root", root.Open},
		{"Source", func(rel string) (*os.File, error) { f, _, err := s.Open(rel, false); return f, err }},
		{"Source, follow", func(rel string) (*os.File, error) { f, _, err := s.Open(rel, true); return f, err }},
	}
	for _, o := range opens {
		for _, workers := range []int{1, 4} {
			b.Run(fmt.Sprintf("%s/workers=%d", o.name, workers), func(b *testing.B) {
				for b.Loop() {
					spread(b, workers, files, func(rel string) error { return drain(o.open(rel)) })
				}
			})
		}
	}
}
