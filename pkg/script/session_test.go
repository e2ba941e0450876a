package script_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/script"
)

func open(t *testing.T, o providertest.Options) (*script.Session, *providertest.Fake) {
	t.Helper()
	f := providertest.Open(t, o)
	return script.NewSession(f, false), f
}

func noise(n int) []byte {
	b := make([]byte, n)
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// transports are the ways in which input and output travel.
var transports = map[string]providertest.Options{
	"stream":               {Stream: true},
	"exec":                 {},
	"exec, no half-close":  {NoHalfClose: true},
	"exec, no stdin":       {NoStdin: true},
	"exec, short args":     {NoStdin: true, MaxArg: 9000},
	"exec, capped":         {MaxStdout: 64 << 10},
	"exec, cut unsaid":     {CutStdout: 100 << 10},
	"exec, merged, text":   {MergedOutput: true, TextOutput: true},
	"exec, lines end CRLF": {Base64Wrap: providertest.WrapCRLF},
	"exec, tail lost":      {LoseTail: 4096},
	"stream, tail lost":    {Stream: true, LoseTail: 4096},
	"no tail, no gzip":     {Without: []string{"tail", "gzip"}},
}

func TestBytesArriveAndComeBack(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := open(t, o)
			content := noise(150_000)
			for range 2 { // the second time limits are known
				got, err := s.Report(context.Background(), script.Script{Label: "echo", Body: `input "$@"; echo warning >&2`,
					Input: bytes.NewReader(content), InputSize: int64(len(content)), Idempotent: true})
				if err != nil || !bytes.Equal(got, content) {
					t.Fatalf("%d bytes of %d came back: %v", len(got), len(content), err)
				}
			}
		})
	}
}

func TestExitCodesAndStderr(t *testing.T) {
	for name, o := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := open(t, o)
			_, err := s.Run(context.Background(), script.Script{Label: "fail", Body: "echo out; echo first >&2; die 84 'it\nfailed'"})
			var exit *script.ExitError
			if !errors.As(err, &exit) || exit.Code != 84 || !strings.Contains(exit.Stderr, "first\nsbsync: it\nfailed") {
				t.Errorf("got %#v", err)
			}
			_, err = s.Report(context.Background(), script.Script{Label: "fail", Body: "echo out; exit 9", Idempotent: true})
			if !errors.As(err, &exit) || exit.Code != 9 {
				t.Errorf("report: got %#v", err)
			}
		})
	}
}

func TestMissingShellAndBase64(t *testing.T) {
	s, _ := open(t, providertest.Options{Without: []string{"base64"}})
	_, err := s.Report(context.Background(), script.Script{Label: "x", Body: "echo hello"})
	var exit *script.ExitError
	if !errors.As(err, &exit) || exit.Code != script.ExitNoBase64 {
		t.Errorf("without base64: %v", err)
	}
	s, _ = open(t, providertest.Options{Only: []string{"cat"}})
	if _, err = s.Run(context.Background(), script.Script{Label: "x", Body: "echo hello"}); provider.KindOf(err) != provider.Missing {
		t.Errorf("without sh: %v", err)
	}
	// With nothing but a shell, its own commands still run.
	s, _ = open(t, providertest.Options{Only: []string{"sh"}})
	if got, err := s.Run(context.Background(), script.Script{Label: "x", Body: "echo hello"}); string(got) != "hello\n" || err != nil {
		t.Errorf("with sh alone: %q, %v", got, err)
	}
}

