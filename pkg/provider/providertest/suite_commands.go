package providertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

func checkExitCodes(b *box) {
	for _, want := range []int{0, 1, 3, 126, 255} {
		if res := b.exec(b.command(fmt.Sprintf("exit %d", want))); res.ExitCode != want {
			b.Errorf("exit %d: exit code %d", want, res.ExitCode)
		}
	}
	res, err := b.sb.Exec(b.ctx, b.command("kill -9 $$"))
	if err == nil && res.ExitCode == 0 {
		b.Errorf("a command that was killed: exit code 0 and no error")
	}
	b.Logf("a command that was killed: exit code %d, error %v", res.ExitCode, err)
}

func checkNotFound(b *box) {
	for _, name := range []string{"sbsync-no-such-command", "/sbsync/no/such/command"} {
		if res := b.exec(provider.Command{Args: []string{name, "x"}}); res.ExitCode != 127 {
			b.Errorf("%s: exit code %d, want 127 as from a shell", name, res.ExitCode)
		}
	}
}

func checkDirectory(b *box) {
	want := b.run(`pwd -P`)
	if got := b.run(`cd "$1" && pwd -P`, b.dir); got != want {
		b.Errorf("directory %q: command runs in %q", got, want)
	}
	names := []string{"it's", "a b", "$(touch pwn)", "new\nline", `a"b\c`}
	b.run(`for name do mkdir -p -- "./$name" && : >"./$name/here"; done`, names...)
	for _, name := range names {
		cmd := b.command(`[ -f here ]`)
		cmd.Dir = b.dir + "/" + name
		if res := b.exec(cmd); res.ExitCode != 0 {
			b.Errorf("directory %q: command runs elsewhere", cmd.Dir)
		}
	}
	cmd := b.command(`echo ran`)
	cmd.Dir = b.dir + "/no-such-dir"
	res, err := b.sb.Exec(b.ctx, cmd)
	switch {
	case err != nil && !strings.Contains(err.Error(), "no-such-dir"):
		b.Errorf("a directory that is not there: the error does not name it: %v", err)
	case err == nil && res.ExitCode == 0:
		b.Errorf("a directory that is not there: exit code 0, output %q", res.Stdout)
	case err == nil && !strings.Contains(string(res.Stdout)+string(res.Stderr), "no-such-dir"):
		b.Errorf("a directory that is not there: exit code %d, but nothing names it: %q %q", res.ExitCode, res.Stdout, res.Stderr)
	}
}

func checkEnvironment(b *box) {
	values := append([]string{"", "plain", "=", "a=b"}, hostileWords...)
	var script, want strings.Builder
	env := make(map[string]string)
	for i, value := range values {
		name := fmt.Sprintf("SBSYNC_CHECK_%d", i)
		env[name] = value
		fmt.Fprintf(&script, `printf '%%s\n.\n' "$%s"; `, name)
		want.WriteString(value + "\n.\n")
	}
	cmd := b.command("{ " + script.String() + "} >values")
	cmd.Env = env
	if res := b.exec(cmd); res.ExitCode != 0 {
		b.Fatalf("exit code %d, %s", res.ExitCode, res.Stderr)
	}
	b.same("environment", b.get("values"), []byte(want.String()))
	if b.run(`printf %s "$HOME$PATH"`) == "" {
		b.Errorf("the sandbox's own environment is gone")
	}
	b.noPwn()
}

// hostileWords are names and values that a careless shell takes apart
// (nextlevelbuilder/goclaw#1155 and others).
var hostileWords = []string{
	"it's", `a"b`, "$(touch pwn)", "`touch pwn`", "a;touch pwn", "a b", " lead", "trail ", "new\nline", "end\n", "\ttab",
	`back\slash`, `\`, `\n`, "-rf", "--", "-", "*", "?", "[a]", "~", "#no", "!", "{a,b}", "a&b", "a|b", "a>pwn", "$HOME", "${x}",
	"%s", "%", "é", "漢字", "'\\''", "'", `"`,
}

