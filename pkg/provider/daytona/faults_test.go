//go:build linux

package daytona_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/internal/daytonatest"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

func put(path, content string) provider.PutFile {
	return provider.PutFile{Path: path, Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

func TestAnswersAreTyped(t *testing.T) {
	clean(t)
	s := daytonatest.Open(t, daytonatest.Options{})
	sb := open(t, s)
	for _, tc := range []struct {
		status    int
		body      string
		kind      provider.Kind
		temporary bool
	}{
		{401, "", provider.Unauthorized, false},
		{403, `{"message":"no permission"}`, provider.Unauthorized, false},
		{404, `{"message":"no such route"}`, provider.NotFound, false},
		{404, `{"message":"sandbox container not found"}`, provider.Unreachable, true}, // daytonaio/daytona PR 2694
		{400, `failed to resolve container IP`, provider.Unreachable, true},            // daytonaio/daytona#4142
		{408, "", provider.Timeout, true},
		{409, "", provider.Refused, false},
		{413, "", provider.TooLarge, false},
		{429, "", provider.RateLimited, true},
		{500, "", provider.Other, false},
		{502, "<html>", provider.Unreachable, true},
		{503, "", provider.Unreachable, true},
		{504, "", provider.Unreachable, true},
		{400, `{"error":"write: no space left on device"}`, provider.NoSpace, false},
	} {
		s.Fail(daytonatest.Fault{On: "execute", Times: 1, Status: tc.status, Body: tc.body, Header: map[string]string{"Retry-After-Throttler": "7"}})
		_, err := sb.Exec(t.Context(), provider.Command{Args: []string{"true"}})
		if provider.KindOf(err) != tc.kind || provider.IsTemporary(err) != tc.temporary {
			t.Errorf("%d %s: error %v of kind %v, temporary %v", tc.status, tc.body, err, provider.KindOf(err), provider.IsTemporary(err))
		}
		if typed, ok := errors.AsType[*provider.Error](err); !ok || typed.RetryAfter != 7*time.Second {
			t.Errorf("%d: Retry-After is not kept", tc.status)
		}
	}
}

// daytonaio/daytona#4048, #3771, #2610: each file that fails is named with its
// reason, and the others are written.
func TestFilesThatFailAreNamed(t *testing.T) {
	clean(t)
	filer, _ := provider.FilerOf(open(t, daytonatest.Open(t, daytonatest.Options{})))
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	err := filer.PutFiles(t.Context(), []provider.PutFile{put(dir+"/file/one", "x"), put(dir+"/good", "x"), put(dir+"/"+strings.Repeat("n", 256), "x")})
	for _, want := range []string{`file/one": `, "not a directory", "file name too long"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if _, err := os.Stat(dir + "/good"); err != nil {
		t.Error(err)
	}
	// The daemon would write to another path, and say that all is well.
	if err := filer.PutFiles(t.Context(), []provider.PutFile{put(dir+"/blank ", "x")}); provider.KindOf(err) != provider.Usage {
		t.Errorf("a path that ends in a blank: %v", err)
	}
}

// A daemon up to 0.174 never ends with an upload that breaks off: whatever stops
// one, its body is brought to an end.
func TestUploadsNeverBreakOff(t *testing.T) {
	clean(t)
	providertest.NoLeaks(t)
	s := daytonatest.Open(t, daytonatest.Options{Daemon: 145})
	filer, _ := provider.FilerOf(open(t, s))
	dir, boom := t.TempDir(), errors.New("boom")
	bad := provider.PutFile{Path: dir + "/bad", Size: -1, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("some"), failing{boom})), nil
	}}
	if err := filer.PutFiles(t.Context(), []provider.PutFile{bad, put(dir+"/next", "x")}); !errors.Is(err, boom) {
		t.Errorf("a source that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	endless := provider.PutFile{Path: dir + "/endless", Size: -1, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(&cancelling{cancel: cancel, after: 4 << 20}), nil
	}}
	if err := filer.PutFiles(ctx, []provider.PutFile{endless}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if n := s.BrokenUploads(); n != 0 {
		t.Errorf("%d uploads broke off", n)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// cancelling is endless, and cancels when so much was read.
type cancelling struct {
	cancel func()
	after  int
}

func (c *cancelling) Read(p []byte) (int, error) {
	if c.after -= len(p); c.after < 0 {
		c.cancel()
	}
	return len(p), nil
}

// daytonaio/daytona PR 4747: a download that is cut is no file.
func TestDownloadIsCut(t *testing.T) {
	clean(t)
	s := daytonatest.Open(t, daytonatest.Options{})
	filer, _ := provider.FilerOf(open(t, s))
	name := filepath.Join(t.TempDir(), "file")
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	must(t, os.WriteFile(name, content, 0o600))
	s.Fail(daytonatest.Fault{On: "download", Times: 1, Cut: 500_000})
	var got bytes.Buffer
	err := filer.GetFile(t.Context(), name, 0, &got)
	if provider.KindOf(err) != provider.Unreachable || !provider.IsTemporary(err) {
		t.Errorf("error %v after %d bytes", err, got.Len())
	}
	must(t, filer.GetFile(t.Context(), name, int64(got.Len()), &got))
	if !bytes.Equal(got.Bytes(), content) {
		t.Errorf("%d bytes after it went on", got.Len())
	}
}

// Whatever goes wrong once on the way, a push and a pull get there, and leave
// nothing behind; what goes wrong every time is reported, and the old is kept.
func TestTransfersSurvive(t *testing.T) {
	clean(t)
	for name, fault := range map[string]daytonatest.Fault{
		"502 just after create": {On: "execute", Times: 2, Status: 502},
		"not yet running":       {On: "execute", Times: 1, Status: 400, Body: "failed to resolve container IP"},
		"429":                   {On: "execute", Times: 1, Status: 429, Header: map[string]string{"Retry-After": "0.1"}},
		"upload fails":          {On: "bulk-upload", Times: 1, Status: 503},
		"download is cut":       {On: "download", Times: 1, Cut: 300_000},
		"large download is cut": {On: "download", Times: 1, After: 1, Cut: 3 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.NoLeaks(t)
			tmp, work := t.TempDir(), t.TempDir()
			t.Setenv("TMPDIR", tmp)
			s := daytonatest.Open(t, daytonatest.Options{})
			sb := open(t, s)
			src, box, back := filepath.Join(work, "src"), filepath.Join(work, "box"), filepath.Join(work, "back")
			must(t, os.Mkdir(src, 0o755))
			must(t, os.WriteFile(filepath.Join(src, "large"), bytes.Repeat([]byte("x"), 8<<20), 0o644))
			must(t, os.WriteFile(filepath.Join(src, "small"), bytes.Repeat([]byte("y"), 1<<20), 0o600))
			s.Fail(fault)
			mustCarry(t, sb, transfer.Push, src, box, nil)
			same(t, src, box, false)
			s.Fail(fault)
			mustCarry(t, sb, transfer.Pull, box, back, nil)
			same(t, src, back, false)

			s.Fail(daytonatest.Fault{On: "bulk-upload", Status: 413})
			must(t, os.WriteFile(filepath.Join(src, "small"), []byte("new"), 0o600))
			_, err := carry(t, sb, transfer.Push, src, box, nil)
			if provider.KindOf(err) != provider.TooLarge {
				t.Errorf("413: error %v of kind %v", err, provider.KindOf(err))
			}
			if info, err := os.Stat(filepath.Join(box, "small")); err != nil || info.Size() != 1<<20 {
				t.Errorf("the old file was touched: %v, %v", info, err)
			}
			noScratch(t, work, tmp)
		})
	}
}

// nousresearch/hermes-agent#7362: requests do not grow with the number of files.
func TestRequestsDoNotGrowWithFiles(t *testing.T) {
	clean(t)
	s := daytonatest.Open(t, daytonatest.Options{})
	sb := open(t, s)
	work := t.TempDir()
	src, box := filepath.Join(work, "src"), filepath.Join(work, "box")
	for i := range 600 {
		dir := filepath.Join(src, "d", string(rune('a'+i%26)))
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, strings.Repeat("f", i%50+1)), []byte("x"), 0o644))
	}
	push := mustCarry(t, sb, transfer.Push, src, box, nil)
	pull := mustCarry(t, sb, transfer.Pull, box, filepath.Join(work, "back"), nil)
	if push.Calls > 4 || pull.Calls > 4 {
		t.Errorf("push takes %d calls, pull %d", push.Calls, pull.Calls)
	}
	if n := len(s.Requests("POST /files/bulk-upload")); n != 1 {
		t.Errorf("%d uploads", n)
	}
}

// LangAlpha PR 201: an upload that hangs is given up, and tried again.
func TestStallIsGivenUp(t *testing.T) {
	clean(t)
	s := daytonatest.Open(t, daytonatest.Options{})
	sb := open(t, s)
	work := t.TempDir()
	must(t, os.WriteFile(filepath.Join(work, "src"), []byte("x"), 0o644))
	s.Fail(daytonatest.Fault{On: "execute", Times: 1, Stall: true})
	mustCarry(t, sb, transfer.Push, filepath.Join(work, "src"), filepath.Join(work, "box"), func(o *transfer.Options) { o.IdleTimeout = 300 * time.Millisecond })
}