// A sandbox that delivers less than the whole has the rest fetched, and is
// known from then on.
func TestReportInPages(t *testing.T) {
	s, f := open(t, providertest.Options{CutStdout: 50_000})
	want := noise(200_000)
	body := fmt.Sprintf("head -c %d input", len(want))
	if _, err := s.Run(context.Background(), script.Script{Label: "put", Body: "cat >input", Input: nil}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(context.Background(), script.Script{Label: "put", Body: `input "$@" >input`, Input: bytes.NewReader(want)}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Report(context.Background(), script.Script{Label: "get", Body: body})
	if err != nil || sha256.Sum256(got) != sha256.Sum256(want) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if f.Fired("cut_stdout") == 0 || s.MaxOutput() != 50_000 {
		t.Errorf("the limit was taken for %d", s.MaxOutput())
	}
	before := f.Execs()
	if _, err := s.Report(context.Background(), script.Script{Label: "get", Body: body}); err != nil {
		t.Fatal(err)
	}
	if n := f.Execs() - before; n > 7 {
		t.Errorf("%d calls for 270 KB of text at 50 KB each", n)
	}
}

func TestReportThatChangesFromPageToPage(t *testing.T) {
	s, _ := open(t, providertest.Options{MaxStdout: 8 << 10})
	_, err := s.Report(context.Background(), script.Script{Label: "moving", Body: "n=$(cat n 2>/dev/null); n=$((n+1)); echo $n >n; head -c 20000 /dev/urandom"})
	if provider.KindOf(err) != provider.Integrity || !provider.IsTemporary(err) {
		t.Errorf("got %v", err)
	}
}

func TestInputThatDoesNotFitIntoArguments(t *testing.T) {
	s, f := open(t, providertest.Options{NoStdin: true})
	limit, hard := s.MaxInput()
	if !hard {
		t.Fatal("the limit of arguments is not hard")
	}
	run := func(n int64) error {
		out, err := s.Run(context.Background(), script.Script{Label: "args", Body: `input "$@" | wc -c`, Input: io.LimitReader(zero{}, n)})
		if err == nil && strings.TrimSpace(string(out)) != fmt.Sprint(n) {
			t.Errorf("%s bytes of %d arrived", out, n)
		}
		return err
	}
	if err := run(limit); err != nil {
		t.Errorf("%d bytes: %v", limit, err)
	}
	calls := f.Calls()
	if err := run(limit + 1); err == nil || f.Calls() != calls {
		t.Errorf("%d bytes: %v, %d calls", limit+1, err, f.Calls()-calls)
	}
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { return len(p), nil }

func TestReplyOutlivesAnExitThatIsNeverTold(t *testing.T) {
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			t.Parallel()
			s, _ := open(t, providertest.Options{Stream: stream, LoseExit: 1})
			start := time.Now()
			got, err := s.Run(context.Background(), script.Script{Label: "x", Body: "echo hello"})
			if string(got) != "hello\n" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			if d := time.Since(start); d > 30*time.Second {
				t.Errorf("after %v", d)
			}
		})
	}
}

// The retry wrapper runs a command again whose reply had arrived whole.
func TestIdempotentScriptWhoseAnswerIsLost(t *testing.T) {
	f := providertest.Open(t, providertest.Options{})
	s := script.NewSession(provider.Retry(&lateLoss{Fake: f, times: 2}, provider.RetryPolicy{Base: time.Millisecond}), false)
	got, err := s.Run(context.Background(), script.Script{Label: "x", Body: "echo hello", Idempotent: true})
	if string(got) != "hello\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// lateLoss loses the connection after a command has ended.
type lateLoss struct {
	*providertest.Fake
	times int
}

func (l *lateLoss) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	res, err := l.Fake.Exec(ctx, cmd)
	if l.times--; l.times >= 0 {
		return provider.Result{}, provider.New(provider.Unreachable, "connection lost", "")
	}
	return res, err
}

func TestConsumerEndsTheScript(t *testing.T) {
	for _, stream := range []bool{true, false} {
		s, _ := open(t, providertest.Options{Stream: stream})
		refused := errors.New("refused")
		start := time.Now()
		_, err := s.Run(context.Background(), script.Script{Label: "x", Body: "while :; do echo y; done",
			Consume: func(body io.Reader) error {
				io.CopyN(io.Discard, body, 1000)
				return refused
			}})
		if !errors.Is(err, refused) || time.Since(start) > 20*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	}
}

func TestCancelledScript(t *testing.T) {
	s, _ := open(t, providertest.Options{Stream: true})
	ctx, cancel := context.WithCancel(context.Background())
	_, err := s.Run(ctx, script.Script{Label: "x", Body: "echo ready; sleep 60",
		Consume: func(body io.Reader) error {
			io.CopyN(io.Discard, body, 5)
			cancel()
			_, err := io.Copy(io.Discard, body)
			return err
		}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestScriptTooLongForTheProvider(t *testing.T) {
	s, f := open(t, providertest.Options{MaxArg: 8 << 10})
	_, err := s.Run(context.Background(), script.Script{Label: "x", Body: strings.Repeat("# long\n", 2000)})
	if err == nil || f.Calls() != 0 {
		t.Errorf("got %v after %d calls", err, f.Calls())
	}
	if _, err := s.Run(context.Background(), script.Script{Label: "x", Body: strings.Repeat("#", s.MaxBody()) + "\n:"}); err != nil {
		t.Error(err)
	}
}

func TestWordsDiffer(t *testing.T) {
	a, b := script.Word(), script.Word()
	if a == b || len(a) != 16 || strings.Trim(a, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		t.Errorf("words %q and %q", a, b)
	}
}
