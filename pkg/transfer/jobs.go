package transfer

import (
	"context"
	"sync"
)

// jobs runs work in a few goroutines. The first error stops it.
type jobs struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	slots  chan struct{}
	wg     sync.WaitGroup
	after  []func()
}

func newJobs(ctx context.Context, n int) *jobs {
	j := &jobs{slots: make(chan struct{}, n)}
	j.ctx, j.cancel = context.WithCancelCause(ctx)
	return j
}

// run waits for a free worker and starts the work.
func (j *jobs) run(work func(ctx context.Context) error) error {
	select {
	case j.slots <- struct{}{}:
	case <-j.ctx.Done():
		return context.Cause(j.ctx)
	}
	j.wg.Add(1)
	go func() {
		defer j.wg.Done()
		defer func() { <-j.slots }()
		if err := work(j.ctx); err != nil {
			j.cancel(err)
		}
	}()
	return nil
}

// then notes what to do when all work is done, on the caller's goroutine.
func (j *jobs) then(f func()) { j.after = append(j.after, f) }

func (j *jobs) err() error { return context.Cause(j.ctx) }

// wait waits for all work and returns the first error.
func (j *jobs) wait() error {
	j.wg.Wait()
	err := context.Cause(j.ctx)
	j.cancel(context.Canceled)
	if err == nil {
		for _, f := range j.after {
			f()
		}
	}
	return err
}
