package providertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

// A fake that can't fail is a defect: each test here sees one option do what it
// says.

func script(text string, args ...string) provider.Command {
	return provider.Command{Args: append([]string{"sh", "-c", text, "sh"}, args...)}
}

func scriptWith(stdin, text string) provider.Command {
	cmd := script(text)
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

// run runs a command that must not fail.
func run(t *testing.T, f *Fake, cmd provider.Command) provider.Result {
	t.Helper()
	res, err := f.Exec(t.Context(), cmd)
	if err != nil {
		t.Fatalf("%q: %v", cmd.Args, err)
	}
	return res
}

func stdout(t *testing.T, f *Fake, cmd provider.Command) string {
	t.Helper()
	return string(run(t, f, cmd).Stdout)
}

func fired(t *testing.T, f *Fake, key string, want int) {
	t.Helper()
	if got := f.Fired(key); got != want {
		t.Errorf("%s fired %d times, want %d", key, got, want)
	}
}

func TestNoStdinIsRefused(t *testing.T) {
	f := Open(t, Options{NoStdin: true})
	if _, err := f.Exec(t.Context(), scriptWith("x", "cat")); provider.KindOf(err) != provider.NotImplemented {
		t.Errorf("error %v", err)
	}
	if got := stdout(t, f, script("cat; echo end")); got != "end\n" {
		t.Errorf("without input: %q", got)
	}
}

func TestDropStdin(t *testing.T) {
	f := Open(t, Options{DropStdin: 1})
	run(t, f, script("true")) // has no input to drop
	for i, want := range []string{"", "input"} {
		if got := stdout(t, f, scriptWith("input", "cat")); got != want {
			t.Errorf("command %d reads %q, want %q", i, got, want)
		}
	}
	fired(t, f, "drop_stdin", 1)
	f = Open(t, Options{DropStdin: -1})
	for range 3 {
		if got := stdout(t, f, scriptWith("input", "cat")); got != "" {
			t.Errorf("always: reads %q", got)
		}
	}
}

func TestCutStdout(t *testing.T) {
	for key, opts := range map[string]Options{"cut_stdout": {CutStdout: 1000}, "max_stdout": {MaxStdout: 1000}} {
		f := Open(t, opts)
		res := run(t, f, script(`head -c 5000 /dev/zero; exit 4`))
		if len(res.Stdout) != 1000 || res.ExitCode != 4 {
			t.Errorf("%s: %d bytes, exit code %d", key, len(res.Stdout), res.ExitCode)
		}
		fired(t, f, key, 1)
		run(t, f, script(`head -c 1000 /dev/zero`))
		fired(t, f, key, 1)
		if says := f.Capabilities().MaxStdout == 1000; says != (key == "max_stdout") {
			t.Errorf("%s: capability says %d", key, f.Capabilities().MaxStdout)
		}
	}
}

func TestOutputShapes(t *testing.T) {
	f := Open(t, Options{MergedOutput: true})
	if res := run(t, f, script("echo a; echo b >&2; echo c")); string(res.Stdout) != "a\nb\nc\n" || len(res.Stderr) > 0 {
		t.Errorf("merged: %q, %q", res.Stdout, res.Stderr)
	}
	f = Open(t, Options{TextOutput: true})
	for in, want := range map[string]string{
		"plain": "plain", "é漢": "é漢", "\xff": "\ufffd", "a\xe2\x82": "a\ufffd\ufffd", "\xe2\x82\xac": "€", "\x80\x80é": "\ufffd\ufffdé", "\x00\r\n": "\x00\r\n",
	} {
		if got := stdout(t, f, scriptWith(in, "cat")); got != want {
			t.Errorf("text: %q arrives as %q, want %q", in, got, want)
		}
	}
}

func TestTextAcrossPieces(t *testing.T) {
	in := "a\xe2\x82\xac\xf0\x9f\x98\x80\xffé\xe2"
	want := "a€😀\ufffdé\ufffd"
	for size := 1; size <= len(in); size++ {
		var out bytes.Buffer
		w := &textWriter{w: &out}
		for piece := range slices.Chunk([]byte(in), size) {
			w.Write(piece)
		}
		w.end()
		if out.String() != want {
			t.Errorf("pieces of %d: %q, want %q", size, out.String(), want)
		}
	}
}

func TestExitFaults(t *testing.T) {
	f := Open(t, Options{DelayExit: 200 * time.Millisecond})
	began := time.Now()
	run(t, f, script("true"))
	if d := time.Since(began); d < 200*time.Millisecond {
		t.Errorf("the exit was told after %v", d)
	}
	f = Open(t, Options{LoseExit: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	cmd := script("echo out")
	cmd.Stdout = &out
	if _, err := f.Exec(ctx, cmd); !errors.Is(err, context.DeadlineExceeded) || out.String() != "out\n" {
		t.Errorf("lost exit: error %v, output %q", err, out.String())
	}
	run(t, f, script("true"))
}

// The end of the output is lost, unless the command waits for an
// acknowledgement.
func TestLoseTail(t *testing.T) {
	f := Open(t, Options{LoseTail: 1000, HideEarlyExit: true})
	if f.Capabilities().EarlyExit {
		t.Errorf("the capability is not hidden")
	}
	f = Open(t, Options{Stream: true, LoseTail: 1000})
	if !f.Capabilities().EarlyExit {
		t.Errorf("the capability is not said")
	}
	if got := stdout(t, f, script("head -c 5000 /dev/zero")); len(got) != 4000 {
		t.Errorf("%d of 5000 bytes arrive, want 4000", len(got))
	}
	fired(t, f, "lose_tail", 1)

	in, toCommand := io.Pipe()
	seen := 0
	cmd := script("head -c 5000 /dev/zero; read ack; exit 3")
	cmd.Stdin = in
	cmd.Stdout = writerFunc(func(p []byte) (int, error) {
		if seen += len(p); seen == 5000 {
			go func() { io.WriteString(toCommand, "ok\n"); toCommand.Close() }()
		}
		return len(p), nil
	})
	res, err := f.Stream(t.Context(), cmd)
	if err != nil || res.ExitCode != 3 || seen != 5000 {
		t.Errorf("acknowledged: %d of 5000 bytes, exit code %d, error %v", seen, res.ExitCode, err)
	}
	fired(t, f, "lose_tail", 1)
}

// What containerd does (kubernetes.md): whole with a command after the reader,
// cut without.
func TestStopStdin(t *testing.T) {
	f := Open(t, Options{StopStdin: true})
	input := strings.Repeat("x", 1<<20)
	for text, whole := range map[string]bool{"exec cat >%s": false, "cat >%s; true": true} {
		name := filepath.Join(f.Root(), fmt.Sprint(whole))
		if res := run(t, f, scriptWith(input, fmt.Sprintf(text, name))); res.ExitCode != 0 {
			t.Errorf("%s: exit code %d", text, res.ExitCode)
		}
		info, err := os.Stat(name)
		if err != nil || whole != (info.Size() == 1<<20) {
			t.Errorf("%s: %v, %v", text, info.Size(), err)
		}
	}
	fired(t, f, "stop_stdin", 1)
}

func TestNoHalfClose(t *testing.T) {
	f := Open(t, Options{NoHalfClose: true})
	if got := stdout(t, f, scriptWith("abc", "head -c 3")); got != "abc" {
		t.Errorf("bounded: %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := f.Exec(ctx, scriptWith("abc", "cat")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("unbounded: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	f := Open(t, Options{RateLimitFirst: 1, UnreachableFirst: 1, RetryAfter: 3 * time.Second})
	var kinds []provider.Kind
	for range 3 {
		_, err := f.Exec(t.Context(), script("echo x >>ran"))
		kinds = append(kinds, provider.KindOf(err))
		var e *provider.Error
		if errors.As(err, &e) && e.Kind == provider.RateLimited && e.RetryAfter != 3*time.Second {
			t.Errorf("retry after %v", e.RetryAfter)
		}
	}
	if want := []provider.Kind{provider.Unreachable, provider.RateLimited, provider.Other}; !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
	if got := stdout(t, f, script("cat ran")); got != "x\n" {
		t.Errorf("refused calls ran: %q", got)
	}
	f = Open(t, Options{UnreachableFirst: -1})
	for range 5 {
		if _, err := f.Exec(t.Context(), script("true")); !provider.IsTemporary(err) {
			t.Errorf("always: %v", err)
		}
	}
}

func TestRate(t *testing.T) {
	f := &Fake{opts: Options{RatePerSecond: 2}, fired: map[string]int{}}
	now := time.Now()
	for at, want := range []time.Duration{0, 0, 600, 200, 0, 0, 700} { // milliseconds to wait
		err := f.rate(now.Add([]time.Duration{0, 100, 400, 800, 1000, 1100, 1300}[at] * time.Millisecond))
		var e *provider.Error
		if got := time.Duration(0); errors.As(err, &e) {
			got = e.RetryAfter
			if got != want*time.Millisecond || e.Kind != provider.RateLimited {
				t.Errorf("call %d: %v, retry after %v, want %v ms", at, err, got, want)
			}
		} else if want != 0 {
			t.Errorf("call %d was let through", at)
		}
	}
	fired(t, f, "rate_per_second", 3)
}

func TestDeath(t *testing.T) {
	for _, late := range []bool{false, true} {
		f := Open(t, Options{DieAt: 2, DieLate: late})
		for i, fails := range []bool{false, true, true} {
			_, err := f.Exec(t.Context(), script("echo x >>ran"))
			if fails != (provider.KindOf(err) == provider.Unreachable) {
				t.Errorf("late %v, call %d: %v", late, i+1, err)
			}
		}
		ran, _ := os.ReadFile(filepath.Join(f.Root(), "ran"))
		if want := map[bool]string{false: "x\n", true: "x\nx\n"}[late]; string(ran) != want {
			t.Errorf("late %v: ran %q, want %q", late, ran, want)
		}
	}
}

func TestRoundTripAndCounts(t *testing.T) {
	f := Open(t, Options{Stream: true, RoundTrip: 50 * time.Millisecond})
	began := time.Now()
	run(t, f, script("true"))
	cmd := script("true")
	cmd.Stdout = io.Discard
	f.Stream(t.Context(), cmd)
	if d := time.Since(began); d < 100*time.Millisecond {
		t.Errorf("two calls in %v", d)
	}
	if f.Execs() != 1 || f.Streams() != 1 || f.Calls() != 2 || f.Peak() != 1 {
		t.Errorf("%d execs, %d streams, %d calls, %d at once", f.Execs(), f.Streams(), f.Calls(), f.Peak())
	}
}

func TestWithoutTools(t *testing.T) {
	gone := []string{"tar", "base64", "sha256sum", "gzip", "find"}
	for _, busybox := range []bool{false, true} {
		f := Open(t, Options{Without: gone, BusyBox: busybox})
		for _, name := range gone {
			if res := run(t, f, script(name+" --help")); res.ExitCode != 127 {
				t.Errorf("busybox %v: %s: exit code %d", busybox, name, res.ExitCode)
			}
			if res := run(t, f, provider.Command{Args: []string{name}}); res.ExitCode != 127 {
				t.Errorf("busybox %v: %s itself: exit code %d", busybox, name, res.ExitCode)
			}
		}
		if got := stdout(t, f, scriptWith("abc", "cat | tr a-c A-C")); got != "ABC" {
			t.Errorf("busybox %v: what is left: %q", busybox, got)
		}
	}
	f := Open(t, Options{Only: []string{"cat"}})
	if res := run(t, f, script("true")); res.ExitCode != 127 {
		t.Errorf("only cat: sh: exit code %d", res.ExitCode)
	}
	if res := run(t, f, provider.Command{Args: []string{"cat"}, Stdin: strings.NewReader("abc")}); string(res.Stdout) != "abc" {
		t.Errorf("only cat: %q", res.Stdout)
	}
	f = Open(t, Options{Only: []string{}})
	if res := run(t, f, provider.Command{Args: []string{"cat"}}); res.ExitCode != 127 {
		t.Errorf("nothing at all: exit code %d", res.ExitCode)
	}
}

func TestBusyBox(t *testing.T) {
	f := Open(t, Options{BusyBox: true})
	if got := stdout(t, f, script("tar --help 2>&1")); !strings.Contains(got, "BusyBox") {
		t.Errorf("tar says %q", got)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := NewFake(Options{BusyBox: true}); provider.KindOf(err) != provider.Missing || provider.HintOf(err) == "" {
		t.Errorf("without busybox: %v (%s)", err, provider.HintOf(err))
	}
}

func TestBase64Wrap(t *testing.T) {
	in := strings.Repeat("x", 60)
	a, b := "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4", "eHh4"
	for wrap, want := range map[string]string{WrapLF: a + "\n" + b + "\n", WrapCRLF: a + "\r\n" + b + "\r\n", WrapBare: a + "\n" + b} {
		for _, busybox := range []bool{false, true} {
			f := Open(t, Options{Base64Wrap: wrap, BusyBox: busybox})
			if got := stdout(t, f, scriptWith(in, "base64")); got != want {
				t.Errorf("%s, busybox %v: %q, want %q", wrap, busybox, got, want)
			}
			if got := stdout(t, f, scriptWith(a+"\n"+b, "base64 -d")); got != in {
				t.Errorf("%s, busybox %v: decodes to %q", wrap, busybox, got)
			}
			if res := run(t, f, scriptWith(in, "base64 -w0")); res.ExitCode == 0 {
				t.Errorf("%s, busybox %v: has -w", wrap, busybox)
			}
		}
	}
	if _, err := NewFake(Options{Base64Wrap: "tab"}); err == nil {
		t.Errorf("an unknown way to wrap is accepted")
	}
}

// Every way to store more than fits fails, says why, and stores a part at most.
func TestSpaceLeft(t *testing.T) {
	big := strings.Repeat("x", 20_000)
	archive := tarOf(t, member{"big", big})
	for _, busybox := range []bool{false, true} {
		for name, tc := range map[string]struct{ stdin, script string }{
			"cat":         {big, "cat >big"},
			"append":      {big, "head -c 100 >>big; cat >>big"},
			"head":        {big, "head -c 20000 >big"},
			"dd":          {big, "dd of=big bs=1k"},
			"dd to place": {big, "dd of=big bs=1k seek=3 conv=notrunc"},
			"dd stdout":   {big, "dd bs=1k >big"},
			"base64":      {strings.Repeat("eHh4", 5000), "base64 -d >big"},
			"base64, dd":  {strings.Repeat("eHh4", 5000), "base64 -d | dd of=big bs=64k"},
			"tar":         {archive, "tar -xf -"},
			"old tar":     {archive, "tar xf -"},
			"long tar":    {archive, "tar --extract -f -"},
		} {
			f := Open(t, Options{SpaceLeft: 10_000, BusyBox: busybox})
			res := run(t, f, scriptWith(tc.stdin, tc.script))
			if res.ExitCode == 0 || !strings.Contains(string(res.Stderr), "No space left on device") {
				t.Errorf("%s, busybox %v: exit code %d, %q", name, busybox, res.ExitCode, res.Stderr)
			}
			if info, err := os.Stat(filepath.Join(f.Root(), "big")); err == nil && info.Size() >= 20_000 {
				t.Errorf("%s, busybox %v: all is stored", name, busybox)
			}
			fired(t, f, "space_left", 1)
			if res := run(t, f, scriptWith("x", "cat >more")); res.ExitCode == 0 {
				t.Errorf("%s, busybox %v: there is space again", name, busybox)
			}
		}
		// Reading is free, and what fits arrives.
		f := Open(t, Options{SpaceLeft: 30_000, BusyBox: busybox})
		if got := stdout(t, f, scriptWith(archive, "tar -xf - && cat big big big | cat && tar -cf - big | tar -tf -")); got != big+big+big+"big\n" {
			t.Errorf("busybox %v: %d bytes", busybox, len(got))
		}
		if got := stdout(t, f, scriptWith(big[:100], "dd of=a bs=10 count=4 2>/dev/null; dd of=b bs=10 count=4 2>/dev/null; cat a b; exit 0")); len(got) < 40 {
			t.Errorf("busybox %v: dd with a count: %q", busybox, got)
		}
		fired(t, f, "space_left", 0)
	}
}

func TestFilePlaces(t *testing.T) {
	f := Open(t, Options{ReadOnly: true})
	if res := run(t, f, script("echo x >file")); res.ExitCode == 0 {
		t.Errorf("a read-only directory was written")
	}
	f = Open(t, Options{Umask: 0o077, OtherUser: true})
	want := fmt.Sprint(os.Geteuid())
	if os.Geteuid() == 0 {
		want = "65534"
	}
	if got := stdout(t, f, script("echo x >file; id -u")); got != want+"\n" {
		t.Errorf("user %q, want %s", got, want)
	}
	if info, err := os.Stat(filepath.Join(f.Root(), "file")); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode under umask 077: %v, %v", info, err)
	}
	if res := run(t, f, provider.Command{Args: []string{"no-such-command"}}); res.ExitCode != 127 {
		t.Errorf("not found under a umask: exit code %d", res.ExitCode)
	}
	root := t.TempDir()
	f = Open(t, Options{Root: root})
	run(t, f, script("echo x >file; echo y >$TMPDIR/scratch"))
	if f.Root() != root {
		t.Errorf("root %q, want %q", f.Root(), root)
	}
	if _, err := os.Stat(filepath.Join(f.TempDir(), "scratch")); err != nil {
		t.Error(err)
	}
	f.Close()
	if _, err := os.Stat(filepath.Join(root, "file")); err != nil {
		t.Errorf("close removed a root that was given: %v", err)
	}
	if _, err := os.Stat(f.TempDir()); err == nil {
		t.Errorf("close left the scratch")
	}
}

func TestLosePut(t *testing.T) {
	f := Open(t, Options{Files: true, LosePut: 10})
	small, large := filepath.Join(f.Root(), "small"), filepath.Join(f.Root(), "large")
	if err := f.PutFiles(t.Context(), []provider.PutFile{putFile(small, make([]byte, 10)), putFile(large, make([]byte, 11))}); err != nil {
		t.Fatal(err)
	}
	_, err1 := os.Stat(small)
	_, err2 := os.Stat(large)
	if err1 != nil || err2 == nil {
		t.Errorf("small: %v, large: %v", err1, err2)
	}
	fired(t, f, "lose_put", 1)
}

func TestLimitsAreKept(t *testing.T) {
	f := Open(t, Options{MaxStdin: 10, MaxArg: 20})
	if _, err := f.Exec(t.Context(), scriptWith("12345678901", "cat")); provider.KindOf(err) != provider.TooLarge {
		t.Errorf("input of 11 bytes: %v", err)
	}
	if got := stdout(t, f, scriptWith("1234567890", "cat")); got != "1234567890" {
		t.Errorf("input of 10 bytes: %q", got)
	}
	if _, err := f.Exec(t.Context(), script("exit 0", strings.Repeat("x", 21))); provider.KindOf(err) != provider.TooLarge {
		t.Errorf("argument of 21 bytes: %v", err)
	}
}
