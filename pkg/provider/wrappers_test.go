package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// stub is a sandbox with all verbs, of which the tests give what they need.
type stub struct {
	caps   Capabilities
	exec   func(ctx context.Context, cmd Command) (Result, error)
	put    func(files []PutFile) error
	get    func(offset int64, w io.Writer) error
	ctx    context.Context // of the call under way
	called []string
	closed int
}

func (s *stub) Capabilities() Capabilities { return s.caps }
func (s *stub) Close() error               { s.closed++; return errors.New("closed") }

func (s *stub) Exec(ctx context.Context, cmd Command) (Result, error) {
	s.called = append(s.called, "exec "+cmd.Label)
	if s.exec == nil {
		return Result{}, nil
	}
	return s.exec(ctx, cmd)
}

func (s *stub) Stream(ctx context.Context, cmd Command) (Result, error) {
	s.called = append(s.called, "stream "+cmd.Label)
	if s.exec == nil {
		return Result{}, nil
	}
	return s.exec(ctx, cmd)
}

func (s *stub) PutFiles(ctx context.Context, files []PutFile) error {
	s.called = append(s.called, fmt.Sprint("put ", len(files)))
	s.ctx = ctx
	if s.put == nil {
		return nil
	}
	return s.put(files)
}

func (s *stub) GetFile(ctx context.Context, path string, offset int64, w io.Writer) error {
	s.called = append(s.called, fmt.Sprint("get ", path, " ", offset))
	s.ctx = ctx
	if s.get == nil {
		return nil
	}
	return s.get(offset, w)
}

func (s *stub) SyncIn(ctx context.Context, ops []SyncOperation) ([]SyncResult, error) {
	s.called = append(s.called, "sync in")
	return []SyncResult{{ID: "in"}}, nil
}

func (s *stub) SyncOut(ctx context.Context, ops []SyncOperation) ([]SyncResult, error) {
	s.called = append(s.called, "sync out")
	return []SyncResult{{ID: "out"}}, nil
}

// execOnly has no optional verb, whatever its capabilities say.
type execOnly struct{ Sandbox }

// wrappers are all of them, doing nothing.
var wrappers = map[string]func(Sandbox) Sandbox{
	"narrow": func(sb Sandbox) Sandbox { return Narrow(sb, func(*Capabilities) {}) },
	"retry":  func(sb Sandbox) Sandbox { return Retry(sb, RetryPolicy{}) },
	"limit":  func(sb Sandbox) Sandbox { return Limit(sb, 1, nil) },
	"log":    func(sb Sandbox) Sandbox { return Log(sb, func(Event) {}) },
	"meter":  func(sb Sandbox) Sandbox { return Meter(sb) },
	"idle":   func(sb Sandbox) Sandbox { return Idle(sb, time.Hour) },
	"all": func(sb Sandbox) Sandbox {
		return Narrow(Retry(Limit(Log(Idle(Meter(sb), time.Hour), func(Event) {}), 1, nil), RetryPolicy{}), func(*Capabilities) {})
	},
}

func TestWrappersPassEverythingThrough(t *testing.T) {
	ctx := t.Context()
	for name, wrap := range wrappers {
		t.Run(name, func(t *testing.T) {
			inner := &stub{caps: Capabilities{Stdin: true, Stream: true, Files: true, Sync: true, MaxArg: 7, Notes: []string{"n"}}}
			sb := wrap(inner)
			if got := sb.Capabilities(); got.MaxArg != 7 || !got.Stdin || got.Notes[0] != "n" {
				t.Errorf("capabilities %+v", got)
			}
			stream, ok1 := StreamerOf(sb)
			files, ok2 := FilerOf(sb)
			sync, ok3 := SyncerOf(sb)
			if !ok1 || !ok2 || !ok3 {
				t.Fatalf("verbs are lost: %v %v %v", ok1, ok2, ok3)
			}
			sb.Exec(ctx, Command{Label: "a"})
			stream.Stream(ctx, Command{Label: "b", Stdout: io.Discard})
			files.PutFiles(ctx, make([]PutFile, 2))
			files.GetFile(ctx, "/p", 5, io.Discard)
			in, _ := sync.SyncIn(ctx, nil)
			out, _ := sync.SyncOut(ctx, nil)
			if len(in) != 1 || in[0].ID != "in" || len(out) != 1 || out[0].ID != "out" {
				t.Errorf("sync results %v %v", in, out)
			}
			want := []string{"exec a", "stream b", "put 2", "get /p 5", "sync in", "sync out"}
			if !reflect.DeepEqual(inner.called, want) {
				t.Errorf("calls %q, want %q", inner.called, want)
			}
			if err := sb.Close(); err == nil || inner.closed != 1 {
				t.Errorf("close: %v, %d times", err, inner.closed)
			}
		})
	}
}

