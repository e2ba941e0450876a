package script

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

const testWord = "abcdefghij234567"

// framed is what a script prints around a reply.
func framed(before, body, stderr, code, after string) []byte {
	return fmt.Appendf(nil, "%s\nsbsync-begin %s\n%s\nsbsync-err %s\n%s\nsbsync-end %s %s\n%s",
		before, testWord, body, testWord, stderr, testWord, code, after)
}

// awkward are replies that look like marks, and such.
var awkward = []string{
	"", "x", "\n", "\n\n", "\nsbsync-err", "\nsbsync-err \n", "\nsbsync-err " + testWord + "x\n",
	"\nsbsync-begin " + testWord + "\n", "\nsbsync-end " + testWord + " 0\n", "\x00\xff\r\n", strings.Repeat("\nsbsync-er", 40),
}

func TestFrameAtEverySplit(t *testing.T) {
	for _, body := range awkward {
		for _, before := range []string{"", "noise", "\nsbsync-begi", "warning: x\n"} {
			text := framed(before, body, "oops", "0", "after")
			for i := range len(text) + 1 {
				f := newFrame(testWord)
				for _, part := range [][]byte{text[:i], text[i:]} {
					if n, err := f.Write(part); n != len(part) || err != nil {
						t.Fatalf("Write: %d, %v", n, err)
					}
				}
				got, err := f.result("x", provider.Result{}, nil)
				if err != nil || string(got) != body {
					t.Fatalf("split at %d of %q: got %q, %v", i, text, got, err)
				}
			}
			f := newFrame(testWord)
			for _, c := range text {
				f.Write([]byte{c})
			}
			if got, err := f.result("x", provider.Result{}, nil); err != nil || string(got) != body || string(f.stderr) != "oops" {
				t.Fatalf("byte by byte: got %q, stderr %q, %v", got, f.stderr, err)
			}
		}
	}
}

func TestFrameOfAFailure(t *testing.T) {
	f := newFrame(testWord)
	f.Write(framed("", "part", "no such file\n", "84", ""))
	_, err := f.result("verify", provider.Result{}, errors.New("late"))
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 84 || err.Error() != "verify: no such file" {
		t.Errorf("got %v", err)
	}
}

func TestFrameCutAnywhere(t *testing.T) {
	text := framed("", "the reply", "", "0", "")
	for i := range len(text) - 1 {
		f := newFrame(testWord)
		f.Write(text[:i])
		_, err := f.result("list", provider.Result{}, nil)
		var cut *CutError
		if !errors.As(err, &cut) || cut.Got != int64(i) || !provider.IsTemporary(err) || provider.KindOf(err) != provider.Integrity {
			t.Fatalf("cut at %d: %v (kind %v)", i, err, provider.KindOf(err))
		}
	}
}

func TestFrameSaysThatThereIsNoShell(t *testing.T) {
	for _, code := range []int{126, 127} {
		_, err := newFrame(testWord).result("inspect", provider.Result{ExitCode: code}, nil)
		if provider.KindOf(err) != provider.Missing || !strings.Contains(err.Error(), "cannot run sh") {
			t.Errorf("exit code %d: %v", code, err)
		}
	}
}

// A reply may arrive whole and the call fail all the same, so that the retry
// wrapper runs the command again.
func TestFrameIsUsedAgain(t *testing.T) {
	f := newFrame(testWord)
	f.giveUp = func() { t.Error("given up although the second attempt was under way") }
	f.Write(framed("", "first", "", "1", ""))
	f.Reset()
	time.Sleep(0) // the timer of the first attempt must be stopped, not just late
	if f.late.Stop() {
		t.Error("the first attempt's deadline still runs")
	}
	f.giveUp = func() {}
	f.Write(framed("", "second", "", "0", ""))
	if got, err := f.result("x", provider.Result{}, nil); string(got) != "second" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	f.close()
}

func TestFrameBoundsWhatTheSandboxSends(t *testing.T) {
	f := newFrame(testWord)
	f.Write([]byte("\nsbsync-begin " + testWord + "\n\nsbsync-err " + testWord + "\n"))
	for range 100 {
		f.Write(bytes.Repeat([]byte("e"), 10_000))
	}
	if len(f.stderr) > provider.StderrTail {
		t.Errorf("%d bytes of standard error are held", len(f.stderr))
	}
	f.Write([]byte("\nsbsync-end " + testWord + " "))
	_, err := f.Write(bytes.Repeat([]byte("9"), 1<<20))
	if err == nil || len(f.hold) > 1<<10 {
		t.Errorf("an endless exit code: %v, %d bytes held", err, len(f.hold))
	}
}

func FuzzFrame(f *testing.F) {
	for _, body := range awkward {
		f.Add("noise", body, "stderr", uint16(3))
	}
	f.Fuzz(func(t *testing.T, before, body, stderr string, step uint16) {
		f := newFrame(testWord)
		text := framed(before, body, stderr, "7", "")
		size := int(step)%61 + 1
		for i := 0; i < len(text); i += size {
			f.Write(text[i:min(i+size, len(text))])
		}
		got, err := f.result("x", provider.Result{}, nil)
		if strings.Contains(before+body+stderr, testWord) {
			return // a mark of its own: only must not panic
		}
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Code != 7 || string(got) != body {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	})
}
