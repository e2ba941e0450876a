package provider

import (
	"context"
	"io"
	"sync"
	"time"
)

// Gate pauses everybody who passes through it after one was told to slow down.
// Limits of rates are limits in time: asking for less at once does not help
// (ProfessionalWiki/SimpleBatchUpload#83). The zero value is an open gate. It is
// safe for concurrent use, and one gate may serve several sandboxes that share
// an account.
type Gate struct {
	mu    sync.Mutex
	until time.Time
}

// gatePause is the pause if the provider does not say how long.
const gatePause = time.Second

// Pause keeps the gate shut for d from now on, if it is not shut longer
// already; for a second if d is 0, and for five minutes at most.
func (g *Gate) Pause(d time.Duration) {
	if d <= 0 {
		d = gatePause
	}
	until := time.Now().Add(min(d, maxRetryAfter))
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.until) {
		g.until = until
	}
}

// Wait returns when the gate is open, or with ctx's error.
func (g *Gate) Wait(ctx context.Context) error {
	for {
		g.mu.Lock()
		d := time.Until(g.until)
		g.mu.Unlock()
		if d <= 0 {
			return ctx.Err()
		}
		if err := sleep(ctx, d); err != nil {
			return err
		}
	}
}

// Limit returns sb with at most n calls at once, of all verbs together; n of 0
// means what sb's MaxConcurrent says. Every call waits at the gate before it
// begins, and an answer of kind [RateLimited] shuts the gate for everybody. A
// nil gate makes one of its own.
func Limit(sb Sandbox, n int, gate *Gate) Sandbox {
	if n <= 0 {
		n = sb.Capabilities().WithDefaults().MaxConcurrent
	}
	if gate == nil {
		gate = new(Gate)
	}
	return &limit{passthrough: passTo(sb), slots: make(chan struct{}, n), gate: gate}
}

type limit struct {
	passthrough
	slots chan struct{}
	gate  *Gate
}

// call runs one call in a slot.
func (l *limit) call(ctx context.Context, run func() error) error {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.slots }()
	if err := l.gate.Wait(ctx); err != nil {
		return err
	}
	err := run()
	if KindOf(err) == RateLimited {
		l.gate.Pause(retryAfterOf(err))
	}
	return err
}

func (l *limit) Exec(ctx context.Context, cmd Command) (res Result, err error) {
	err = l.call(ctx, func() (err error) { res, err = l.passthrough.Exec(ctx, cmd); return err })
	return res, err
}

func (l *limit) Stream(ctx context.Context, cmd Command) (res Result, err error) {
	err = l.call(ctx, func() (err error) { res, err = l.passthrough.Stream(ctx, cmd); return err })
	return res, err
}

func (l *limit) PutFiles(ctx context.Context, files []PutFile) error {
	return l.call(ctx, func() error { return l.passthrough.PutFiles(ctx, files) })
}

func (l *limit) GetFile(ctx context.Context, path string, offset int64, w io.Writer) error {
	return l.call(ctx, func() error { return l.passthrough.GetFile(ctx, path, offset, w) })
}

func (l *limit) SyncIn(ctx context.Context, ops []SyncOperation) (res []SyncResult, err error) {
	err = l.call(ctx, func() (err error) { res, err = l.passthrough.SyncIn(ctx, ops); return err })
	return res, err
}

func (l *limit) SyncOut(ctx context.Context, ops []SyncOperation) (res []SyncResult, err error) {
	err = l.call(ctx, func() (err error) { res, err = l.passthrough.SyncOut(ctx, ops); return err })
	return res, err
}
