package provider

import "slices"

// Narrow returns sb with fewer capabilities: those that edit leaves. Whatever
// edit does, nothing is gained: a verb that sb lacks stays lacking, a limit can
// only become smaller, and output that is merged, text or lost on exit stays so.
func Narrow(sb Sandbox, edit func(*Capabilities)) Sandbox {
	p := passTo(sb)
	was, want := p.caps, p.caps
	want.Notes = slices.Clone(was.Notes)
	edit(&want)

	want.Stdin = want.Stdin && was.Stdin
	want.HalfClose = want.HalfClose && was.HalfClose
	want.Stream = want.Stream && was.Stream
	want.Files = want.Files && was.Files
	want.Sync = want.Sync && was.Sync
	want.MaxStdin = lower(want.MaxStdin, was.MaxStdin)
	want.MaxStdout = lower(want.MaxStdout, was.MaxStdout)
	full := was.WithDefaults()
	want.MaxArg = lower(want.MaxArg, full.MaxArg)
	want.MaxArgs = lower(want.MaxArgs, full.MaxArgs)
	want.MaxConcurrent = lower(want.MaxConcurrent, full.MaxConcurrent)
	want.MergedOutput = want.MergedOutput || was.MergedOutput
	want.EarlyExit = want.EarlyExit || was.EarlyExit
	want.TextOutput = want.TextOutput || was.TextOutput
	p.caps = want
	return &p
}

// lower returns the smaller of two limits, where 0 or less is none.
func lower[N int | int64](a, b N) N {
	if a <= 0 || b > 0 && b < a {
		return max(b, 0)
	}
	return a
}
