// Package providertest checks providers, and checks sbsync against bad ones.
//
// [Suite] is the conformance suite that every driver must pass. [Fake] is a
// sandbox on this machine that can be told to misbehave in all the ways that
// real ones have been seen to; [Options] names each of them and where it was
// seen. [NoLeaks] fails a test that leaves goroutines or processes behind.
//
// The package is for tests alone: it imports testing.
package providertest
