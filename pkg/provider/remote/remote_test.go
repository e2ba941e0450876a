//go:build unix

package remote

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAnnounced(t *testing.T) {
	for _, tc := range []struct {
		noise  int
		pieces []string
		pid    int
		want   string
	}{
		{0, []string{"w 12\nerr"}, 12, "err"},
		{9, []string{"noise\nw", " 1", "2\n", "err"}, 12, "err"},
		{9, []string{"w x\nerr"}, 0, "w x\nerr"},
		{9, []string{"no word"}, 0, "no word"},
		{0, []string{strings.Repeat("n", 40), "w 12\nerr"}, 0, strings.Repeat("n", 40) + "w 12\nerr"},
	} {
		a := NewAnnounced("w", tc.noise)
		for _, p := range tc.pieces {
			a.Write([]byte(p))
		}
		a.Flush()
		known := false
		select {
		case <-a.Known():
			known = true
		default:
		}
		if got := string(a.Bytes()); a.PID() != tc.pid || known != (tc.pid != 0) || got != tc.want {
			t.Errorf("%q: pid %d, known %v, rest %q", tc.pieces, a.PID(), known, got)
		}
	}
}

func TestLaunch(t *testing.T) {
	word := Word()
	for dir, gone := range map[string]bool{"": false, "/": false, "/no/such": true} {
		a := NewAnnounced(word, 0)
		c := exec.Command("sh", "-c", Launch(word, dir)+"echo out >&2; exit 126")
		c.Stderr = a
		c.Run()
		a.Flush()
		if a.PID() != c.Process.Pid || a.NoDirectory(c.ProcessState.ExitCode()) != gone {
			t.Errorf("directory %q: pid %d, no directory %v, %q", dir, a.PID(), a.NoDirectory(c.ProcessState.ExitCode()), a.Bytes())
		}
	}
}

func TestSendInput(t *testing.T) {
	broken := errors.New("broken")
	var out bytes.Buffer
	if err := SendInput(&out, strings.NewReader("all"), 8); err != nil || out.String() != "all" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := SendInput(&out, iotest.ErrReader(broken), 8); !errors.Is(err, broken) {
		t.Errorf("a source that fails: %v", err)
	}
	r, w := io.Pipe()
	r.Close()
	if err := SendInput(w, strings.NewReader("all"), 8); err != nil {
		t.Errorf("a command that takes no more: %v", err)
	}
}

func TestOutput(t *testing.T) {
	var b bytes.Buffer
	o := NewOutput(&b)
	o.Write([]byte("a"))
	o.Revoke()
	if _, err := o.Write([]byte("b")); !errors.Is(err, os.ErrClosed) || b.String() != "a" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestHomeDir(t *testing.T) {
	for _, home := range []string{"", "here", "/home/somebody"} {
		t.Setenv("HOME", home)
		if got := HomeDir(); !filepath.IsAbs(got) || filepath.IsAbs(home) && got != home {
			t.Errorf("HOME=%q: %q", home, got)
		}
	}
}
