package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errLost = New(Unreachable, "connection lost", "")

// recordingPolicy repeats without waiting and records the waits.
func recordingPolicy(waits *[]time.Duration) RetryPolicy {
	return RetryPolicy{Attempts: 4, Base: 100 * time.Millisecond, Max: 300 * time.Millisecond,
		Jitter: func() float64 { return 1 },
		Sleep:  func(ctx context.Context, d time.Duration) error { *waits = append(*waits, d); return ctx.Err() }}
}

func TestRetryRepeats(t *testing.T) {
	ms := time.Millisecond
	for name, tc := range map[string]struct {
		cmd   Command
		errs  []error // of the attempts; then success
		waits []time.Duration
		fails bool
	}{
		"success":                  {cmd: Command{Idempotent: true}},
		"temporary":                {cmd: Command{Idempotent: true}, errs: []error{errLost, errLost}, waits: []time.Duration{100 * ms, 200 * ms}},
		"up to the maximum":        {cmd: Command{Idempotent: true}, errs: []error{errLost, errLost, errLost}, waits: []time.Duration{100 * ms, 200 * ms, 300 * ms}},
		"too often":                {cmd: Command{Idempotent: true}, errs: []error{errLost, errLost, errLost, errLost}, waits: []time.Duration{100 * ms, 200 * ms, 300 * ms}, fails: true},
		"not idempotent":           {errs: []error{errLost}, fails: true},
		"not temporary":            {cmd: Command{Idempotent: true}, errs: []error{New(NoSpace, "full", "")}, fails: true},
		"final":                    {cmd: Command{Idempotent: true}, errs: []error{&Error{Kind: Unreachable, Err: io.EOF, Final: true}}, fails: true},
		"unknown":                  {cmd: Command{Idempotent: true}, errs: []error{io.ErrUnexpectedEOF}, fails: true},
		"wrapped":                  {cmd: Command{Idempotent: true}, errs: []error{fmt.Errorf("chunk 3: %w", errLost)}, waits: []time.Duration{100 * ms}},
		"retry-after":              {cmd: Command{Idempotent: true}, errs: []error{&Error{Kind: RateLimited, Err: io.EOF, RetryAfter: 7 * time.Second}}, waits: []time.Duration{7*time.Second + 100*ms}},
		"retry-after, wrapped":     {cmd: Command{Idempotent: true}, errs: []error{&Error{Kind: RateLimited, Err: &Error{Err: io.EOF, RetryAfter: 7 * time.Second}}}, waits: []time.Duration{7*time.Second + 100*ms}},
		"retry-after, shorter":     {cmd: Command{Idempotent: true}, errs: []error{&Error{Kind: RateLimited, Err: io.EOF, RetryAfter: ms}}, waits: []time.Duration{100 * ms}},
		"retry-after a day":        {cmd: Command{Idempotent: true}, errs: []error{&Error{Kind: RateLimited, Err: io.EOF, RetryAfter: 24 * time.Hour}}, fails: true},
		"input that can't seek":    {cmd: Command{Idempotent: true, Stdin: io.MultiReader(strings.NewReader("input"))}, errs: []error{errLost}, fails: true},
		"rate limited very often":  {cmd: Command{Idempotent: true}, errs: repeated[error](New(RateLimited, "429", ""), 19), waits: append([]time.Duration{100 * ms, 200 * ms}, repeated(300*ms, 17)...)},
		"rate limited for ever":    {cmd: Command{Idempotent: true}, errs: repeated[error](New(RateLimited, "429", ""), 20), waits: append([]time.Duration{100 * ms, 200 * ms}, repeated(300*ms, 17)...), fails: true},
		"temporary, then not":      {cmd: Command{Idempotent: true}, errs: []error{errLost, os.ErrPermission}, waits: []time.Duration{100 * ms}, fails: true},
		"the caller's own writer":  {cmd: Command{Idempotent: true, Stdout: io.Discard}, errs: []error{errLost}, waits: []time.Duration{100 * ms}},
		"output of a failed start": {cmd: Command{Idempotent: true, Stdin: strings.NewReader("input")}, errs: []error{errLost}, waits: []time.Duration{100 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			attempt := 0
			inner := &stub{caps: Capabilities{Stream: true}, exec: func(_ context.Context, cmd Command) (Result, error) {
				attempt++
				if attempt <= len(tc.errs) {
					return Result{}, tc.errs[attempt-1]
				}
				return Result{ExitCode: 5}, nil
			}}
			var waits []time.Duration
			sb := Retry(inner, recordingPolicy(&waits))
			res, err := sb.Exec(t.Context(), tc.cmd)
			if !reflect.DeepEqual(waits, tc.waits) {
				t.Errorf("waits %v, want %v", waits, tc.waits)
			}
			if tc.fails != (err != nil) || err == nil && res.ExitCode != 5 {
				t.Errorf("error %v, result %+v", err, res)
			}
			if err != nil && !errors.Is(err, tc.errs[attempt-1]) {
				t.Errorf("error %v is not the last attempt's", err)
			}
		})
	}
}

func repeated[T any](v T, n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = v
	}
	return s
}

