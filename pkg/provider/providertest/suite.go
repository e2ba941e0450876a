package providertest

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

// checkTime is how long one check of the suite may take; a driver that hangs
// fails then. It leaves room for slow clusters.
const checkTime = 2 * time.Minute

// SuiteOption adapts [Suite] to what a provider can't do.
type SuiteOption int

// CancelLeavesCommand is for a provider that has no way to end a command that
// was started. Use it only if the provider truly lacks one.
const CancelLeavesCommand SuiteOption = iota + 1

// Suite is what every driver must pass. Each check calls open for a sandbox and
// an empty directory in it; open closes the sandbox when t ends.
//
// What the capabilities say is not there is not checked for, and logged. What
// they say is there is checked. The sandbox needs sh, cat, head, printf, sleep,
// tail, wc and base64, like any that sbsync can work with.
func Suite(t *testing.T, open func(t *testing.T) (sb provider.Sandbox, dir string), options ...SuiteOption) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			sb, dir := open(t)
			ctx, cancel := context.WithTimeout(t.Context(), checkTime)
			defer cancel()
			c.run(newBox(ctx, t, sb, dir, options))
		})
	}
}

// reporter is the part of testing.TB that checks use, so that the suite itself
// can be tested.
type reporter interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// box is the sandbox under test.
type box struct {
	reporter
	ctx     context.Context
	sb      provider.Sandbox
	caps    provider.Capabilities
	dir     string
	options []SuiteOption
}

func newBox(ctx context.Context, r reporter, sb provider.Sandbox, dir string, options []SuiteOption) *box {
	return &box{reporter: r, ctx: ctx, sb: sb, caps: sb.Capabilities(), dir: dir, options: options}
}

// check is one of the suite's.
type check struct {
	name string
	run  func(*box)
}

// checks are all checks in the order in which they make sense: what later ones
// build on comes first.
var checks = []check{
	{"exit codes", checkExitCodes},
	{"command not found", checkNotFound},
	{"standard output", checkStdout},
	{"standard error", checkStderr},
	{"directory", checkDirectory},
	{"environment", checkEnvironment},
	{"hostile words", checkWords},
	{"long arguments", checkLongArguments},
	{"no input", checkNoInput},
	{"input of all bytes", checkStdinBytes},
	{"large input and output at once", checkLarge},
	{"input that nobody reads", checkUnreadInput},
	{"input that fails", checkFailingInput},
	{"output that fails", checkFailingOutput},
	{"output limit", checkOutputLimit},
	{"cancel", checkCancel},
	{"many at once", checkConcurrency},
	{"stream is live", checkLive},
	{"stream to a slow reader", checkSlowReader},
	{"stream of all bytes", checkStreamBytes},
	{"stream input that nobody reads", checkStreamUnread},
	{"stream half-close", checkHalfClose},
	{"files", checkFiles},
	{"files that fail", checkFileErrors},
	{"capabilities", checkCapabilities},
	{"close", checkClose},
}

// without says that a check does not apply. It logs why.
func (b *box) without(capability bool, what string) bool {
	if !capability {
		b.Logf("not checked: the sandbox says it has no %s %q", what, b.caps.Notes)
	}
	return !capability
}

func (b *box) option(o SuiteOption) bool {
	for _, have := range b.options {
		if have == o {
			return true
		}
	}
	return false
}

// command is a script with arguments, run in the box's directory. Where the
// output is lost of a command that exits, it waits a little before.
func (b *box) command(script string, args ...string) provider.Command {
	if b.caps.EarlyExit {
		script = "(\n" + script + "\n)\nrc=$?\nsleep 0.3 2>/dev/null || sleep 1\nexit $rc"
	}
	return provider.Command{Args: append([]string{"sh", "-c", script, "sh"}, args...), Dir: b.dir, Label: "check"}
}

// exec runs cmd, which must not fail.
func (b *box) exec(cmd provider.Command) provider.Result {
	b.Helper()
	res, err := b.sb.Exec(b.ctx, cmd)
	if err != nil {
		b.Fatalf("exec %.200q: %v", cmd.Args, err)
	}
	return res
}

// run runs a script, which must succeed, and returns its output.
func (b *box) run(script string, args ...string) string {
	b.Helper()
	res := b.exec(b.command(script, args...))
	if res.ExitCode != 0 {
		b.Fatalf("%s: exit code %d, %s%s", script, res.ExitCode, res.Stdout, res.Stderr)
	}
	return string(res.Stdout)
}

// read returns shell words that read n bytes of stdin, or all of it where its
// end can be seen.
func (b *box) read(n int) string {
	if b.caps.HalfClose {
		return "cat"
	}
	return fmt.Sprintf("head -c %d", n)
}

// get returns a file's bytes, as any output capability lets it: in pieces, as
// base64.
func (b *box) get(name string) []byte {
	b.Helper()
	step := int64(1 << 20)
	if b.caps.MaxStdout > 0 {
		step = min(step, b.caps.MaxStdout/2) // base64 and its newlines add 36 %
	}
	var all []byte
	for {
		text := b.run(`tail -c +"$2" "./$1" | head -c "$3" | base64`, name, fmt.Sprint(len(all)+1), fmt.Sprint(step))
		piece, err := base64.StdEncoding.DecodeString(strings.NewReplacer("\n", "", "\r", "").Replace(text))
		if err != nil {
			b.Fatalf("get %q: %v", name, err)
		}
		all = append(all, piece...)
		if int64(len(piece)) < step {
			return all
		}
	}
}

// pattern returns n bytes that don't repeat soon: of all values, or letters
// alone where output is text.
func (b *box) pattern(n int) []byte {
	p := make([]byte, n)
	x := uint32(2463534242) // xorshift32
	for i := range p {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		if p[i] = byte(x >> 8); b.caps.TextOutput {
			p[i] = 'a' + p[i]%26
		}
	}
	return p
}

// limited returns n, or less if a limit is lower; 0 is none.
func limited(n, limit int64) int64 {
	if limit > 0 {
		return min(n, limit)
	}
	return n
}

// same compares large data with an error that can be read.
func (b *box) same(what string, got, want []byte) {
	b.Helper()
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	b.Errorf("%s: got %d bytes, want %d; they differ from byte %d on: %.20q, want %.20q", what, len(got), len(want), at, got[at:], want[at:])
}

// endless is an input without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// unread is an input for a command that reads none: one without an end, or
// where the driver must hold it, as much as it takes.
func (b *box) unread() io.Reader {
	if b.caps.MaxStdin > 0 {
		return io.LimitReader(endless{}, b.caps.MaxStdin)
	}
	return endless{}
}
