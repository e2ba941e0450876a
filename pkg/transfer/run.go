package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/tree"
)

// Run carries out operations in order. All checks of all operations come
// before the first provider call. The report is valid also on error.
//
// Errors are *provider.Error where something is known of their kind; kind
// Partial means that everything else is in place.
func Run(ctx context.Context, dir Direction, target Target, ops []Operation, opt Options) (*Report, error) {
	start := time.Now()
	r := newRunner(dir, target, opt)
	err := r.run(ctx, ops)
	counts := r.meter.Counts()
	r.report.Calls, r.report.Wire = int(counts.Calls()), counts.BytesIn+counts.BytesOut
	r.report.Elapsed = time.Since(start)
	return r.report, err
}

// newRunner puts the wrappers around the sandbox.
func newRunner(dir Direction, target Target, opt Options) *runner {
	r := &runner{dir: dir, opt: opt, report: &Report{Direction: dir, DryRun: opt.DryRun, Atomic: true}}
	r.meter = provider.Meter(target.Sandbox)
	// Waiting for a turn is no silence, so Limit is around Idle. Its gate holds
	// all workers back when one is told to slow down.
	r.sandbox = provider.Limit(provider.Idle(r.meter, opt.IdleTimeout), 0, new(provider.Gate))
	r.sandbox = provider.Retry(r.sandbox, r.retryPolicy())
	return r
}

// runner is one run.
type runner struct {
	dir     Direction
	meter   *provider.Metered
	sandbox provider.Sandbox
	opt     Options
	report  *Report
	session *script.Session // of the route that is wanted
	several bool            // more than one mapping, so that errors say which
	mu      sync.Mutex      // guards the report's problems while several goroutines carry

	// Of the current mapping, over all attempts:
	seen  int                   // problems of earlier mappings
	tried map[string]triedEntry // what an attempt may have carried unheard
	told  map[string]bool       // problems that the observer has heard of
}

func (r *runner) retryPolicy() provider.RetryPolicy {
	return provider.RetryPolicy{Attempts: r.opt.Retries + 1, OnRetry: func(e provider.RetryEvent) {
		r.log("%s: attempt %d failed, next in %v: %v", e.Label, e.Attempt, e.Wait.Round(time.Millisecond), e.Err)
	}}
}

func (r *runner) run(ctx context.Context, ops []Operation) error {
	ops, err := r.confine(ops)
	if err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	mappings := 0
	for _, op := range ops {
		mappings += len(op.Files)
	}
	r.several = mappings > 1
	var partial error
	for _, op := range ops {
		if err := r.operation(ctx, op); err != nil {
			if provider.KindOf(err) != provider.Partial {
				return err
			}
			partial = cmp.Or(partial, err)
		}
	}
	return partial
}

// operation carries out one operation: its mappings in order, then its
// commands.
func (r *runner) operation(ctx context.Context, op Operation) error {
	files, bytes := r.report.Files, r.report.Bytes
	defer func() {
		r.report.Operations = append(r.report.Operations, OperationReport{op.ID, r.report.Files - files, r.report.Bytes - bytes})
	}()
	var partial error
	for i, m := range op.Files {
		if err := r.mapping(ctx, m); err != nil {
			if r.several {
				err = fmt.Errorf("mapping %d of operation %q to %q: %w", i+1, op.ID, m.Target, err)
			}
			if provider.KindOf(err) != provider.Partial {
				return err
			}
			partial = cmp.Or(partial, err)
		}
	}
	if partial != nil {
		return partial // commands only run when all files landed
	}
	if r.dir == Push && !r.opt.DryRun {
		return r.commands(ctx, op)
	}
	return nil
}

// mapping carries one mapping, again from the start after a temporary error:
// what is already in place is then found unchanged.
func (r *runner) mapping(ctx context.Context, m Mapping) error {
	var once func(context.Context, Mapping) error
	if r.dir == Push {
		once = r.push
	} else {
		once = r.pull
	}
	if m.Source == stdio && r.dir == Push {
		name, remove, err := spool(ctx, os.Stdin)
		if err != nil {
			return err
		}
		defer remove()
		m.Source = name
		if m.Mode == nil && r.opt.Mode == nil {
			mode := uint32(0o644)
			m.Mode = &mode
		}
	}
	before := *r.report
	r.seen, r.tried, r.told = len(before.Problems), nil, map[string]bool{}
	return r.again(ctx, string(r.dir), func(ctx context.Context) error {
		last := *r.report
		*r.report = before // another attempt counts anew
		r.report.Route, r.report.Why, r.report.Atomic, r.report.Digests = last.Route, last.Why, last.Atomic, last.Digests
		r.report.Warnings = last.Warnings
		r.report.Problems = before.Problems[:r.seen:r.seen]
		return once(ctx, m)
	})
}

