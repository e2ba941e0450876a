package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// cutting is a sandbox whose commands lose something, from the second one on:
// the first is the one that looks what is there.
type cutting struct {
	*providertest.Fake
	// output and input say how many bytes of a call get through, from how many
	// there are; nil: all. Calls are counted from 1.
	output, input func(call, n int) int
	broken        bool // the connection is lost then; otherwise all seems well
	times         int  // calls that lose something; 0: all
	between       func()

	calls, cuts atomic.Int64
}

// Exec runs a command of which only a part of the input or output gets through.
func (c *cutting) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	call := int(c.calls.Add(1))
	if cmd.Label == "inspect" || cmd.Label == "clean up" || c.times > 0 && int(c.cuts.Load()) >= c.times {
		return c.Fake.Exec(ctx, cmd)
	}
	if c.input != nil && cmd.Stdin != nil {
		text, err := io.ReadAll(cmd.Stdin)
		if err != nil {
			return provider.Result{}, err
		}
		n := min(max(c.input(call, len(text)), 0), len(text)-1)
		cmd.Stdin = bytes.NewReader(text[:n])
		c.cuts.Add(1)
	}
	if c.output == nil {
		return c.end(c.Fake.Exec(ctx, cmd))
	}
	var all bytes.Buffer
	w := cmd.Stdout
	cmd.Stdout = &all
	res, err := c.Fake.Exec(ctx, cmd)
	n := min(max(c.output(call, all.Len()), 0), all.Len()-1)
	c.cuts.Add(1)
	if _, werr := w.Write(all.Bytes()[:n]); werr != nil {
		return res, werr
	}
	return c.end(res, err)
}

// end is how a call that lost something ends.
func (c *cutting) end(res provider.Result, err error) (provider.Result, error) {
	if c.between != nil {
		c.between()
	}
	if err == nil && c.broken {
		return res, provider.New(provider.Unreachable, "connection lost", "")
	}
	res.ExitCode = 0
	return res, err
}

// https://github.com/kubernetes/kubernetes/issues/124571 and
// https://github.com/kubernetes/kubectl/issues/1361: the end of what a command
// printed is lost, and it ends with success.
func TestCase_B01(t *testing.T) {
	cuts := []int{1, 1500, 20_000, 300_000}
	for _, files := range []map[string]string{threeFiles(), nil} {
		what := "tree"
		if files == nil {
			what = "file"
		}
		everywhereNamed(t, what, func(t *testing.T, k kindOfSandbox) {
			for _, n := range cuts {
				opts := providertest.Options{}
				if k.stream {
					opts.CutStreamOut = providertest.Cut{Bytes: int64(n)}
				}
				sb := &cutting{Fake: k.fake(t, opts)}
				// A cut, not a cap: it takes a different part each time.
				sb.output = func(call, all int) int { return min(n, all*9/10) + call }
				o := newOldAndNew(t, sb.Fake, transfer.Pull, files)
				_, err := run(t, sb, transfer.Pull, o.source, o.target, k.options())
				wantKind(t, err, provider.Integrity)
				if early := n < 1000; !early && !receivedOf.MatchString(fmt.Sprint(err)) {
					t.Errorf("cut after %d bytes: the message does not say what arrived: %v", n, err)
				}
				o.unchanged()
			}
		})
	}
}

var receivedOf = regexp.MustCompile(`received \d+ of \d+ bytes`)

// Nobody reported it the other way round: the end of what is pushed is lost.
func TestCase_B01_push(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		for _, n := range []int{0, 600, 5000, 300_000} {
			opts := providertest.Options{}
			if k.stream {
				opts.CutStreamIn = providertest.Cut{Bytes: int64(max(n, 1))}
			}
			sb := &cutting{Fake: k.fake(t, opts), input: func(_, all int) int { return min(n, all*9/10) }}
			o := newOldAndNew(t, sb.Fake, transfer.Push, threeFiles())
			_, err := run(t, sb, transfer.Push, o.source, o.target, k.options())
			wantKind(t, err, provider.Integrity)
			o.unchanged()
		}
	})
}

// https://github.com/kubernetes/kubernetes/issues/60140 and
// https://github.com/kubernetes/kubectl/issues/1425: the connection is lost at
// a random point, twice. The third attempt is the one that counts.
func TestCase_B02(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		for _, dir := range []transfer.Direction{transfer.Pull, transfer.Push} {
			for seed := range uint64(2) {
				at := 2000 + rand.New(rand.NewPCG(seed, 1)).IntN(300_000)
				cut := providertest.Cut{Bytes: int64(at), Break: true, Times: 2}
				opts := providertest.Options{}
				if k.stream && dir == transfer.Pull {
					opts.CutStreamOut = cut
				} else if k.stream {
					opts.CutStreamIn = cut
				}
				sb := &cutting{Fake: k.fake(t, opts), broken: true, times: 2}
				if dir == transfer.Pull {
					sb.output = func(_, n int) int { return min(at, n*9/10) }
				} else {
					sb.input = func(_, n int) int { return min(at, n*9/10) }
				}
				o := newOldAndNew(t, sb.Fake, dir, threeFiles())
				opt := k.options()
				opt.Retries = 3
				mustRun(t, sb, dir, o.source, o.target, opt)
				must(t, os.Remove(filepath.Join(o.target, "mine")))
				k.compare().same(t, o.source, o.target)
				noScratch(t, o.dirs...)
				if n := sb.cuts.Load() + int64(sb.Fired("cut_stream_out")+sb.Fired("cut_stream_in")); n < 2 {
					t.Errorf("%s, seed %d: only %d calls were broken", dir, seed, n)
				}
			}
		}
	})
}

