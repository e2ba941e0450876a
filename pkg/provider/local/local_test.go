package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/local"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

func TestSuite(t *testing.T) {
	for name, cfg := range map[string]provider.Config{
		"as it is":  nil,
		"exec only": {"exec_only": true},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.NoLeaks(t)
			providertest.Suite(t, func(t *testing.T) (provider.Sandbox, string) {
				sb, err := local.Driver{}.Open(t.Context(), "", cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { sb.Close() })
				return sb, t.TempDir()
			})
		})
	}
}

func sh(script string, args ...string) provider.Command {
	return provider.Command{Args: append([]string{"sh", "-c", script, "sh"}, args...)}
}

func TestOpenReadsConfig(t *testing.T) {
	for name, tc := range map[string]struct {
		ref  string
		cfg  provider.Config
		want string // in error or hint; empty is success
	}{
		"empty":          {},
		"path":           {cfg: provider.Config{"path": "/usr/bin:/bin"}},
		"exec only":      {cfg: provider.Config{"exec_only": true}},
		"a reference":    {ref: "web", want: "write local:/absolute/path"},
		"unknown key":    {cfg: provider.Config{"pth": "/bin"}, want: `did you mean "path"?`},
		"strange key":    {cfg: provider.Config{"timeout": 5}, want: "path and exec_only"},
		"wrong type":     {cfg: provider.Config{"exec_only": "yes"}, want: "true or false"},
		"another's type": {cfg: provider.Config{"path": 5}, want: "path is a string"},
	} {
		sb, err := local.Driver{}.Open(t.Context(), tc.ref, tc.cfg)
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if _, stream := provider.StreamerOf(sb); stream == (tc.cfg["exec_only"] == true) {
				t.Errorf("%s: stream %v", name, stream)
			}
			continue
		}
		if provider.KindOf(err) != provider.Usage || !strings.Contains(err.Error()+provider.HintOf(err), tc.want) {
			t.Errorf("%s: error %v (%s), want %q", name, err, provider.HintOf(err), tc.want)
		}
	}
}

func TestPathOfConfig(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "only-here")
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(sh, filepath.Join(dir, "sh")), os.Symlink(sh, tool)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "not-executable"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	sb := local.New(local.Options{Path: dir})
	for name, want := range map[string]int{"only-here": 0, "ls": 127, "not-executable": 126, "./only-here": 127, tool: 0, dir: 126, "": 127} {
		res, err := sb.Exec(t.Context(), provider.Command{Args: []string{name, "-c", "exit 0"}})
		if err != nil || res.ExitCode != want {
			t.Errorf("%q: exit code %d (%s), error %v; want %d", name, res.ExitCode, res.Stderr, err, want)
		}
	}
	res, err := sb.Exec(t.Context(), provider.Command{Args: []string{"./only-here", "-c", "exit 0"}, Dir: dir})
	if err != nil || res.ExitCode != 0 {
		t.Errorf("a program of the directory: exit code %d, error %v", res.ExitCode, err)
	}
}

func TestExecRefuses(t *testing.T) {
	sb := local.New(local.Options{})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		cmd  provider.Command
		kind provider.Kind
	}{
		"no command":           {provider.Command{}, provider.Usage},
		"a NUL byte":           {provider.Command{Args: []string{"echo", "a\x00b"}}, provider.Usage},
		"a relative directory": {provider.Command{Args: []string{"true"}, Dir: "tmp"}, provider.Usage},
		"a missing directory":  {provider.Command{Args: []string{"true"}, Dir: file + "x"}, provider.NotFound},
		"a file as directory":  {provider.Command{Args: []string{"true"}, Dir: file}, provider.NotFound},
		"too long an argument": {provider.Command{Args: []string{"true", strings.Repeat("x", 8<<20)}}, provider.TooLarge},
	} {
		if _, err := sb.Exec(t.Context(), tc.cmd); err == nil || provider.KindOf(err) != tc.kind {
			t.Errorf("%s: error %v of kind %v, want %v", name, err, provider.KindOf(err), tc.kind)
		}
	}
	if _, err := sb.Stream(t.Context(), sh(":")); provider.KindOf(err) != provider.Usage {
		t.Errorf("a stream without stdout: %v", err)
	}
}

