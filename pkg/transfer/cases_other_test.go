//go:build !linux

package transfer_test

import "testing"

// mountSmall is for Linux only.
func mountSmall(testing.TB, string, int64) bool { return false }
