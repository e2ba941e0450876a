package providertest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

func checkStdout(b *box) {
	if got := b.run(`printf 'a\nb'`); got != "a\nb" {
		b.Errorf("output %q, want %q", got, "a\nb")
	}
	if got := b.run(`:`); got != "" {
		b.Errorf("output %q of a command without", got)
	}
	var script strings.Builder
	want := make([]byte, 256)
	for i := range want {
		want[i] = byte(i)
		fmt.Fprintf(&script, `\%03o`, i)
	}
	var out bytes.Buffer
	cmd := b.command("printf '" + script.String() + "'")
	cmd.Stdout = &out
	res := b.exec(cmd)
	if len(res.Stdout) > 0 {
		b.Errorf("Result.Stdout holds %d bytes though Command.Stdout was set", len(res.Stdout))
	}
	if !b.without(!b.caps.TextOutput, "binary output") {
		b.same("output of all byte values", out.Bytes(), want)
	}
	// More than any buffer on the way, and the command ends at once
	// (e2b-dev/E2B#170).
	n := limited(1<<20, b.caps.MaxStdout)
	if got := b.run(fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, n)); int64(len(got)) != n {
		b.Errorf("output of %d bytes and an exit: got %d", n, len(got))
	}
}

func checkStderr(b *box) {
	res := b.exec(b.command(`echo out; echo err >&2; exit 3`))
	if b.caps.MergedOutput {
		if out := string(res.Stdout); !strings.Contains(out, "out\n") || !strings.Contains(out, "err\n") {
			b.Errorf("merged output %q lacks a part", out)
		}
		b.Logf("not checked: the tail of standard error, which is merged into the output")
		return
	}
	if string(res.Stdout) != "out\n" || string(res.Stderr) != "err\n" || res.ExitCode != 3 {
		b.Errorf("output %q, error output %q, exit code %d", res.Stdout, res.Stderr, res.ExitCode)
	}
	res = b.exec(b.command(`head -c 200000 /dev/zero | tr '\0' x >&2; echo the end >&2`))
	if n := len(res.Stderr); n > provider.StderrTail || n < provider.StderrTail/2 || !bytes.HasSuffix(res.Stderr, []byte("xthe end\n")) {
		b.Errorf("error output of 200 KB: kept %d bytes, which end in %.20q", n, res.Stderr[max(0, n-20):])
	}
}

func checkNoInput(b *box) {
	if !b.caps.HalfClose && b.caps.Stdin {
		b.Logf("not checked: the sandbox says that commands never see the end of their input")
		return
	}
	if got := b.run(`cat; echo end`); got != "end\n" {
		b.Errorf("no input: output %q", got)
	}
	if b.without(b.caps.Stdin, "stdin") {
		cmd := b.command(`cat >got; true`)
		cmd.Stdin = strings.NewReader("lost?")
		if _, err := b.sb.Exec(b.ctx, cmd); err == nil {
			if got := b.get("got"); len(got) == 0 {
				b.Errorf("input was taken and dropped without an error")
			} else {
				b.Errorf("input arrives though the capabilities say no")
			}
		}
		return
	}
	cmd := b.command(`cat; echo end`)
	cmd.Stdin = strings.NewReader("")
	if res := b.exec(cmd); string(res.Stdout) != "end\n" {
		b.Errorf("empty input: output %q", res.Stdout)
	}
}

func checkStdinBytes(b *box) {
	if b.without(b.caps.Stdin, "stdin") {
		return
	}
	want := make([]byte, 256, 256+70000)
	for i := range want {
		want[i] = byte(i)
	}
	want = append(want, bytes.Repeat([]byte("\r\n\x00\xff\x1a\x04"), 10000)...)
	want = want[:limited(int64(len(want)), b.caps.MaxStdin)]
	cmd := b.command(b.read(len(want)) + ` >got; true`)
	cmd.Stdin = bytes.NewReader(want)
	if res := b.exec(cmd); res.ExitCode != 0 {
		b.Fatalf("exit code %d, %s", res.ExitCode, res.Stderr)
	}
	b.same("input", b.get("got"), want)
}

// largeSize is more than all buffers on the way together.
const largeSize = 16 << 20

