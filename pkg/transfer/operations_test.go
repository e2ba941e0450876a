//go:build unix

package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

func runOps(t testing.TB, sb provider.Sandbox, dir transfer.Direction, opt transfer.Options, ops ...transfer.Operation) (*transfer.Report, error) {
	t.Helper()
	if opt.Observer == nil {
		opt.Observer = logger{t}
	}
	return transfer.Run(context.Background(), dir, transfer.Target{Sandbox: sb, Name: "fake"}, ops, opt)
}

// The contract: operations in order, mappings in order, then the commands.
func TestOperationsInOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Push, providertest.Options{})
		box := w.f.Root()
		writeTree(t, w.host, map[string]string{"tree/f": "f\n", "tree/skip.o": "", "one": "one\n", "two": "22\n", "secret": "s\n"})
		host := func(p string) string { return filepath.Join(w.host, p) }
		in := func(p string) string { return filepath.Join(box, p) }
		mode := uint32(0o600)
		log := "echo \"$(pwd) $(ls | tr '\\n' ' ')\" >>" + in("log")
		rep, err := runOps(t, w.f, transfer.Push, w.opt,
			transfer.Operation{ID: "../id one", Files: []transfer.Mapping{
				{Source: host("tree"), Target: in("w"), Kind: transfer.DirectoryKind, Exclude: []string{"*.o"}, Policy: transfer.Replace},
				{Source: host("one"), Target: in("w/f")}, // over what the first one brought
				{Source: host("secret"), Target: in("w/deep/secret"), Mode: &mode},
			}, Commands: []transfer.PostCommand{{Command: log}, {Command: log, Dir: in("w/deep")}}},
			transfer.Operation{ID: "two", Files: []transfer.Mapping{{Source: host("two"), Target: in("x/two")}}, Commands: []transfer.PostCommand{{Command: log}}},
			transfer.Operation{ID: "three"},
		)
		if err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, in("w/f")); got != "one" {
			t.Errorf("the later mapping did not win: %q", got)
		}
		if info, err := os.Stat(in("w/deep/secret")); err != nil || info.Mode() != 0o600 {
			t.Errorf("secret: %v", info)
		}
		want := fmt.Sprintf("%s deep f \n%s secret \n%s two", in("w"), in("w/deep"), in("x"))
		if got := readFile(t, in("log")); got != want {
			t.Errorf("the commands saw\n%s\nwant\n%s", got, want)
		}
		if got := fmt.Sprint(rep.Operations); got != "[{../id one 3 8} {two 1 3} {three 0 0}]" {
			t.Errorf("operations: %s", got)
		}
		w.clean()
	})
}

// P10: the first command that fails ends it all, and says why.
func TestCommands(t *testing.T) {
	k := kindOfSandbox{stream: true}
	w := newWay(t, k, transfer.Push, providertest.Options{})
	writeTree(t, w.source, map[string]string{"f": "f\n"})
	op := func(id string, commands ...transfer.PostCommand) transfer.Operation {
		return transfer.Operation{ID: id, Files: []transfer.Mapping{{Source: w.source, Target: w.target + id}}, Commands: commands}
	}
	cmd := func(text string) transfer.PostCommand { return transfer.PostCommand{Command: text} }
	_, err := runOps(t, w.f, transfer.Push, w.opt, op("a", cmd("touch ran1"), cmd("echo out; echo err >&2; exit 3"), cmd("touch ran2")), op("b"))
	if err == nil || !strings.Contains(err.Error(), `command 2 of operation "a": exit code 3; stdout: out; stderr: err`) {
		t.Errorf("got %v", err)
	}
	if !exists(w.target+"a/ran1") || exists(w.target+"a/ran2") || exists(w.target+"b") {
		t.Error("what ran is not what should have")
	}
	start := time.Now()
	_, err = runOps(t, w.f, transfer.Push, w.opt, op("c", transfer.PostCommand{Command: "sleep 60", Timeout: 100 * time.Millisecond}))
	if provider.KindOf(err) != provider.Timeout || provider.IsTemporary(err) || time.Since(start) > 20*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	// Any amount of output, and silence longer than the idle deadline.
	opt := w.opt
	opt.IdleTimeout = 200 * time.Millisecond
	if _, err = runOps(t, w.f, transfer.Push, opt, op("d", cmd("head -c 70000000 /dev/zero; sleep 1"))); err != nil {
		t.Error(err)
	}
	// Nothing runs in a dry run, or if a file did not land.
	opt.DryRun = true
	if _, err = runOps(t, w.f, transfer.Push, opt, op("a", cmd("touch dry"))); err != nil || exists(w.target+"a/dry") {
		t.Errorf("dry run: %v", err)
	}
	// Names are not patterns, variables are the shell's.
	if _, err = runOps(t, w.f, transfer.Push, w.opt, op("e", cmd(`x="it's"; printf %s "$x" >'*'`))); err != nil || readFile(t, w.target+"e/*") != "it's" {
		t.Error(err)
	}
}