func TestExitBySignal(t *testing.T) {
	for signal, want := range map[string]int{"KILL": 137, "TERM": 143, "PIPE": 141} {
		if res, err := local.New(local.Options{}).Exec(t.Context(), sh("kill -"+signal+" $$")); err != nil || res.ExitCode != want {
			t.Errorf("SIG%s: exit code %d, error %v; want %d", signal, res.ExitCode, err, want)
		}
	}
}

// A whole family ends with its context, also those who ignore SIGTERM, are
// stopped, or have lost their parent (kubernetes/kubectl#1076).
func TestCancelLeavesNoProcess(t *testing.T) {
	for name, script := range map[string]string{
		"children":             `sleep 1000 & sleep 1000 & echo up; wait`,
		"deaf to SIGTERM":      `trap '' TERM; sleep 1000 & echo up; while :; do sleep 1000; done`,
		"orphans":              `(sh -c 'trap "" TERM; echo up; sleep 1000; sleep 1000' &) ; wait; sleep 1000`,
		"stopped":              `sleep 1000 & kill -STOP $!; echo up; kill -STOP $$; sleep 1000`,
		"the leader has ended": `sleep 1000 & echo up`,
		"reading stdin":        `echo up; cat >/dev/null; sleep 1000`,
		"writing without end":  `echo up; while :; do echo more; done`,
	} {
		t.Run(name, func(t *testing.T) {
			providertest.NoLeaks(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cmd := sh(script)
			in, toCommand := io.Pipe()
			defer toCommand.Close()
			cmd.Stdin = in
			cmd.Stdout = writer(func(p []byte) { cancel() }) // at "up"
			began := time.Now()
			_, err := local.New(local.Options{}).Exec(ctx, cmd)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("ended after %v", d)
			}
		})
	}
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// A caller's Read or Write that blocks does not keep Exec for ever.
func TestBlockedCaller(t *testing.T) {
	providertest.NoLeaks(t)
	sb := local.New(local.Options{})
	in, toCommand := io.Pipe()
	fromCommand, out := io.Pipe()
	defer toCommand.Close()
	defer fromCommand.Close()

	cmd := sh("exit 7")
	cmd.Stdin = in
	if res, err := sb.Exec(t.Context(), cmd); err != nil || res.ExitCode != 7 {
		t.Errorf("stdin blocks: exit code %d, error %v", res.ExitCode, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	cmd = sh("echo nobody reads this")
	cmd.Stdout = out
	if _, err := sb.Exec(ctx, cmd); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stdout blocks: error %v", err)
	}
}

// Regular files become the command's own: no copying, and their offset counts.
func TestRegularFiles(t *testing.T) {
	dir := t.TempDir()
	in, err := os.Create(filepath.Join(dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	io.WriteString(in, "skipped,content")
	in.Seek(8, io.SeekStart)
	io.WriteString(out, "kept,")

	var given *exec.Cmd
	sb := local.New(local.Options{Adjust: func(c *exec.Cmd) { given = c }})
	if _, err := sb.Stream(t.Context(), provider.Command{Args: []string{"cat"}, Stdin: in, Stdout: out}); err != nil {
		t.Fatal(err)
	}
	if given.Stdin != in || given.Stdout != out {
		t.Errorf("the files were not handed to the command")
	}
	if got, err := os.ReadFile(out.Name()); err != nil || string(got) != "kept,content" {
		t.Errorf("%q, %v", got, err)
	}
}

// A background child that keeps the output open keeps the call open, as over
// ssh; one that does not may outlive it.
func TestBackgroundChildren(t *testing.T) {
	sb := local.New(local.Options{})
	res, err := sb.Exec(t.Context(), sh(`(sleep 0.3; echo late) & echo early`))
	if err != nil || string(res.Stdout) != "early\nlate\n" {
		t.Errorf("output %q, error %v", res.Stdout, err)
	}
	began := time.Now()
	res, err = sb.Exec(t.Context(), sh(`sleep 30 >/dev/null 2>&1 & echo $!`))
	if err != nil || time.Since(began) > 20*time.Second {
		t.Errorf("error %v after %v", err, time.Since(began))
	}
	if _, err := sb.Exec(t.Context(), sh(`kill "$1"`, strings.TrimSpace(string(res.Stdout)))); err != nil {
		t.Error(err)
	}
}

func TestOutputClosedIsTold(t *testing.T) {
	// The command closes its output, and goes on until it is told that this
	// was seen.
	in, toCommand := io.Pipe()
	cmd := sh(`echo out; exec >&-; read line; exit 3`)
	cmd.Stdin = in
	sb := local.New(local.Options{OutputClosed: func() { io.WriteString(toCommand, "seen\n") }})
	res, err := sb.Exec(t.Context(), cmd)
	toCommand.Close()
	if err != nil || res.ExitCode != 3 || string(res.Stdout) != "out\n" {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestErrorsNameTheCommand(t *testing.T) {
	cmd := sh("echo 12345; echo tail >&2; sleep 1000")
	cmd.Label, cmd.MaxOutput = "list", 3
	res, err := local.New(local.Options{}).Exec(t.Context(), cmd)
	if err == nil || !strings.HasPrefix(err.Error(), "list: ") || provider.KindOf(err) != provider.TooLarge {
		t.Errorf("error %v, stderr %q", err, res.Stderr)
	}
}

func TestEnvironmentIsLaidOver(t *testing.T) {
	t.Setenv("SBSYNC_TEST_A", "from outside")
	t.Setenv("SBSYNC_TEST_B", "from outside")
	cmd := sh(`echo "$SBSYNC_TEST_A, $SBSYNC_TEST_B"`)
	cmd.Env = map[string]string{"SBSYNC_TEST_B": "given"}
	if res, err := local.New(local.Options{}).Exec(t.Context(), cmd); err != nil || string(res.Stdout) != "from outside, given\n" {
		t.Errorf("output %q, error %v", res.Stdout, err)
	}
	if slices.Contains(os.Environ(), "SBSYNC_TEST_B=given") {
		t.Errorf("the environment of this process was changed")
	}
}

func BenchmarkTrue(b *testing.B) {
	sb := local.New(local.Options{})
	for b.Loop() {
		if res, err := sb.Exec(b.Context(), provider.Command{Args: []string{"true"}}); err != nil || res.ExitCode != 0 {
			b.Fatal(res, err)
		}
	}
}

// BenchmarkCat moves data through cat: through our pipes, and with files as
// they are.
func BenchmarkCat(b *testing.B) {
	const size = 256 << 20
	sb := local.New(local.Options{})
	b.Run("copied", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			n := 0
			cmd := provider.Command{Args: []string{"cat"}, Stdin: io.LimitReader(zeros{}, size), Stdout: writer(func(p []byte) { n += len(p) })}
			if _, err := sb.Stream(b.Context(), cmd); err != nil || n != size {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("files", func(b *testing.B) {
		dir := b.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "in"), bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(size)
		for b.Loop() {
			if err := catFiles(b.Context(), sb, filepath.Join(dir, "in"), filepath.Join(dir, "out")); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func catFiles(ctx context.Context, sb *local.Sandbox, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	res, err := sb.Stream(ctx, provider.Command{Args: []string{"cat"}, Stdin: in, Stdout: out})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("cat: exit code %d, %s", res.ExitCode, res.Stderr)
	}
	return errors.Join(err, out.Close())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