func checkLarge(b *box) {
	if b.without(b.caps.Stdin, "stdin") {
		return
	}
	want := b.pattern(int(limited(limited(largeSize, b.caps.MaxStdin), b.caps.MaxStdout)))
	cmd := b.command(b.read(len(want)))
	cmd.Stdin = bytes.NewReader(want)
	b.same("input through cat", b.exec(cmd).Stdout, want)
}

// checkUnreadInput: the exit code tells more than EPIPE does.
func checkUnreadInput(b *box) {
	if b.without(b.caps.Stdin, "stdin") {
		return
	}
	cmd := b.command(`exit 3`)
	cmd.Stdin = b.unread()
	b.exitsWith3("input without an end", cmd, b.sb.Exec)
	if b.caps.MaxStdin > 0 {
		return // held before it is sent, so it must come first
	}
	r, w := io.Pipe()
	defer w.Close()
	cmd.Stdin = r
	b.exitsWith3("input that never comes", cmd, b.sb.Exec)
}

func checkFailingInput(b *box) {
	if b.without(b.caps.Stdin, "stdin") {
		return
	}
	b.failsWith("input fails", func(boom error) error {
		cmd := b.command(b.read(1<<20) + ` >got; true`)
		cmd.Stdin = io.MultiReader(bytes.NewReader(make([]byte, 1000)), failing{boom})
		_, err := b.sb.Exec(b.ctx, cmd)
		return err
	})
}

func checkFailingOutput(b *box) {
	b.failsWith("output fails", func(boom error) error {
		cmd := b.command(`echo output; head -c 100000 /dev/zero`)
		cmd.Stdout = failing{boom}
		_, err := b.sb.Exec(b.ctx, cmd)
		return err
	})
}