func TestCommandsWaitForAllFiles(t *testing.T) {
	w := newWay(t, kindOfSandbox{stream: true}, transfer.Push, providertest.Options{})
	writeTree(t, w.source, map[string]string{"f": "f\n", "gone": "g\n"})
	w.opt.Observer = &watcher{t: t, phase: func(name string) {
		if name == "send" {
			os.Remove(filepath.Join(w.source, "gone"))
		}
	}}
	op := transfer.Operation{Files: []transfer.Mapping{{Source: w.source, Target: w.target}}, Commands: []transfer.PostCommand{{Command: "touch ran"}}}
	_, err := runOps(t, w.f, transfer.Push, w.opt, op)
	wantKind(t, err, provider.Partial)
	if exists(filepath.Join(w.target, "ran")) || !exists(filepath.Join(w.target, "f")) {
		t.Error("the command ran, or nothing landed")
	}
}

// P07, P12: one bad mapping anywhere means that the provider is never called.
func TestNothingIsCalledIfAnythingIsRefused(t *testing.T) {
	f := openFake(t, providertest.Options{Stream: true})
	host := t.TempDir()
	writeTree(t, host, map[string]string{"tree/f": "f\n", "file": "f\n", "out": "-> /etc", "nothing": "-> missing"})
	good := transfer.Operation{ID: "good", Files: []transfer.Mapping{{Source: host + "/tree", Target: f.Root() + "/t"}}}
	m := func(source, target string) transfer.Operation {
		return transfer.Operation{ID: "bad", Files: []transfer.Mapping{good.Files[0], {Source: source, Target: target}}}
	}
	with := func(c transfer.PostCommand) transfer.Operation {
		op := good
		op.Commands = []transfer.PostCommand{c}
		return op
	}
	roots := options(transfer.Auto)
	roots.HostRoots, roots.SandboxRoots = []string{host}, []string{f.Root()}
	for name, test := range map[string]struct {
		op   transfer.Operation
		opt  *transfer.Options
		kind provider.Kind
	}{
		"missing source":            {m(host+"/missing", "/x"), nil, provider.SourceMissing},
		"link to nothing":           {m(host+"/nothing", "/x"), nil, provider.SourceMissing},
		"relative source":           {m("tree", "/x"), nil, provider.Confined},
		"relative target":           {m(host+"/file", "x"), nil, provider.Confined},
		"empty target":              {m(host+"/file", ""), nil, provider.Confined},
		"NUL":                       {m(host+"/file", "/x\x00"), nil, provider.Confined},
		"outside the sandbox root":  {m(host+"/file", f.Root()+"x/y"), &roots, provider.Confined},
		"up and out":                {m(host+"/file", f.Root()+"/../y"), &roots, provider.Confined},
		"outside the host root":     {m("/etc/passwd", f.Root()+"/x"), &roots, provider.Confined},
		"a link out of the root":    {m(host+"/out", f.Root()+"/x"), &roots, provider.Confined},
		"not a directory":           {transfer.Operation{Files: []transfer.Mapping{{Source: host + "/file", Target: "/x", Kind: transfer.DirectoryKind}}}, nil, provider.Usage},
		"not a file":                {transfer.Operation{Files: []transfer.Mapping{{Source: host + "/tree", Target: "/x", Kind: transfer.FileKind}}}, nil, provider.Usage},
		"a device":                  {m("/dev/null", "/x"), nil, provider.Usage},
		"command elsewhere":         {with(transfer.PostCommand{Command: "true", Dir: "/etc"}), nil, provider.Confined},
		"command in a neighbour":    {with(transfer.PostCommand{Command: "true", Dir: f.Root() + "/tt"}), nil, provider.Confined},
		"command with ..":           {with(transfer.PostCommand{Command: "true", Dir: f.Root() + "/t/../t"}), nil, provider.Confined},
		"command in a relative one": {with(transfer.PostCommand{Command: "true", Dir: "t"}), nil, provider.Confined},
		"empty command":             {with(transfer.PostCommand{}), nil, provider.Usage},
	} {
		opt := options(transfer.Auto)
		if test.opt != nil {
			opt = *test.opt
		}
		_, err := runOps(t, f, transfer.Push, opt, good, test.op)
		if provider.KindOf(err) != test.kind {
			t.Errorf("%s: %v of kind %s", name, err, provider.KindOf(err))
		}
		if f.Calls() != 0 || exists(f.Root()+"/t") {
			t.Fatalf("%s: the sandbox was called", name)
		}
	}
}

