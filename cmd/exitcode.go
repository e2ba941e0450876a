package cmd

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Exit codes. exitCodes is their one list; docs/exit-codes.md and the help
// texts are tested against it.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitSource      = 3
	exitConfined    = 4
	exitPartial     = 5
	exitIntegrity   = 6
	exitTarget      = 7
	exitSpace       = 8
	exitGuard       = 9
	exitDifferences = 10
	exitInterrupt   = 130
	exitTerminate   = 143
)

// exitCode is one documented exit code and the kinds of errors that lead to it.
type exitCode struct {
	Code    int
	Short   string // as the help texts have it
	Meaning string // as docs/exit-codes.md has it
	Kinds   []provider.Kind
}

func exitCodes() []exitCode {
	return []exitCode{
		{exitOK, "ok", "Everything asked for is in place.", nil},
		{exitFailure, "failure", "Something else failed; the message says what.", []provider.Kind{provider.Other}},
		{exitUsage, "usage", "The command line, the environment, a config file or an operations file is wrong. Nothing was done.", []provider.Kind{provider.Usage}},
		{exitSource, "no source", "What was to be copied does not exist. Nothing was created.", []provider.Kind{provider.SourceMissing}},
		{exitConfined, "confined", "Refused by confinement: a path or a link leads out of its root.", []provider.Kind{provider.Confined}},
		{exitPartial, "partial", "The rest is in place, but something could not be carried or changed while it was read.", []provider.Kind{provider.Partial}},
		{exitIntegrity, "corrupt", "Verification failed: what arrived is not what was sent. The target is as it was.", []provider.Kind{provider.Integrity}},
		{exitTarget, "target", "The target could not be reached, was not found, did not let us in, stopped answering, or lacks a tool.",
			[]provider.Kind{provider.NotFound, provider.Unreachable, provider.Unauthorized, provider.RateLimited,
				provider.Timeout, provider.Missing, provider.NotImplemented}},
		{exitSpace, "no space", "No space left on the receiving side, or it is read-only.", []provider.Kind{provider.NoSpace, provider.ReadOnly}},
		{exitGuard, "guard", "Refused by a guard: too many deletions, an emptied source, a file over a directory or the reverse, a limit.",
			[]provider.Kind{provider.Refused, provider.TooLarge}},
		{exitDifferences, "differences", "`diff --exit-code` found differences. No other command uses it.", nil},
		{exitInterrupt, "interrupted", "Ended by an interrupt (Ctrl-C, SIGINT), after cleaning up.", nil},
		{exitTerminate, "terminated", "Ended by SIGTERM, after cleaning up.", nil},
	}
}

// exitCodeOfKind returns the code that documents kind.
func exitCodeOfKind(kind provider.Kind) int {
	for _, c := range exitCodes() {
		if slices.Contains(c.Kinds, kind) {
			return c.Code
		}
	}
	return exitFailure
}

// exitCodeOf returns the code with which a command ends that returned err.
func exitCodeOf(ctx context.Context, err error) int {
	var interrupted Interrupted
	switch {
	case err == nil:
		return exitOK
	case errors.As(context.Cause(ctx), &interrupted):
		return interrupted.ExitCode()
	case errors.Is(err, errDifferences):
		return exitDifferences
	}
	return exitCodeOfKind(kindOf(err))
}

// kindOf is provider.KindOf, but knows also what the operating system says
// where no layer below gave the error a kind.
func kindOf(err error) provider.Kind {
	if kind := provider.KindOf(err); kind != provider.Other {
		return kind
	}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return provider.NoSpace
	case errors.Is(err, syscall.EROFS):
		return provider.ReadOnly
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return provider.Timeout
	}
	return provider.Other
}

// Interrupted is the cause with which a signal cancels a run.
type Interrupted struct{ signal os.Signal }

// InterruptedBy returns the cause for a signal.
func InterruptedBy(signal os.Signal) Interrupted { return Interrupted{signal} }

func (i Interrupted) Error() string {
	if i.ExitCode() == exitTerminate {
		return "terminated"
	}
	return "interrupted"
}

// ExitCode is 128 and the signal's number, as shells have it.
func (i Interrupted) ExitCode() int {
	if i.signal == syscall.SIGTERM {
		return exitTerminate
	}
	return exitInterrupt
}
