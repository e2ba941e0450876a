package provider

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimitCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load, running := counter()
		var mu sync.Mutex
		peak := int64(0)
		work := func() {
			running.Add(1)
			mu.Lock()
			peak = max(peak, load())
			mu.Unlock()
			time.Sleep(time.Second)
			running.Add(-1)
		}
		inner := &lockedStub{stub: stub{caps: Capabilities{Stream: true, Files: true, Sync: true}}, work: work}
		sb := Limit(inner, 3, nil)
		began := time.Now()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { sb.Exec(t.Context(), Command{}) })
			wg.Go(func() { sb.(Streamer).Stream(t.Context(), Command{Stdout: io.Discard}) })
			wg.Go(func() { sb.(Filer).PutFiles(t.Context(), nil) })
			wg.Go(func() { sb.(Filer).GetFile(t.Context(), "/", 0, io.Discard) })
			wg.Go(func() { sb.(Syncer).SyncIn(t.Context(), nil) })
			wg.Go(func() { sb.(Syncer).SyncOut(t.Context(), nil) })
		}
		wg.Wait()
		if peak != 3 || time.Since(began) != 8*time.Second {
			t.Errorf("24 calls of 1 s: %d at once, %v in all; want 3 and 8 s", peak, time.Since(began))
		}
	})
}

// lockedStub is a stub for concurrent calls, all of which do work.
type lockedStub struct {
	stub
	work func()
}

func (s *lockedStub) Exec(context.Context, Command) (Result, error)   { s.work(); return Result{}, nil }
func (s *lockedStub) Stream(context.Context, Command) (Result, error) { s.work(); return Result{}, nil }
func (s *lockedStub) PutFiles(context.Context, []PutFile) error       { s.work(); return nil }
func (s *lockedStub) GetFile(context.Context, string, int64, io.Writer) error {
	s.work()
	return nil
}
func (s *lockedStub) SyncIn(context.Context, []SyncOperation) ([]SyncResult, error) {
	s.work()
	return nil, nil
}
func (s *lockedStub) SyncOut(context.Context, []SyncOperation) ([]SyncResult, error) {
	s.work()
	return nil, nil
}

func TestLimitDefaultsToCapability(t *testing.T) {
	sb := Limit(&stub{caps: Capabilities{MaxConcurrent: 7}}, 0, nil).(*limit)
	if cap(sb.slots) != 7 {
		t.Errorf("%d slots", cap(sb.slots))
	}
	if sb := Limit(&stub{}, 0, nil).(*limit); cap(sb.slots) != DefaultMaxConcurrent {
		t.Errorf("%d slots", cap(sb.slots))
	}
}

// One answer that says to slow down pauses everybody, also in another sandbox
// with the same gate (ProfessionalWiki/SimpleBatchUpload#83).
func TestGatePausesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := &Error{Kind: RateLimited, Err: errors.New("429"), RetryAfter: 10 * time.Second}
		gate := new(Gate)
		one := Limit(&stub{exec: func(context.Context, Command) (Result, error) { return Result{}, limited }}, 2, gate)
		other := Limit(&stub{}, 2, gate)
		began := time.Now()
		if _, err := one.Exec(t.Context(), Command{}); !errors.Is(err, limited) {
			t.Errorf("error %v", err)
		}
		other.Exec(t.Context(), Command{})
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("the other call came after %v, want 10 s", d)
		}
		gate.Pause(time.Second)
		gate.Pause(time.Millisecond) // a shorter pause does not open it earlier
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := other.Exec(ctx, Command{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ends at the gate: %v", err)
		}
		gate.Pause(24 * time.Hour)
		began = time.Now()
		gate.Wait(t.Context())
		if d := time.Since(began); d != maxRetryAfter {
			t.Errorf("a pause of a day takes %v", d)
		}
	})
}

// 200 files against a limit of 5 calls a second: all arrive, in about the time
// that the limit allows.
func TestRetryLimitAgainstARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var recent []time.Time
		done := 0
		inner := &rateStub{call: func() error {
			mu.Lock()
			defer mu.Unlock()
			for len(recent) > 0 && time.Since(recent[0]) >= time.Second {
				recent = recent[1:]
			}
			if len(recent) >= 5 {
				return &Error{Kind: RateLimited, Err: errors.New("429")}
			}
			recent = append(recent, time.Now())
			done++
			return nil
		}}
		sb := Retry(Limit(inner, 8, nil), RetryPolicy{})
		began := time.Now()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				if _, err := sb.Exec(t.Context(), Command{Idempotent: true}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(began); done != 200 || d > 2*time.Minute {
			t.Errorf("%d of 200 calls in %v", done, d)
		}
	})
}

type rateStub struct {
	stub
	call func() error
}

func (s *rateStub) Exec(context.Context, Command) (Result, error) { return Result{}, s.call() }