// A pull writes nowhere but below the declared roots, whatever links there are
// on the way (P09).
func TestPullStaysBelowTheHostRoots(t *testing.T) {
	f := openFake(t, providertest.Options{Stream: true})
	host, outside := t.TempDir(), t.TempDir()
	writeTree(t, f.Root(), map[string]string{"tree/f": "f\n", "file": "f\n"})
	writeTree(t, host, map[string]string{"in/": "", "out": "-> " + outside, "fine": "-> in", "link": "-> " + outside + "/new"})
	opt := options(transfer.Auto)
	opt.HostRoots = []string{host}
	for target, want := range map[string]provider.Kind{
		"out": provider.Confined, "out/new": provider.Confined, "out/a/b": provider.Confined, "fine/new": provider.Other, "in/x/y": provider.Other,
	} {
		_, err := run(t, f, transfer.Pull, f.Root()+"/tree", filepath.Join(host, target), opt)
		if provider.KindOf(err) != want || (err == nil) != (want == provider.Other) {
			t.Errorf("%s: %v", target, err)
		}
	}
	// A link to a file, or to nothing, is not followed but replaced.
	if _, err := run(t, f, transfer.Pull, f.Root()+"/file", filepath.Join(host, "link"), opt); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("%d entries came into being outside", len(left))
	}
	noScratch(t, host, f.Root())
}

// In the sandbox the declared roots hold too, as the sandbox itself resolves
// them, and a root need not exist.
func TestSandboxRoots(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		box := w.f.Root()
		writeTree(t, box, map[string]string{"root/tree/f": "f\n", "root/file": "f\n", "elsewhere/f": "e\n", "root/out": "-> ../elsewhere", "way": "-> root", "root/inner": "-> tree"})
		writeTree(t, w.host, map[string]string{"tree/f": "host\n"})
		try := func(root, p string) error {
			w.opt.SandboxRoots = []string{filepath.Join(box, root)}
			w.source, w.target = filepath.Join(w.host, "tree"), filepath.Join(box, p)
			if w.dir == transfer.Pull {
				w.source, w.target = w.target, filepath.Join(w.host, "pulled", p)
			}
			_, err := w.run()
			return err
		}
		for _, c := range [][2]string{{"root", "root/tree"}, {"way", "way/tree"}, {"root", "root/inner"}} {
			if err := try(c[0], c[1]); err != nil {
				t.Errorf("root %s, path %s: %v", c[0], c[1], err)
			}
		}
		for _, c := range [][2]string{{"root", "root/out"}, {"way", "way/out"}, {"way/tree", "way/file"}, {"root", "elsewhere"}} {
			if err := try(c[0], c[1]); provider.KindOf(err) != provider.Confined {
				t.Errorf("root %s, path %s: %v", c[0], c[1], err)
			}
		}
		if w.dir == transfer.Push {
			if err := try("way/new/root", "way/new/root/tree"); err != nil {
				t.Error(err)
			}
		}
		if readFile(t, filepath.Join(box, "elsewhere/f")) != "e" {
			t.Error("something outside was changed")
		}
		w.clean()
	})
}

// withStdin gives a test a standard input, withStdout a standard output.
func withStdin(t *testing.T, content string) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	old := os.Stdin
	os.Stdin = r
	go func() { io.WriteString(w, content); w.Close() }()
	t.Cleanup(func() { os.Stdin = old; r.Close() })
}