// failsWith checks that an error of the caller's own comes back to it.
func (b *box) failsWith(what string, run func(boom error) error) {
	b.Helper()
	boom := errors.New("boom")
	if err := run(boom); !errors.Is(err, boom) {
		b.Errorf("%s: error %v, want one that wraps the stream's own", what, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func checkOutputLimit(b *box) {
	cmd := b.command(`head -c 1000 /dev/zero | tr '\0' x`)
	cmd.MaxOutput = 1000
	if res := b.exec(cmd); len(res.Stdout) != 1000 {
		b.Errorf("output of 1000 bytes and a limit of 1000: got %d", len(res.Stdout))
	}
	cmd.MaxOutput = 999
	if res, err := b.sb.Exec(b.ctx, cmd); provider.KindOf(err) != provider.TooLarge {
		b.Errorf("output of 1000 bytes and a limit of 999: error %v of kind %v, %d bytes; want kind %v", err, provider.KindOf(err), len(res.Stdout), provider.TooLarge)
	}
}

// streamer returns the verb if the sandbox has it.
func (b *box) streamer() provider.Streamer {
	s, ok := provider.StreamerOf(b.sb)
	if b.without(ok, "stream") {
		return nil
	}
	return s
}

// checkLive talks with a command: each line must arrive before the next is
// sent.
func checkLive(b *box) {
	s := b.streamer()
	if s == nil {
		return
	}
	in, toCommand := io.Pipe()
	fromCommand, out := io.Pipe()
	defer toCommand.Close()
	ended := make(chan error, 1)
	go func() {
		cmd := b.command(`while read line; do echo "got $line"; [ "$line" != end ] || exit 3; done`)
		cmd.Stdin, cmd.Stdout = in, out
		res, err := s.Stream(b.ctx, cmd)
		if err == nil && res.ExitCode != 3 {
			err = fmt.Errorf("exit code %d, want 3", res.ExitCode)
		}
		out.CloseWithError(err)
		in.CloseWithError(io.ErrClosedPipe)
		ended <- err
	}()
	for _, line := range []string{"one", "two", "end"} {
		if _, err := io.WriteString(toCommand, line+"\n"); err != nil {
			b.Fatalf("send %q: %v", line, err)
		}
		want := "got " + line + "\n"
		got := make([]byte, len(want))
		if _, err := io.ReadFull(fromCommand, got); err != nil || string(got) != want {
			b.Fatalf("sent %q, got %q, error %v", line, got, err)
		}
	}
	if err := <-ended; err != nil {
		b.Errorf("%v", err)
	}
}

// slowReader reads at 25 MB/s at most, 128 KiB at a time.
type slowReader struct{ r io.Reader }

func (s slowReader) Read(p []byte) (int, error) {
	time.Sleep(5 * time.Millisecond)
	return s.r.Read(p)
}

// checkSlowReader reads more slowly than the command writes. The command waits
// for an acknowledgement: without it, real clusters lose the end of the output
// (kubernetes/kubernetes#124571), which no driver can mend.
func checkSlowReader(b *box) {
	s := b.streamer()
	if s == nil {
		return
	}
	in, toCommand := io.Pipe()
	fromCommand, out := io.Pipe()
	defer toCommand.Close()
	defer fromCommand.Close()
	ended := make(chan error, 1)
	go func() {
		cmd := b.command(fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; echo; read ack; [ "$ack" = ok ] && exit 3`, largeSize))
		cmd.Stdin, cmd.Stdout = in, out
		res, err := s.Stream(b.ctx, cmd)
		if err == nil && res.ExitCode != 3 {
			err = fmt.Errorf("exit code %d, want 3", res.ExitCode)
		}
		out.CloseWithError(io.ErrUnexpectedEOF)
		in.CloseWithError(io.ErrClosedPipe)
		ended <- err
	}()
	n, err := io.CopyBuffer(writerFunc(discard), io.LimitReader(slowReader{fromCommand}, largeSize+1), make([]byte, 128<<10))
	if err == nil && n < largeSize+1 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		b.Fatalf("%d of %d bytes arrive: %v", n, largeSize+1, err)
	}
	if _, err := io.WriteString(toCommand, "ok\n"); err != nil {
		b.Fatalf("acknowledge: %v", err)
	}
	if err := <-ended; err != nil {
		b.Errorf("%v", err)
	}
}

func discard(p []byte) (int, error) { return len(p), nil }

func checkStreamBytes(b *box) {
	s := b.streamer()
	if s == nil {
		return
	}
	if b.caps.TextOutput {
		b.Errorf("a stream must be binary-safe, but TextOutput is set")
	}
	want := b.pattern(1 << 20)
	var got bytes.Buffer
	// The last line keeps the command alive until its output got through.
	cmd := b.command(fmt.Sprintf(`head -c %d; read ack`, len(want)))
	in, toCommand := io.Pipe()
	defer toCommand.Close()
	cmd.Stdin = io.MultiReader(bytes.NewReader(want), in)
	cmd.Stdout = writerFunc(func(p []byte) (int, error) {
		got.Write(p)
		if got.Len() >= len(want) {
			go io.WriteString(toCommand, "ok\n")
		}
		return len(p), nil
	})
	if _, err := s.Stream(b.ctx, cmd); err != nil {
		b.Fatalf("stream: %v", err)
	}
	in.Close()
	b.same("input through a stream", got.Bytes(), want)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func checkStreamUnread(b *box) {
	s := b.streamer()
	if s == nil {
		return
	}
	cmd := b.command(`exit 3`)
	cmd.Stdin, cmd.Stdout = endless{}, io.Discard
	b.exitsWith3("input without an end", cmd, s.Stream)
	b.failsWith("input fails", func(boom error) error {
		cmd := b.command(b.read(1<<20) + ` >got; true`)
		cmd.Stdin, cmd.Stdout = io.MultiReader(bytes.NewReader(make([]byte, 1000)), failing{boom}), io.Discard
		_, err := s.Stream(b.ctx, cmd)
		return err
	})
	b.failsWith("output fails", func(boom error) error {
		cmd := b.command(`echo output; head -c 100000 /dev/zero`)
		cmd.Stdout = failing{boom}
		_, err := s.Stream(b.ctx, cmd)
		return err
	})
}

func checkHalfClose(b *box) {
	s := b.streamer()
	if s == nil || b.without(b.caps.HalfClose, "half-close") {
		return
	}
	cmd := b.command(`cat; echo end`)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = strings.NewReader("input\n"), &out
	if res, err := s.Stream(b.ctx, cmd); err != nil || res.ExitCode != 0 || out.String() != "input\nend\n" {
		b.Errorf("output %q, exit code %d, error %v", out.String(), res.ExitCode, err)
	}
}
