//go:build unix

package main

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sbsync/sbsync/pkg/tree"
)

// A signal in mid-file ends sbsync with the shell's code for it, and leaves the
// old file and no scratch.
func TestSignals(t *testing.T) {
	for _, route := range []string{"stream", "base64"} {
		for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			t.Run(route+" "+signal.String(), func(t *testing.T) { testSignal(t, route, signal, want) })
		}
	}
}

func testSignal(t *testing.T, route string, signal syscall.Signal, want int) {
	box := t.TempDir()
	target := filepath.Join(box, "f")
	if err := os.WriteFile(target, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	// 16 GiB of nothing take no room, but much longer than the test.
	source := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(source, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(source, 16<<30); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sbsync", "push", "-v", "--route", route, source, "local:"+target)
	cmd.Env = append(os.Environ(), "HOME="+box, "XDG_CONFIG_HOME="+box)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && lines.Text() != "phase send" {
	}
	if err := cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
	}
	cmd.Wait() // the exit code says it all
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("exit code %d, want %d; stderr:\n%s", got, want, &said)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "old" {
		t.Errorf("the target is %q, %v", text, err)
	}
	filepath.WalkDir(box, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(filepath.Base(path), tree.ScratchPrefix) {
			t.Errorf("scratch is left: %q", path)
		}
		return err
	})
}