func TestWrappersOfferNoVerbThatIsMissing(t *testing.T) {
	ctx := t.Context()
	all := Capabilities{Stream: true, Files: true, Sync: true}
	for name, wrap := range wrappers {
		for what, inner := range map[string]Sandbox{
			"capabilities say no":   &stub{},
			"methods are not there": execOnly{&stub{caps: all}},
		} {
			sb := wrap(inner)
			_, ok1 := StreamerOf(sb)
			_, ok2 := FilerOf(sb)
			_, ok3 := SyncerOf(sb)
			if ok1 || ok2 || ok3 {
				t.Errorf("%s, %s: %v %v %v", name, what, ok1, ok2, ok3)
			}
			_, err1 := sb.(Streamer).Stream(ctx, Command{Stdout: io.Discard})
			err2 := sb.(Filer).PutFiles(ctx, nil)
			err3 := sb.(Filer).GetFile(ctx, "/", 0, io.Discard)
			_, err4 := sb.(Syncer).SyncIn(ctx, nil)
			_, err5 := sb.(Syncer).SyncOut(ctx, nil)
			for _, err := range []error{err1, err2, err3, err4, err5} {
				if !errors.Is(err, ErrNotImplemented) {
					t.Errorf("%s, %s: %v", name, what, err)
				}
			}
		}
	}
}

func TestNarrowOnlyRemoves(t *testing.T) {
	weak := Capabilities{MaxStdin: 10, MaxStdout: 20, MergedOutput: true, EarlyExit: true, TextOutput: true}
	greedy := func(c *Capabilities) {
		*c = Capabilities{Stdin: true, HalfClose: true, Stream: true, Files: true, Sync: true,
			MaxStdin: 100, MaxStdout: 0, MaxArg: 1 << 20, MaxArgs: 1 << 30, MaxConcurrent: 99}
	}
	got := Narrow(&stub{caps: weak}, greedy).Capabilities()
	want := weak
	want.MaxArg, want.MaxArgs, want.MaxConcurrent = DefaultMaxArg, DefaultMaxArgs, DefaultMaxConcurrent
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	strong := Capabilities{Stdin: true, HalfClose: true, Stream: true, Files: true, Sync: true, Notes: []string{"kept"}}
	sb := &stub{caps: strong}
	got = Narrow(sb, func(c *Capabilities) {
		c.Stream, c.HalfClose, c.MaxArg, c.MaxStdout = false, false, 10, 5
		c.Notes[0] = "changed"
	}).Capabilities()
	if got.Stream || got.HalfClose || got.MaxArg != 10 || got.MaxStdout != 5 || !got.Files || !got.Stdin {
		t.Errorf("narrowed to %+v", got)
	}
	if strong.Notes[0] != "kept" {
		t.Errorf("the sandbox's own notes were changed")
	}
}

