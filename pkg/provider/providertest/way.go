package providertest

import (
	"context"
	"errors"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

// call is one call of any verb: the way to the sandbox and back.
func (f *Fake) call(ctx context.Context, counter *int, run func() (provider.Result, error)) (provider.Result, error) {
	number := f.begin(counter)
	defer f.finish()
	if err := wait(ctx, f.opts.RoundTrip); err != nil {
		return provider.Result{}, err
	}
	if err := f.admit(number); err != nil {
		return provider.Result{}, err
	}
	res, err := run()
	if f.opts.DieAt == number && f.opts.DieLate {
		f.fire("die_at")
		return provider.Result{}, gone()
	}
	return res, err
}

func (f *Fake) begin(counter *int) (number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if counter != nil {
		*counter++
	}
	f.running++
	f.peak = max(f.peak, f.running)
	return f.calls
}

func (f *Fake) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
}

func gone() error {
	return provider.New(provider.Unreachable, "the sandbox is gone", "")
}

// admit is the error that a proxy in front of the sandbox answers, or nil.
func (f *Fake) admit(number int) error {
	o := f.opts
	if o.DieAt > 0 && (number > o.DieAt || number == o.DieAt && !o.DieLate) {
		f.fire("die_at")
		return gone()
	}
	if o.UnreachableFirst != 0 && f.spend("unreachable_first", o.UnreachableFirst) {
		return provider.New(provider.Unreachable, "HTTP 502 Bad Gateway", "")
	}
	if o.RateLimitFirst != 0 && f.spend("rate_limit_first", o.RateLimitFirst) {
		return tooMany(o.RetryAfter)
	}
	if o.RatePerSecond > 0 {
		return f.rate(time.Now())
	}
	return nil
}

func tooMany(after time.Duration) error {
	return &provider.Error{Kind: provider.RateLimited, Err: errors.New("HTTP 429 Too Many Requests"), RetryAfter: after}
}

// rate lets RatePerSecond calls through in any second.
func (f *Fake) rate(now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.recent) > 0 && now.Sub(f.recent[0]) >= time.Second {
		f.recent = f.recent[1:]
	}
	if len(f.recent) < f.opts.RatePerSecond {
		f.recent = append(f.recent, now)
		return nil
	}
	f.fired["rate_per_second"]++
	if f.opts.RetryAfter > 0 {
		return tooMany(f.opts.RetryAfter)
	}
	return tooMany(time.Second - now.Sub(f.recent[0]))
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
