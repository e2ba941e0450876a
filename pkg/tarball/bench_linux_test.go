package tarball

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sbsync/sbsync/pkg/tree"
)

// benchTrees are what the benchmarks archive: many small files, and a large
// one that is all hole, so that reading it costs no disk.
func benchTrees(b *testing.B) map[string]string {
	dir, err := os.MkdirTemp("/dev/shm", "tarball")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	f, err := os.Create(filepath.Join(dir, "zeros"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 30); err != nil {
		b.Fatal(err)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	return map[string]string{"GoSource": filepath.Join(strings.TrimSpace(string(root)), "src"), "GiB": dir}
}

// intoPipe lets produce write to a pipe that cat empties and counts the bytes.
func intoPipe(b *testing.B, produce func(w *os.File)) {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	sink := exec.Command("cat")
	sink.Stdin = r
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	sink.Stdout = null
	if err := sink.Start(); err != nil {
		b.Fatal(err)
	}
	r.Close()
	produce(w)
	w.Close()
	if err := sink.Wait(); err != nil {
		b.Fatal(err)
	}
}

// writeTree archives a tree as a push does, in one goroutine.
func writeTree(w io.Writer, root string) error {
	aw := NewWriter(w)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			return err
		}
		h := Header{Name: path[len(root)+1:], Mode: st.Mode & 0o7777, Time: tree.Time{Sec: st.Mtim.Sec}}
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
			h.Type = Directory
			return aw.WriteHeader(h)
		case syscall.S_IFREG:
			h.Type, h.Size = RegularFile, st.Size
			fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer syscall.Close(fd)
			_, err = aw.WriteFile(h, descriptor(fd))
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	return aw.Close()
}

// descriptor is an open file without what os.File does for files that block.
type descriptor int

func (fd descriptor) Read(p []byte) (int, error) {
	n, err := syscall.Read(int(fd), p)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

func BenchmarkWrite(b *testing.B) {
	for name, root := range benchTrees(b) {
		var size bytesCounter
		if err := writeTree(&size, root); err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/Writer", func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				intoPipe(b, func(w *os.File) {
					if err := writeTree(w, root); err != nil {
						b.Fatal(err)
					}
				})
			}
		})
		b.Run(name+"/GNUtar", func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				intoPipe(b, func(w *os.File) {
					cmd := exec.Command("tar", "-C", root, "-cf", "-", ".")
					cmd.Stdout = w
					if err := cmd.Run(); err != nil {
						b.Fatal(err)
					}
				})
			}
		})
	}
}

type bytesCounter int64

func (c *bytesCounter) Write(p []byte) (int, error) {
	*c += bytesCounter(len(p))
	return len(p), nil
}

// BenchmarkHeaders writes headers alone.
func BenchmarkHeaders(b *testing.B) {
	b.ReportAllocs()
	w := NewWriter(io.Discard)
	h := Header{Name: "src/cmd/compile/internal/ssa/rewrite.go", Type: RegularFile, Mode: 0o644, Time: tree.Time{Sec: 1e9, Nsec: 123456789}}
	for b.Loop() {
		if err := w.WriteHeader(h); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for name, root := range benchTrees(b) {
		var data bytes.Buffer
		if err := writeTree(&data, root); err != nil {
			b.Fatal(err)
		}
		readers := map[string]func(io.Reader) error{"Reader": copyAll, "archive-tar": copyAllStd}
		for reader, read := range readers {
			b.Run(name+"/"+reader, func(b *testing.B) {
				b.SetBytes(int64(data.Len()))
				b.ReportAllocs()
				for b.Loop() {
					if err := read(struct{ io.Reader }{bytes.NewReader(data.Bytes())}); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(name+"/pipe/"+reader, func(b *testing.B) {
				b.SetBytes(int64(data.Len()))
				for b.Loop() {
					r, w, err := os.Pipe()
					if err != nil {
						b.Fatal(err)
					}
					go func() {
						w.Write(data.Bytes()) // fails only with the reader
						w.Close()
					}()
					if err := read(r); err != nil {
						b.Fatal(err)
					}
					r.Close()
				}
			})
		}
	}
}

func copyAll(src io.Reader) error {
	r := NewReader(src, ReaderOptions{})
	for {
		if _, err := r.Next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
	}
}

func copyAllStd(src io.Reader) error {
	r := tar.NewReader(src)
	for {
		if _, err := r.Next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
	}
}