func TestMeterCounts(t *testing.T) {
	inner := &stub{caps: Capabilities{Stream: true, Files: true, Sync: true}}
	inner.exec = func(_ context.Context, cmd Command) (Result, error) {
		if cmd.Stdin != nil {
			io.Copy(io.Discard, cmd.Stdin)
		}
		if cmd.Stdout != nil {
			io.WriteString(cmd.Stdout, "output")
			return Result{Stderr: []byte("e")}, nil
		}
		return Result{Stdout: []byte("out"), Stderr: []byte("err")}, nil
	}
	inner.put = func(files []PutFile) error {
		r, err := files[0].Open()
		if err == nil {
			io.Copy(io.Discard, r)
			err = r.Close()
		}
		return err
	}
	inner.get = func(_ int64, w io.Writer) error { _, err := io.WriteString(w, "12345"); return err }

	m := Meter(inner)
	m.Exec(t.Context(), Command{Stdin: strings.NewReader("four")})
	m.Stream(t.Context(), Command{Stdin: strings.NewReader("1"), Stdout: io.Discard})
	m.PutFiles(t.Context(), []PutFile{{Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("12")), nil }}})
	m.GetFile(t.Context(), "/x", 0, io.Discard)
	m.SyncIn(t.Context(), nil)
	m.SyncOut(t.Context(), nil)
	want := Counts{Execs: 1, Streams: 1, Requests: 4, BytesIn: 4 + 1 + 2, BytesOut: 6 + 7 + 5}
	if got := m.Counts(); got != want || got.Calls() != 6 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestLogTellsNoSecrets(t *testing.T) {
	var events []Event
	boom := errors.New("boom")
	inner := &stub{exec: func(_ context.Context, cmd Command) (Result, error) {
		n, _ := io.Copy(io.Discard, cmd.Stdin)
		return Result{ExitCode: 3, Stdout: make([]byte, n+1)}, boom
	}}
	sb := Log(inner, func(e Event) { events = append(events, e) })
	_, err := sb.Exec(t.Context(), Command{Args: []string{"login", "hunter2"}, Env: map[string]string{"TOKEN": "hunter2"},
		Stdin: strings.NewReader("hunter2"), Label: "log in"})
	if err != boom || len(events) != 1 {
		t.Fatalf("error %v, %d events", err, len(events))
	}
	e := events[0]
	if e.Verb != "exec" || e.Label != "log in" || e.ExitCode != 3 || e.BytesIn != 7 || e.BytesOut != 8 || e.Err != boom || e.Duration < 0 {
		t.Errorf("event %+v", e)
	}
	if strings.Contains(fmt.Sprintf("%+v", e), "hunter2") {
		t.Errorf("the event has a secret: %+v", e)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	for _, sizes := range [][]int{{10}, {StderrTail}, {StderrTail - 1, 1}, {StderrTail, 1}, {100_000}, {10, 100_000, 3}, {7, 7}, {30_000, 30_000, 30_000}, {1, StderrTail - 1, StderrTail - 1}} {
		var tail Tail
		var all []byte
		for i, n := range sizes {
			piece := make([]byte, n)
			for j := range piece {
				piece[j] = byte(i*31 + j*7)
			}
			all = append(all, piece...)
			if written, err := tail.Write(piece); written != n || err != nil {
				t.Errorf("write: %d, %v", written, err)
			}
		}
		want := all[max(0, len(all)-StderrTail):]
		if got := tail.Bytes(); string(got) != string(want) {
			t.Errorf("pieces of %v: kept %d bytes, want the last %d", sizes, len(got), len(want))
		}
	}
}

func TestCollectorFailsClosed(t *testing.T) {
	c := Collector{Max: 5}
	io.WriteString(&c, "123")
	if _, err := io.WriteString(&c, "456"); KindOf(err) != TooLarge || IsTemporary(err) {
		t.Errorf("error %v", err)
	}
	if string(c.Bytes()) != "123" {
		t.Errorf("holds %q", c.Bytes())
	}
	if _, err := io.WriteString(&c, "45"); err != nil {
		t.Errorf("5 of 5 bytes: %v", err)
	}
}

func counter() (func() int64, *atomic.Int64) {
	n := new(atomic.Int64)
	return n.Load, n
}
