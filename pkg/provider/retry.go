package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// RetryPolicy says how often and how fast [Retry] repeats.
type RetryPolicy struct {
	// Attempts is how often a call is made in all; 0 means 4, 1 never repeats.
	// Being told to slow down is no failure of the sandbox, so answers of kind
	// [RateLimited] may come five times as often.
	Attempts int
	// Base is the longest wait before the first repetition, 0 means 250 ms. It
	// doubles with each one up to Max, 0 means 15 s.
	Base, Max time.Duration
	// Jitter returns a random number from 0 up to 1, by which the upper half
	// of each wait is scaled, so that workers that failed together don't come
	// back together. Nil means math/rand. It must be safe for concurrent use.
	Jitter func() float64
	// Sleep waits for d or until ctx ends, which is an error. Nil means a timer.
	Sleep func(ctx context.Context, d time.Duration) error
	// OnRetry, if set, is called before each wait. It must be safe for
	// concurrent use.
	OnRetry func(RetryEvent)
}

// RetryEvent tells that a call failed and will be repeated.
type RetryEvent struct {
	Label   string // of the command, or the name of the verb
	Attempt int    // the one that failed, from 1
	Wait    time.Duration
	Err     error
}

// maxRetryAfter bounds what a provider may ask us to wait. A longer time is an
// outage or a quota, and better reported than slept through.
const maxRetryAfter = 5 * time.Minute

// Retry returns sb with calls repeated after temporary errors ([IsTemporary]),
// after a jittered exponential back-off, or the longer time that the error asks
// for.
//
// A command is repeated only if it is Idempotent, its Stdin (if any) can seek,
// and nothing of its output has reached its Stdout yet, or Stdout has a method
// Reset(), which is then called. Files are put again, only those that failed if
// the error tells which; a file is got again under the rule for Stdout.
// Operations of a [Syncer] are never repeated: what they did is not known.
//
// Retry belongs outside of the other wrappers: Log, Meter and Idle hide that a
// stream can be rewound, and a wait inside Limit would hold its slot.
func Retry(sb Sandbox, policy RetryPolicy) Sandbox {
	return &retry{passthrough: passTo(sb), policy: policy.withDefaults()}
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.Attempts <= 0 {
		p.Attempts = 4
	}
	if p.Base <= 0 {
		p.Base = 250 * time.Millisecond
	}
	if p.Max <= 0 {
		p.Max = 15 * time.Second
	}
	if p.Jitter == nil {
		p.Jitter = rand.Float64
	}
	if p.Sleep == nil {
		p.Sleep = sleep
	}
	return p
}

// Do calls try, and again after temporary errors, as the policy says. It
// returns the last error. The label names the work in RetryEvents.
func (p RetryPolicy) Do(ctx context.Context, label string, try func(ctx context.Context) error) error {
	return p.withDefaults().repeat(ctx, label, func() (bool, error) {
		err := try(ctx)
		return err != nil && IsTemporary(err), err
	})
}

type retry struct {
	passthrough
	policy RetryPolicy
}

func (r *retry) Exec(ctx context.Context, cmd Command) (Result, error) {
	return r.command(ctx, "exec", cmd, r.passthrough.Exec)
}

func (r *retry) Stream(ctx context.Context, cmd Command) (Result, error) {
	return r.command(ctx, "stream", cmd, r.passthrough.Stream)
}

func (r *retry) command(ctx context.Context, verb string, cmd Command, run func(context.Context, Command) (Result, error)) (res Result, err error) {
	if !cmd.Idempotent {
		return run(ctx, cmd)
	}
	in, ok := rewindable(cmd.Stdin)
	if !ok {
		return run(ctx, cmd)
	}
	if cmd.Label != "" {
		verb = cmd.Label
	}
	err = r.policy.repeat(ctx, verb, func() (bool, error) {
		once, out := cmd, &attemptWriter{w: cmd.Stdout}
		reader := in.start()
		if cmd.Stdin != nil {
			once.Stdin = reader
		}
		if cmd.Stdout != nil {
			once.Stdout = out
		}
		var err error
		res, err = run(ctx, once)
		if err == nil || !IsTemporary(err) {
			return false, err
		}
		return in.rewind(reader) && out.undo(), err
	})
	return res, err
}

func (r *retry) PutFiles(ctx context.Context, files []PutFile) error {
	return r.policy.repeat(ctx, "put files", func() (bool, error) {
		err := r.passthrough.PutFiles(ctx, files)
		if err == nil {
			return false, nil
		}
		var again bool
		files, again = unsent(files, err)
		return again, err
	})
}

func (r *retry) GetFile(ctx context.Context, path string, offset int64, w io.Writer) error {
	return r.policy.repeat(ctx, "get file", func() (bool, error) {
		out := &attemptWriter{w: w}
		err := r.passthrough.GetFile(ctx, path, offset, out)
		return err != nil && IsTemporary(err) && out.undo(), err
	})
}

// repeat calls try until it succeeds or says that another attempt makes no
// sense.
func (p RetryPolicy) repeat(ctx context.Context, label string, try func() (again bool, err error)) error {
	failures, limited := 0, 0
	for {
		again, err := try()
		if err == nil || ctx.Err() != nil {
			return err
		}
		after := retryAfterOf(err)
		if KindOf(err) == RateLimited {
			limited++
		} else {
			failures++
		}
		attempt := failures + limited
		if !again || failures >= p.Attempts || limited >= 5*p.Attempts || p.Attempts == 1 || after > maxRetryAfter {
			if attempt > 1 {
				return fmt.Errorf("%w (attempt %d)", err, attempt)
			}
			return err
		}
		wait := p.wait(attempt, after)
		if p.OnRetry != nil {
			p.OnRetry(RetryEvent{Label: label, Attempt: attempt, Wait: wait, Err: err})
		}
		if p.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

// wait returns how long to wait after the given attempt failed.
func (p RetryPolicy) wait(attempt int, after time.Duration) time.Duration {
	backoff := p.Max
	if shift := attempt - 1; shift < 20 {
		backoff = min(backoff, p.Base<<shift)
	}
	jitter := p.Jitter()
	wait := backoff/2 + time.Duration(jitter*float64(backoff/2))
	if after >= wait {
		wait = after + time.Duration(jitter*float64(p.Base))
	}
	return wait
}

// retryAfterOf returns the first RetryAfter in err's tree.
func retryAfterOf(err error) time.Duration {
	var e *Error
	for errors.As(err, &e) {
		if e.RetryAfter > 0 {
			return e.RetryAfter
		}
		err = e.Err
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unsent returns the files that err, which came from putting files, says did
// not arrive: all, unless err is made of nothing but file errors. It is false
// if one of the errors is not temporary.
func unsent(files []PutFile, err error) ([]PutFile, bool) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		joined = joinedError{err}
	}
	failed, all := make(map[string]bool), false
	for _, one := range joined.Unwrap() {
		if !IsTemporary(one) {
			return files, false
		}
		if fe, ok := errors.AsType[*FileError](one); ok {
			failed[fe.Path] = true
		} else {
			all = true
		}
	}
	if all {
		return files, true
	}
	var again []PutFile
	for _, f := range files {
		if failed[f.Path] {
			again = append(again, f)
		}
	}
	return again, len(again) > 0
}

type joinedError []error

func (j joinedError) Unwrap() []error { return j }
