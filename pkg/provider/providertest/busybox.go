package providertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// NeedBusyBox skips a test where BusyBox is not installed; in CI the test fails.
func NeedBusyBox(t testing.TB) (program string) {
	t.Helper()
	program, err := exec.LookPath("busybox")
	switch {
	case err == nil:
		return program
	case os.Getenv("CI") != "":
		t.Fatal(err)
	}
	t.Skip("busybox is not installed")
	return ""
}

// BusyBoxPath makes a directory that holds all of BusyBox's tools and nothing
// else, to be a sandbox's PATH. See [NeedBusyBox].
func BusyBoxPath(t testing.TB) string {
	t.Helper()
	program := NeedBusyBox(t)
	list, err := exec.Command(program, "--list").Output()
	if err != nil {
		t.Fatalf("busybox --list: %v", err)
	}
	dir := t.TempDir()
	tools := strings.Fields(string(list))
	slices.Sort(tools)
	for _, name := range slices.Compact(tools) {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