func withStdout(t *testing.T) (output func() []byte) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	old := os.Stdout
	os.Stdout = w
	done := make(chan []byte, 1)
	go func() { b, _ := io.ReadAll(r); done <- b }()
	t.Cleanup(func() { os.Stdout = old })
	return func() []byte { w.Close(); os.Stdout = old; return <-done }
}

func TestStandardInputAndOutput(t *testing.T) {
	content := noise(9<<20) + "end"
	for _, k := range kindsOfSandboxes {
		t.Run(k.name, func(t *testing.T) {
			f, opt := k.fake(t, providertest.Options{}), k.options()
			withStdin(t, content)
			target := filepath.Join(f.Root(), "d/f")
			rep := mustRun(t, f, transfer.Push, "-", target, opt)
			if b, err := os.ReadFile(target); err != nil || string(b) != content || rep.Files != 1 {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			if info, err := os.Stat(target); err != nil || info.Mode() != 0o644 {
				t.Errorf("mode %v", info.Mode())
			}
			output := withStdout(t)
			mustRun(t, f, transfer.Pull, target, "-", opt)
			if got := output(); string(got) != content {
				t.Errorf("%d bytes came out", len(got))
			}
			withStdin(t, "x")
			_, err := run(t, f, transfer.Push, "-", f.Root()+"/d/", opt)
			wantKind(t, err, provider.Usage)
			_, err = run(t, f, transfer.Pull, f.Root()+"/d", "-", opt)
			wantKind(t, err, provider.Usage)
			noScratch(t, f.Root())
		})
	}
}

// What went to standard output can't be taken back: another attempt must not
// write it again.
func TestStandardOutputIsWrittenOnce(t *testing.T) {
	f := openFake(t, providertest.Options{})
	content := noise(20 << 20)
	writeTree(t, f.Root(), map[string]string{"f": content})
	for lostFrom := 2; lostFrom < 5; lostFrom++ {
		output := withStdout(t)
		m := &meddler{Fake: f, around: func(n int, cmd provider.Command, run func(provider.Command) (provider.Result, error)) (provider.Result, error) {
			if n >= lostFrom {
				return provider.Result{}, lost()
			}
			return run(cmd)
		}}
		opt := options(transfer.Base64)
		opt.Retries = 1
		_, err := run(t, m, transfer.Pull, f.Root()+"/f", "-", opt)
		wantKind(t, err, provider.Unreachable)
		if got := output(); !bytes.HasPrefix([]byte(content), got) {
			t.Errorf("%d bytes came out that the file does not begin with", len(got))
		}
	}
}

// Ctrl-C while standard input has not ended.
func TestCancelledWhileStandardInputIsRead(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	old := os.Stdin
	os.Stdin = r
	defer func() { os.Stdin = old; w.Close() }()
	f := openFake(t, providertest.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	ops := []transfer.Operation{{Files: []transfer.Mapping{{Source: "-", Target: f.Root() + "/f"}}}}
	if _, err := transfer.Run(ctx, transfer.Push, transfer.Target{Sandbox: f}, ops, options(transfer.Auto)); err == nil || f.Calls() != 0 {
		t.Errorf("got %v after %d calls", err, f.Calls())
	}
}

func TestSymlinks(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		from := filepath.Dir(w.source)
		writeTree(t, from, map[string]string{
			"src/d/f": "f\n", "src/secret.key": "s\n", "src/.sbsyncignore": "*.key\n/big\n", "src/big/x": "x\n",
			"src/file": "-> d/f", "src/dir": "-> d", "src/far": "-> big", "src/key": "-> secret.key", "src/x.key": "-> d/f", "src/self": "-> .", "src/loop1": "-> loop2", "src/loop2": "-> loop1",
			"src/dangling": "-> nothing", "outside/o": "o\n",
		})
		try := func(way transfer.Symlinks, external bool) (*transfer.Report, error) {
			must(t, os.RemoveAll(w.target))
			w.opt.Symlinks, w.opt.AllowExternalSymlinks = way, external
			return w.run()
		}
		rep, err := try(transfer.Preserve, false)
		must(t, err)
		if rep.Links != 8 || rep.Excluded != 3 {
			t.Errorf("preserve: %+v", rep)
		}
		wantNames(t, w.target, ".sbsyncignore d/ d/f dangling dir far file key loop1 loop2 self")
		if text, err := os.Readlink(filepath.Join(w.target, "dangling")); err != nil || text != "nothing" {
			t.Errorf("dangling: %q, %v", text, err)
		}

		rep, err = try(transfer.Skip, false)
		must(t, err)
		if rep.Links != 0 || rep.Skipped != 8 {
			t.Errorf("skip: %+v", rep)
		}
		wantNames(t, w.target, ".sbsyncignore d/ d/f")

		_, err = try(transfer.Reject, false)
		wantKind(t, err, provider.Refused)
		if exists(w.target) {
			t.Error("reject made something")
		}

		// Followed, links that dangle or lead round can't be carried, and what is
		// excluded is judged by the name under which it would come.
		rep, err = try(transfer.Follow, false)
		wantKind(t, err, provider.Partial)
		var problems []string
		for _, p := range rep.Problems {
			problems = append(problems, p.Path)
		}
		if got := strings.Join(problems, " "); got != "dangling loop1 loop2 self" {
			t.Errorf("follow: problems with %s", got)
		}
		wantNames(t, w.target, ".sbsyncignore d/ d/f dir/ dir/f far/ far/x file key")
		if readFile(t, filepath.Join(w.target, "file")) != "f" || readFile(t, filepath.Join(w.target, "key")) != "s" {
			t.Error("another content")
		}

		for _, name := range []string{"dangling", "loop1", "loop2", "self"} {
			must(t, os.Remove(filepath.Join(w.source, name)))
		}
		must(t, os.Symlink("../outside/o", filepath.Join(w.source, "out")))
		rep, err = try(transfer.Follow, false)
		wantKind(t, err, provider.Partial)
		if len(rep.Problems) != 1 || rep.Problems[0].Path != "out" || exists(filepath.Join(w.target, "out")) {
			t.Errorf("follow: %v", rep.Problems)
		}
		if w.dir == transfer.Push {
			_, err = try(transfer.Follow, true)
			must(t, err)
			if readFile(t, filepath.Join(w.target, "out")) != "o" {
				t.Error("an external link was not followed")
			}
			_, err = try(transfer.Preserve, false)
			must(t, err) // in the sandbox it leads nowhere on the host
		} else {
			_, err = try(transfer.Preserve, false)
			wantKind(t, err, provider.Confined)
			if exists(w.target) {
				t.Error("a link that leads out was refused, and something made")
			}
			_, err = try(transfer.Preserve, true)
			must(t, err)
		}
		if text, err := os.Readlink(filepath.Join(w.target, "out")); err != nil || text != "../outside/o" {
			t.Errorf("out: %q, %v", text, err)
		}
		w.clean()
	})
}