func checkWords(b *box) {
	words := append([]string{""}, hostileWords...)
	b.run(`for word do printf '%s\n.\n' "$word"; done >words`, words...)
	want := strings.Join(words, "\n.\n") + "\n.\n"
	b.same("words", b.get("words"), []byte(want))
	b.noPwn()

	raw := "not utf-8 \xff\xfe\x80"
	res, err := b.sb.Exec(b.ctx, b.command(`printf %s "$1" >raw`, raw))
	if err != nil || res.ExitCode != 0 {
		b.Logf("an argument that is not UTF-8 is refused: %v, exit code %d", err, res.ExitCode)
	} else {
		b.same("an argument that is not UTF-8", b.get("raw"), []byte(raw))
	}
}

// noPwn checks that nothing in a word was run.
func (b *box) noPwn() {
	b.Helper()
	if got := b.run(`for at in . "$HOME"; do if [ -e "$at/pwn" ]; then echo pwned; fi; done`); got != "" {
		b.Errorf("a word was run as a command")
	}
}

func checkLongArguments(b *box) {
	caps := b.caps.WithDefaults()
	long := strings.Repeat("x", caps.MaxArg)
	if got := b.run(`printf %s "${#1}"`, long); got != fmt.Sprint(caps.MaxArg) {
		b.Errorf("an argument of %d bytes arrives with %s", caps.MaxArg, got)
	}
	// What is left of MaxArgs after the script, each with its NUL.
	script := `n=0; for word do n=$((n + ${#word})); done; printf '%s %s' $# $n`
	left := caps.MaxArgs - len(script) - 100
	var args []string
	total := 0
	for left > 1 {
		n := min(caps.MaxArg, left-1)
		args = append(args, long[:n])
		total += n
		left -= n + 1
	}
	if got, want := b.run(script, args...), fmt.Sprintf("%d %d", len(args), total); got != want {
		b.Errorf("arguments of %d bytes together: %q arrive, want %q", caps.MaxArgs, got, want)
	}
}

func checkCancel(b *box) {
	// Not every sleep knows fractions.
	beat, silence := "1", 2500*time.Millisecond
	if b.exec(b.command(`sleep 0.2`)).ExitCode == 0 {
		beat, silence = "0.2", 700*time.Millisecond
	}
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := b.sb.Exec(ctx, b.command(`while :; do echo beat >>beats; sleep "$1"; done`, beat))
		ended <- err
	}()
	beats := func() string { return b.run(`[ ! -f beats ] || wc -c <beats`) }
	for beats() == "" {
		if b.ctx.Err() != nil {
			b.Fatalf("the command never started")
		}
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			b.Errorf("cancelled: error %v, want the context's", err)
		}
	case <-time.After(15 * time.Second):
		b.Fatalf("Exec has not returned 15 s after its context ended")
	}
	if b.option(CancelLeavesCommand) {
		b.Logf("not checked: whether the command ended")
		return
	}
	// Two beats must be missed, in a sandbox that may be slow to act.
	for deadline := time.Now().Add(15 * time.Second); ; {
		before := beats()
		pause(b.ctx, silence)
		if beats() == before {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("the command still runs 15 s after it was cancelled")
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// checkConcurrency has as many commands wait for each other as may run at once.
func checkConcurrency(b *box) {
	n := b.caps.WithDefaults().MaxConcurrent
	script := `: >"here.$1"
i=0
while :; do
	set -- here.*
	[ $# -lt "$N" ] || exit 0
	i=$((i + 1))
	[ $i -lt 600 ] || exit 1
	sleep 0.1 2>/dev/null || sleep 1
done`
	var wg sync.WaitGroup
	failed := make(chan string, n)
	for i := range n {
		wg.Go(func() {
			cmd := b.command(script, fmt.Sprint(i))
			cmd.Env = map[string]string{"N": fmt.Sprint(n)}
			if res, err := b.sb.Exec(b.ctx, cmd); err != nil || res.ExitCode != 0 {
				failed <- fmt.Sprintf("command %d of %d at once: exit code %d, error %v, %s", i, n, res.ExitCode, err, res.Stderr)
			}
		})
	}
	wg.Wait()
	close(failed)
	for text := range failed {
		b.Errorf("%s", text)
	}
}