// After the last attempt the message says how far it came.
func TestCase_B02_givingUp(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		opts := providertest.Options{}
		if k.stream {
			opts.CutStreamOut = providertest.Cut{Bytes: 200_000, Break: true}
		}
		sb := &cutting{Fake: k.fake(t, opts), broken: true, output: func(_, n int) int { return min(200_000, n*9/10) }}
		o := newOldAndNew(t, sb.Fake, transfer.Pull, threeFiles())
		opt := k.options()
		opt.Retries = 1
		_, err := run(t, sb, transfer.Pull, o.source, o.target, opt)
		wantKind(t, err, provider.Unreachable)
		if where := regexp.MustCompile(`the last of "dir/b" at offset [1-9]\d{4,}`); err != nil && !where.MatchString(err.Error()) {
			t.Errorf("the message does not say where it broke off: %v", err)
		}
		o.unchanged()
	})
}

// fourFiles are at most one block each, but for one of a few.
var fourFiles = map[string]string{"1": "one\n", "2": "two\n", "3": noise(70 << 10), "4": "four\n"}

// Measured (M1): Go's archive/tar, GNU tar and BusyBox's take an archive that
// ends between two members, or lacks its end, for whole.
func TestCase_B03(t *testing.T) {
	for _, busybox := range []bool{false, true} {
		for members := range 5 {
			t.Run(fmt.Sprintf("pull, BusyBox %v, %d members", busybox, members), func(t *testing.T) {
				t.Parallel()
				k := kindOfSandbox{stream: true, busybox: busybox}
				sb := &cuttingBody{Fake: k.fake(t, providertest.Options{}), left: [...]int{0, 1024, 2048, 2560 + 70<<10, 3584 + 70<<10}[members]}
				o := newOldAndNew(t, sb.Fake, transfer.Pull, fourFiles)
				_, err := run(t, sb, transfer.Pull, o.source, o.target, k.options())
				wantKind(t, err, provider.Integrity)
				o.unchanged()
				if !sb.cut.Load() {
					t.Error("nothing was cut")
				}
			})
			t.Run(fmt.Sprintf("push, BusyBox %v, %d members", busybox, members+1), func(t *testing.T) {
				t.Parallel()
				k := kindOfSandbox{stream: true, busybox: busybox}
				// The directory, the files, and then would come the seal.
				sb := k.fake(t, providertest.Options{CutStreamIn: providertest.Cut{Members: members + 1}})
				o := newOldAndNew(t, sb, transfer.Push, fourFiles)
				_, err := run(t, sb, transfer.Push, o.source, o.target, k.options())
				wantKind(t, err, provider.Integrity)
				o.unchanged()
				if sb.Fired("cut_stream_in") == 0 {
					t.Error("nothing was cut")
				}
			})
		}
	}
}

// cuttingBody lets so many bytes of an archive through that is pulled, then the
// rest of the reply is lost, but for its end: to the script all is well.
type cuttingBody struct {
	*providertest.Fake
	left int
	cut  atomic.Bool
}

func (c *cuttingBody) Stream(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	if cmd.Label == "pull" {
		cmd.Stdout = &bodyWriter{w: cmd.Stdout, left: c.left, cut: &c.cut}
	}
	return c.Fake.Stream(ctx, cmd)
}

// bodyWriter passes on the first mark, so many bytes, and what begins with the
// second mark.
type bodyWriter struct {
	w    io.Writer
	left int
	cut  *atomic.Bool
	all  []byte
	body int // where it begins in all; 0: not yet seen
	sent int
}

func (b *bodyWriter) Write(p []byte) (int, error) {
	b.all = append(b.all, p...)
	if at := bytes.Index(b.all, []byte("\nsbsync-begin ")); b.body == 0 && at >= 0 && len(b.all) > at+31 {
		b.body = at + 31 // the mark with its word of 16 characters, and a newline
	}
	end := len(b.all)
	at := bytes.Index(b.all, []byte("\nsbsync-err "))
	if at >= 0 {
		end = at
	}
	if err := b.pass(min(end, b.body+b.left)); err != nil || at < 0 {
		return len(p), err
	}
	b.cut.Store(true)
	b.sent = max(b.sent, at)
	return len(p), b.pass(len(b.all))
}

