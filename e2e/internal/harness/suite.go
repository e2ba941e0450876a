package harness

import (
	"fmt"
	"os"
	"testing"
)

// Program is the sbsync under test, which [Main] builds.
var Program string

// Main builds sbsync, runs a suite's tests and returns the exit code. What before
// does comes first; it may be nil.
func Main(m *testing.M, before func() error) int {
	dir, err := os.MkdirTemp("", "e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755) // for tests that run it as somebody else
	}
	if err == nil {
		Program, err = build(dir)
	}
	if err == nil && before != nil {
		err = before()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Must ends a test at an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Same ends a test if two trees differ, or there is nothing.
func Same(t testing.TB, got, want string) {
	t.Helper()
	a, err := Look(got)
	Must(t, err)
	b, err := Look(want)
	Must(t, err)
	if diff := a.Different(b); diff != "" || len(b) == 0 {
		t.Fatalf("%s differs from %s:\n%s", got, want, diff)
	}
}

// Way is a direction and a route, to and from a directory of this machine.
type Way struct{ Verb, Route string }

// Ways are all of them.
func Ways() []Way {
	return []Way{{"push", "stream"}, {"push", "base64"}, {"pull", "stream"}, {"pull", "base64"}}
}

// Args are sbsync's.
func (w Way) Args(from, to string, flags ...string) []string {
	args := append([]string{w.Verb, "--route", w.Route}, flags...)
	if w.Verb == "push" {
		return append(args, from, "local:"+to)
	}
	return append(args, "local:"+from, to)
}
