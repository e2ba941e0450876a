package provider

import (
	"errors"
	"strconv"
	"time"
)

// Kind classifies an error for exit codes, retries and advice.
type Kind int

// Kinds of errors. The comment says whether another attempt may help.
const (
	Other          Kind = iota // unknown; no
	Usage                      // the request itself is wrong; no
	NotFound                   // the sandbox or path is not there; no
	Unreachable                // no connection, or it was lost; yes
	Unauthorized               // credentials missing, wrong or without the right; no
	RateLimited                // told to slow down; yes, after RetryAfter
	Timeout                    // nothing moved for too long; yes
	NotImplemented             // the verb is not offered; no
	NoSpace                    // the target is full; no
	ReadOnly                   // the target may not be written; no
	Missing                    // the sandbox lacks a tool; no
	TooLarge                   // a limit was exceeded; no
	Integrity                  // what arrived is not what was sent; yes
	Confined                   // refused by confinement; no
	SourceMissing              // what is to be copied is not there; no
	Refused                    // refused by a guard: deletions, file over directory; no
	Partial                    // the rest is in place, something is not or changed while read; no
)

var kindNames = [...]string{"error", "usage", "not-found", "unreachable", "unauthorized", "rate-limited",
	"timeout", "not-implemented", "no-space", "read-only", "missing-tool", "too-large", "integrity", "confined",
	"source-missing", "refused", "partial"}

// String returns the kind's name as JSON output has it.
func (k Kind) String() string { return kindNames[k] }

// Error is an error of known kind. Its text is "op: cause"; the hint, if any,
// says what to do about it and is shown on a line of its own.
type Error struct {
	Kind Kind
	Op   string // "exec", "open", ...; may be empty
	Err  error
	Hint string
	// RetryAfter is how long the provider asks to wait; 0 if it did not say.
	RetryAfter time.Duration
	// Final marks an error of a temporary kind that must not be repeated.
	Final bool
}

func (e *Error) Error() string {
	if e.Op == "" {
		return e.Err.Error()
	}
	return e.Op + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary says whether another attempt may succeed.
func (e *Error) Temporary() bool {
	switch e.Kind {
	case Unreachable, RateLimited, Timeout, Integrity:
		return !e.Final
	}
	return false
}

// New returns an error of the given kind.
func New(kind Kind, text, hint string) *Error {
	return &Error{Kind: kind, Err: errors.New(text), Hint: hint}
}

// KindOf returns the kind of the first *Error in err's tree, or Other.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Other
}

// IsTemporary says whether err claims that another attempt may succeed.
func IsTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// HintOf returns the first hint in err's tree, or "".
func HintOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}

// ErrNotImplemented is what a verb answers that is not offered.
var ErrNotImplemented = &Error{Kind: NotImplemented, Err: errors.New("METHOD_NOT_IMPLEMENTED")}

func quotePath(p string) string { return strconv.Quote(p) }