// pass lets through what was not yet, up to an offset in all.
func (b *bodyWriter) pass(to int) error {
	if to <= b.sent {
		return nil
	}
	_, err := b.w.Write(b.all[b.sent:to])
	b.sent = to
	return err
}

// Neighbours of B03: the cut is inside a member, and there was nothing before.
func TestCase_B03_neighbours(t *testing.T) {
	for _, busybox := range []bool{false, true} {
		for _, cut := range []providertest.Cut{{Inside: 1}, {Inside: 2}, {Inside: 3}, {Inside: 4}} {
			k := kindOfSandbox{stream: true, busybox: busybox}
			t.Run(fmt.Sprintf("BusyBox %v, %+v", busybox, cut), func(t *testing.T) {
				t.Parallel()
				host := t.TempDir()
				src := filepath.Join(host, "src")
				writeTree(t, src, fourFiles)
				sb := k.fake(t, providertest.Options{CutStreamIn: cut})
				box := filepath.Join(sb.Root(), "new", "box")
				_, err := run(t, sb, transfer.Push, src, box, k.options())
				wantKind(t, err, provider.Integrity)
				if exists(filepath.Dir(box)) {
					t.Error("something was made")
				}
				noScratch(t, host, sb.Root())
			})
		}
	}
}

// https://github.com/kubernetes/kubernetes/issues/110613: the tree changes
// between two attempts. Every file of the result is one that was there, whole.
func TestCase_B04(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		opts := providertest.Options{}
		if k.stream {
			opts.CutStreamOut = providertest.Cut{Bytes: 400_000, Break: true, Times: 1}
		}
		sb := &cutting{Fake: k.fake(t, opts), broken: true, times: 1, output: func(_, n int) int { return n / 2 }}
		files := map[string]string{"a": noise(200 << 10), "b": noise(300 << 10), "c": "short\n", "gone": "x"}
		o := newOldAndNew(t, sb.Fake, transfer.Pull, files)
		var once sync.Once
		change := func() {
			once.Do(func() {
				// Sizes, order and number change, and so would every offset.
				writeTree(t, o.source, map[string]string{"a": "now short\n", "aa": noise(250 << 10), "b": strings.Repeat("B", 300<<10)})
				must(t, os.Remove(filepath.Join(o.source, "gone")))
			})
		}
		sb.between = change
		opt := k.options()
		opt.Retries = 3
		opt.Observer = onRetry{logger{t}, change}
		_, err := run(t, sb, transfer.Pull, o.source, o.target, opt)
		if err != nil && provider.KindOf(err) != provider.Partial {
			t.Fatal(err)
		}
		for name, before := range files {
			got, rerr := os.ReadFile(filepath.Join(o.target, name))
			now, _ := os.ReadFile(filepath.Join(o.source, name))
			if rerr == nil && string(got) != before && string(got) != string(now) && string(got) != "old a\n" {
				t.Errorf("%q is neither what it was nor what it is: %d bytes", name, len(got))
			}
			if err == nil && string(got) != string(now) {
				t.Errorf("%q is not what it is now, and nobody said so", name)
			}
		}
		noScratch(t, o.dirs...)
	})
}

// onRetry does something when an attempt failed.
type onRetry struct {
	logger
	do func()
}

func (o onRetry) Log(text string) {
	o.logger.Log(text)
	if strings.Contains(text, "failed, next in") {
		o.do()
	}
}

// Neighbours of B04: between two pieces of one file it is edited, and its size
// and time are what they were. Pieces of two versions make no file, and whoever
// gets one is told.
func TestCase_B04_sameTime(t *testing.T) {
	for _, busybox := range []bool{false, true} {
		for _, replace := range []bool{false, true} {
			k := kindOfSandbox{busybox: busybox}
			box := t.TempDir()
			o := newOldAndNewIn(t, t.TempDir(), box, transfer.Pull, map[string]string{"large": strings.Repeat("A", 8<<20)})
			file := filepath.Join(o.source, "large")
			sb := &onPiece{Sandbox: k.machine(t, nil), at: 4, do: func() {
				info, err := os.Stat(file)
				must(t, err)
				to := file
				if replace {
					to += ".new"
					defer func() { must(t, os.Rename(to, file)) }()
				}
				must(t, os.WriteFile(to, bytes.Repeat([]byte("B"), 8<<20), 0o644))
				must(t, os.Chtimes(to, info.ModTime(), info.ModTime()))
			}}
			opt := k.options()
			opt.ChunkBytes = 1 << 20
			_, err := run(t, sb, transfer.Pull, o.source, o.target, opt)
			wantKind(t, err, provider.Partial)
		}
	}
}

// onPiece does something right before a piece is asked for, the at-th, and runs
// one command at a time.
type onPiece struct {
	provider.Sandbox
	at    int
	do    func()
	mu    sync.Mutex
	calls int
}

func (o *onPiece) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if strings.HasPrefix(cmd.Label, "piece") {
		if o.calls++; o.calls == o.at {
			o.do()
		}
	}
	return o.Sandbox.Exec(ctx, cmd)
}
