package providertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
)

// exitsWith3 runs a command that does so.
func (b *box) exitsWith3(what string, cmd provider.Command, run func(context.Context, provider.Command) (provider.Result, error)) {
	b.Helper()
	if res, err := run(b.ctx, cmd); err != nil || res.ExitCode != 3 {
		b.Errorf("%s: exit code %d, error %v; want exit code 3", what, res.ExitCode, err)
	}
}

// putFile is a file of the given content.
func putFile(path string, content []byte) provider.PutFile {
	return provider.PutFile{Path: path, Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}}
}

func (b *box) filer() provider.Filer {
	f, ok := provider.FilerOf(b.sb)
	if b.without(ok, "files") {
		return nil
	}
	return f
}

func checkFiles(b *box) {
	f := b.filer()
	if f == nil {
		return
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	contents := map[string][]byte{
		"empty": nil, "one": {'x'}, "all bytes": all, "made/parents/file": []byte("deep"),
		"large": bytes.Repeat(all, 8<<20/256),
	}
	for _, word := range []string{"it's", `a"b`, "$(touch pwn)", "a b", "-rf", "[a]", "*", "%41", "+", "é", "a;b"} {
		contents["name "+word] = []byte(word)
	}
	var files []provider.PutFile
	for name, content := range contents {
		files = append(files, putFile(b.dir+"/"+name, content))
	}
	if err := f.PutFiles(b.ctx, files); err != nil {
		b.Fatalf("put: %v", err)
	}
	if err := f.PutFiles(b.ctx, []provider.PutFile{putFile(b.dir+"/one", []byte("12"))}); err != nil {
		b.Fatalf("put over a file: %v", err)
	}
	contents["one"] = []byte("12")
	for name, want := range contents {
		b.same(fmt.Sprintf("put %q, seen by a command", name), b.get(name), want)
		for _, offset := range []int{0, len(want) / 2} {
			var got bytes.Buffer
			if err := f.GetFile(b.ctx, b.dir+"/"+name, int64(offset), &got); err != nil {
				b.Errorf("get %q from %d: %v", name, offset, err)
			}
			b.same(fmt.Sprintf("get %q from %d", name, offset), got.Bytes(), want[offset:])
		}
	}
	b.noPwn()
	if err := f.PutFiles(b.ctx, nil); err != nil {
		b.Errorf("put no files: %v", err)
	}
}

func checkFileErrors(b *box) {
	f := b.filer()
	if f == nil {
		return
	}
	if err := f.GetFile(b.ctx, b.dir+"/missing", 0, io.Discard); provider.KindOf(err) != provider.NotFound {
		b.Errorf("get a file that is not there: error %v of kind %v, want kind %v", err, provider.KindOf(err), provider.NotFound)
	}
	b.run(`: >file`)
	err := f.PutFiles(b.ctx, []provider.PutFile{putFile(b.dir+"/good", []byte("x")), putFile(b.dir+"/file/below", []byte("x"))})
	if one, ok := errors.AsType[*provider.FileError](err); !ok || one.Path != b.dir+"/file/below" {
		b.Errorf("put below a file: error %v, want a FileError for it", err)
	}
	b.failsWith("a file can't be opened", func(boom error) error {
		bad := provider.PutFile{Path: b.dir + "/bad", Size: 5, Open: func() (io.ReadCloser, error) { return nil, boom }}
		return f.PutFiles(b.ctx, []provider.PutFile{bad})
	})
	b.failsWith("a file can't be read", func(boom error) error {
		bad := provider.PutFile{Path: b.dir + "/bad", Size: 5, Open: func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader("xx"), failing{boom})), nil
		}}
		return f.PutFiles(b.ctx, []provider.PutFile{bad})
	})
	b.run(`head -c 100000 /dev/zero >big`)
	b.failsWith("output fails", func(boom error) error {
		return f.GetFile(b.ctx, b.dir+"/big", 0, failing{boom})
	})
}

// checkCapabilities: what is said is offered, and what is not said says why.
func checkCapabilities(b *box) {
	b.Logf("%+v", b.caps)
	_, stream := b.sb.(provider.Streamer)
	_, files := b.sb.(provider.Filer)
	_, sync := b.sb.(provider.Syncer)
	for _, verb := range []struct {
		name           string
		says, offersIt bool
	}{{"stream", b.caps.Stream, stream}, {"files", b.caps.Files, files}, {"sync", b.caps.Sync, sync}} {
		if verb.says && !verb.offersIt {
			b.Errorf("the capabilities say %s, but the methods are not there", verb.name)
		}
	}
	if b.caps.HalfClose && !b.caps.Stdin && !b.caps.Stream {
		b.Errorf("half-close without any stdin")
	}
	if again := b.sb.Capabilities(); fmt.Sprint(again) != fmt.Sprint(b.caps) {
		b.Errorf("the capabilities have changed from %+v to %+v", b.caps, again)
	}
	if s, ok := b.sb.(provider.Streamer); ok && !b.caps.Stream {
		if _, err := s.Stream(b.ctx, provider.Command{Args: []string{"true"}, Stdout: io.Discard}); provider.KindOf(err) != provider.NotImplemented {
			b.Errorf("a stream that is not offered: error %v, want kind %v", err, provider.NotImplemented)
		}
	}
	if b.caps.MaxStdout > 0 {
		n := b.caps.MaxStdout
		if got := b.run(fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, n)); int64(len(got)) != n {
			b.Errorf("MaxStdout is %d, but of as many bytes of output %d arrive", n, len(got))
		}
	}
	cancelled, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, err := b.sb.Exec(cancelled, b.command(`: >ran`)); !errors.Is(err, context.Canceled) {
		b.Errorf("a context that has ended: error %v", err)
	}
}

func checkClose(b *box) {
	for i := range 2 {
		if err := b.sb.Close(); err != nil {
			b.Errorf("close, time %d: %v", i+1, err)
		}
	}
}
