// Package daytonatest is a Daytona control plane and toolbox for tests: it does
// what the real in-sandbox daemon was measured to do, its oddities included
// (in-place writes, trimmed paths, errors in lists, no standard input, merged
// output), and fails on demand. Commands run on this machine. The unmodified SDK
// v0.145.0 can talk to it.
package daytonatest