// Where a directory can't be swapped, what is in it is replaced.
func TestReplaceInPlace(t *testing.T) {
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		everywhereNamed(t, string(dir), func(t *testing.T, k kindOfSandbox) {
			if dir == transfer.Pull && os.Geteuid() == 0 {
				return // root may write everywhere
			}
			w := newWay(t, k, dir, providertest.Options{OtherUser: true})
			writeTree(t, w.source, map[string]string{"a": "new\n", ".hidden": "h\n", "d/x": "x\n", "-f": "f\n"})
			parent := filepath.Join(filepath.Dir(w.target), "closed")
			w.target = filepath.Join(parent, "dst")
			writeTree(t, w.target, map[string]string{"a": "old\n", ".old": "o\n", "d": "a file\n", "..gone": "g\n", "e f/\n": ""})
			own(t, w.f, w.target)
			must(t, os.Chmod(parent, 0o555))
			before, err := os.Stat(w.target)
			must(t, err)
			w.opt.Policy = transfer.Replace
			rep := w.mustRun()
			if rep.Atomic {
				t.Error("it says that this was atomic")
			}
			wantNames(t, w.target, "-f .hidden a d/ d/x")
			if after, err := os.Stat(w.target); err != nil || !os.SameFile(before, after) {
				t.Error("the directory itself is another one")
			}
			w.clean()
			must(t, os.Chmod(parent, 0o755))
			if os.Geteuid() != 0 {
				return
			}
			must(t, os.Chown(parent, 65534, 65534))
			if rep := w.mustRun(); !rep.Atomic {
				t.Error("it says that a swap is not atomic")
			}
		})
	}
}