func TestRetryRewindsInput(t *testing.T) {
	input := strings.NewReader("skipped|input")
	input.Seek(8, io.SeekStart)
	var got []string
	var stale io.Reader
	inner := &stub{exec: func(_ context.Context, cmd Command) (Result, error) {
		b := make([]byte, 3)
		io.ReadFull(cmd.Stdin, b)
		if stale == nil {
			got, stale = append(got, string(b)), cmd.Stdin
			return Result{}, errLost
		}
		// What an attempt left running must not take the next one's bytes.
		if n, err := stale.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("the first attempt still reads %d bytes, error %v", n, err)
		}
		rest, _ := io.ReadAll(cmd.Stdin)
		got = append(got, string(b)+string(rest))
		return Result{}, nil
	}}
	var waits []time.Duration
	if _, err := Retry(inner, recordingPolicy(&waits)).Exec(t.Context(), Command{Stdin: input, Idempotent: true}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, []string{"inp", "input"}) {
		t.Errorf("attempts read %q", got)
	}
}

func TestRetryRefusesAPipe(t *testing.T) {
	r, w, err := os.Pipe() // has Seek, which fails
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	inner := &stub{exec: func(context.Context, Command) (Result, error) { return Result{}, errLost }}
	var waits []time.Duration
	Retry(inner, recordingPolicy(&waits)).Exec(t.Context(), Command{Stdin: r, Idempotent: true})
	if len(inner.called) != 1 {
		t.Errorf("%d attempts", len(inner.called))
	}
}

// onlyWriter hides Reset.
type onlyWriter struct{ io.Writer }

func TestRetryAndOutput(t *testing.T) {
	halfThenWhole := func(out io.Writer, first *io.Writer) error {
		if *first == nil {
			*first = out
			io.WriteString(out, "ha")
			return errLost
		}
		if n, err := io.WriteString(*first, "late"); n != 0 || err == nil {
			t.Errorf("the first attempt still writes %d bytes, error %v", n, err)
		}
		io.WriteString(out, "whole")
		return nil
	}
	for _, verb := range []string{"exec", "stream", "get"} {
		run := func(out io.Writer) error {
			var first io.Writer
			inner := &stub{caps: Capabilities{Stream: true, Files: true}}
			inner.exec = func(_ context.Context, cmd Command) (Result, error) {
				return Result{}, halfThenWhole(cmd.Stdout, &first)
			}
			inner.get = func(_ int64, w io.Writer) error { return halfThenWhole(w, &first) }
			var waits []time.Duration
			sb := Retry(inner, recordingPolicy(&waits))
			cmd := Command{Idempotent: true, Stdout: out}
			var err error
			switch verb {
			case "exec":
				_, err = sb.Exec(t.Context(), cmd)
			case "stream":
				_, err = sb.(Streamer).Stream(t.Context(), cmd)
			case "get":
				err = sb.(Filer).GetFile(t.Context(), "/x", 0, out)
			}
			return err
		}
		var out bytes.Buffer
		if err := run(&out); err != nil || out.String() != "whole" {
			t.Errorf("%s, output that can be reset: %q, %v", verb, out.String(), err)
		}
		out.Reset()
		if err := run(onlyWriter{&out}); err == nil || out.String() != "ha" {
			t.Errorf("%s, output that can't be reset: %q, %v", verb, out.String(), err)
		}
	}
}

func TestRetryPutsOnlyWhatFailed(t *testing.T) {
	files := []PutFile{{Path: "/a"}, {Path: "/b"}, {Path: "/c"}}
	bad := func(path string, err error) error { return &FileError{Path: path, Err: err} }
	for name, tc := range map[string]struct {
		err   error
		again int // files of the second attempt; 0 is none
	}{
		"two files":           {errors.Join(bad("/a", errLost), bad("/c", errLost)), 2},
		"one file":            {bad("/b", errLost), 1},
		"one for good":        {errors.Join(bad("/a", errLost), bad("/c", New(NoSpace, "full", ""))), 0},
		"the request":         {errLost, 3},
		"a file, the request": {errors.Join(bad("/a", errLost), errLost), 3},
	} {
		calls := 0
		inner := &stub{caps: Capabilities{Files: true}, put: func(got []PutFile) error {
			calls++
			if calls == 1 {
				return tc.err
			}
			if len(got) != tc.again {
				t.Errorf("%s: %d files are put again, want %d", name, len(got), tc.again)
			}
			return nil
		}}
		var waits []time.Duration
		err := Retry(inner, recordingPolicy(&waits)).(Filer).PutFiles(t.Context(), files)
		if (err != nil) != (tc.again == 0) || calls != min(2, tc.again+1) {
			t.Errorf("%s: error %v, %d attempts", name, err, calls)
		}
	}
}

func TestRetryTellsAndGivesUpWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		inner := &stub{exec: func(context.Context, Command) (Result, error) { return Result{}, errLost }}
		var events []RetryEvent
		sb := Retry(inner, RetryPolicy{Base: 2 * time.Second, OnRetry: func(e RetryEvent) { events = append(events, e) }})
		began := time.Now()
		_, err := sb.Exec(ctx, Command{Idempotent: true, Label: "chunk 3"})
		if !errors.Is(err, errLost) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("gave up after %v", took)
		}
		if len(events) != 2 || events[0].Label != "chunk 3" || events[0].Attempt != 1 || events[1].Attempt != 2 || !errors.Is(events[0].Err, errLost) {
			t.Errorf("events %+v", events)
		}
		if w := events[0].Wait; w < time.Second || w > 2*time.Second {
			t.Errorf("first wait %v, want 1 s to 2 s", w)
		}
	})
}