// again repeats what failed with a temporary error, as often as the options
// say. What it gives up is not repeated by what it is a part of.
func (r *runner) again(ctx context.Context, label string, try func(ctx context.Context) error) error {
	err := r.retryPolicy().Do(ctx, label, func(context.Context) error {
		return classify(try(ctx))
	})
	return final(err)
}

// finalError is an error that was temporary, but no more: it was waited for
// long enough.
type finalError struct{ error }

func final(err error) error {
	if err == nil || !provider.IsTemporary(err) {
		return err
	}
	return &finalError{err}
}

func (f *finalError) Unwrap() error { return f.error }

// Temporary is false.
func (f *finalError) Temporary() bool { return false }

// open decides between bytes on a live stream and text over exec.
func (r *runner) open() error {
	_, streams := provider.StreamerOf(r.sandbox)
	caps := r.sandbox.Capabilities()
	switch r.opt.Route {
	case Auto, "":
		r.session = script.NewSession(r.sandbox, false)
		return nil
	case Base64:
		r.session = script.NewSession(r.sandbox, true)
		return nil
	case Stream:
		if !streams || !caps.HalfClose {
			return routeError(Stream, "the sandbox offers no live stream")
		}
		r.session = script.NewSession(r.sandbox, false)
		return nil
	case Bulk:
		if _, ok := provider.FilerOf(r.sandbox); !ok {
			return routeError(Bulk, "the provider has no bulk API")
		}
		r.session = script.NewSession(r.sandbox, true)
		return nil
	case Sync:
		return routeError(Sync, "the provider does not do whole operations")
	}
	return provider.New(provider.Usage, "no route "+string(r.opt.Route), "routes are auto, sync, stream, bulk and base64")
}

// takesBulk says whether the bulk route is allowed and can be taken.
func (r *runner) takesBulk(f *facts) bool {
	_, ok := provider.FilerOf(r.sandbox)
	return ok && hasTar(f) && (r.opt.Route == Bulk || r.opt.Route == Auto || r.opt.Route == "")
}

func bulkReason(f *facts) string {
	return "the provider has a bulk API, and the sandbox has " + f.tar + " tar"
}

// onlyExec is why the base64 route is taken where nobody asked for it.
func (r *runner) onlyExec() string {
	if _, ok := provider.FilerOf(r.sandbox); ok {
		return "the sandbox has no GNU or BusyBox tar"
	}
	return "the sandbox only executes commands"
}

func routeError(route Route, why string) error {
	return &provider.Error{Kind: provider.NotImplemented, Err: errors.New("route " + string(route) + ": " + why),
		Hint: "leave --route out, and the best route there is will be taken"}
}

// log tells what the engine decides.
func (r *runner) log(format string, args ...any) {
	if r.opt.Observer != nil {
		r.opt.Observer.Log(fmt.Sprintf(format, args...))
	}
}

func (r *runner) routed(m Mapping, route Route, why string) {
	r.report.Route, r.report.Why = route, why
	if r.opt.Observer != nil {
		r.opt.Observer.Routed(m, route, why)
	}
}

func (r *runner) phase(name string) {
	if r.opt.Observer != nil {
		r.opt.Observer.Phase(name)
	}
}

func (r *runner) progress(files int, bytes int64) {
	if r.opt.Observer != nil {
		r.opt.Observer.Progress(files, bytes)
	}
}

// problem takes note of an entry that is not as it should be.
func (r *runner) problem(p tree.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Problems = append(r.report.Problems, p)
	key := p.Path + "\x00" + p.Err.Error()
	if r.opt.Observer != nil && !r.told[key] {
		r.told[key] = true
		r.opt.Observer.Warn(p)
	}
}
