package providertest

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

// benchSize is enough to tell the speed of a transport from its latency.
const benchSize = 64 << 20

// Benchmark measures a sandbox: the round trip of a command, and the speed of
// Stream and Filer in both directions, as far as it has them. open returns a
// sandbox and a directory of it; it is called once.
func Benchmark(b *testing.B, open func(b *testing.B) (sb provider.Sandbox, dir string)) {
	sb, dir := open(b)
	command := func(script string) provider.Command {
		return provider.Command{Args: []string{"sh", "-c", script}, Dir: dir}
	}
	b.Run("exec", func(b *testing.B) {
		for b.Loop() {
			if res, err := sb.Exec(b.Context(), command(":")); err != nil || res.ExitCode != 0 {
				b.Fatal(res.ExitCode, err)
			}
		}
	})
	if s, ok := provider.StreamerOf(sb); ok {
		b.Run("stream in", func(b *testing.B) {
			b.SetBytes(benchSize)
			for b.Loop() {
				// The reader is not the last command: see Options.StopStdin.
				cmd := command(fmt.Sprintf(`head -c %d >/dev/null; true`, benchSize))
				cmd.Stdin, cmd.Stdout = io.LimitReader(endless{}, benchSize), io.Discard
				if res, err := s.Stream(b.Context(), cmd); err != nil || res.ExitCode != 0 {
					b.Fatal(res.ExitCode, err)
				}
			}
		})
		b.Run("stream out", func(b *testing.B) {
			b.SetBytes(benchSize)
			for b.Loop() {
				cmd := command(fmt.Sprintf(`head -c %d /dev/zero`, benchSize))
				n := int64(0)
				cmd.Stdout = writerFunc(func(p []byte) (int, error) { n += int64(len(p)); return len(p), nil })
				if res, err := s.Stream(b.Context(), cmd); err != nil || res.ExitCode != 0 {
					b.Fatal(n, res.ExitCode, err)
				}
			}
		})
	}
	if f, ok := provider.FilerOf(sb); ok {
		content := bytes.Repeat([]byte("x"), benchSize)
		file := putFile(dir+"/bench", content)
		b.Run("put", func(b *testing.B) {
			b.SetBytes(benchSize)
			for b.Loop() {
				if err := f.PutFiles(b.Context(), []provider.PutFile{file}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("get", func(b *testing.B) {
			b.SetBytes(benchSize)
			for b.Loop() {
				if err := f.GetFile(b.Context(), file.Path, 0, writerFunc(discard)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
