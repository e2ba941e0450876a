package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/tarball"
	"github.com/sbsync/sbsync/pkg/tree"
)

// fetch receives the contents of files into the stage, by the route that the
// sandbox offers.
func (g *puller) fetch(files []tree.Entry) error {
	if g.opt.Verify || !g.canStream() {
		g.digests = map[string]string{}
	}
	var err error
	switch {
	case g.canStream():
		g.routed(g.mapping, Stream, "the sandbox streams and has "+g.facts.tar+" tar")
		g.phase("send")
		err = g.fetchStream(files)
		if err == nil && g.opt.Verify {
			err = g.verify(files)
		}
		g.report.Digests = g.report.Digests || g.opt.Verify
	case g.opt.Route == Stream:
		return routeError(Stream, "the sandbox has no GNU or BusyBox tar")
	default:
		why := "the sandbox only executes commands"
		if g.opt.Route == Base64 {
			why = "asked for"
		} else if g.session.Streams() {
			why = "the sandbox has no GNU or BusyBox tar"
			g.session = script.NewSession(g.sandbox, true)
		}
		g.routed(g.mapping, Base64, why)
		g.report.Digests = true
		g.phase("send")
		err = g.fetchBase64(files)
	}
	return classify(err)
}

func (g *puller) canStream() bool {
	return g.session.Streams() && hasTar(g.facts)
}

// remoteName is an entry's path in the sandbox, relative to g.dir.
func (g *puller) remoteName(e tree.Entry) string {
	if e.Path == "" {
		return path.Base(g.facts.path)
	}
	return e.Path
}

// archiveEnd is what the reader is given once the script's reply was complete.
const archiveEnd = "sbsync-archive-end"

// fetchStream has the sandbox's tar send an archive of exactly the files that
// are wanted. Everything else about them is known from the listing.
//
// The list of names travels on standard input, NUL-terminated. GNU tar reads
// it itself; BusyBox 1.35 has no -T, so xargs makes as many archives as it
// needs, one after the other.
func (g *puller) fetchStream(files []tree.Entry) error {
	var names bytes.Buffer
	want := make(map[string]tree.Entry, len(files))
	for _, e := range files {
		name := g.remoteName(e)
		names.WriteString("./" + name + "\x00")
		want[name] = e
	}
	h := ""
	if g.symlinks(g.mapping) == Follow {
		h = "h"
	}
	command := "input \"$@\" | tar --null --no-recursion --hard-dereference -H gnu -b 128 -c" + h + "f - -T -\n"
	if g.facts.tar != "gnu" {
		command = "input \"$@\" | xargs -0 tar -c" + h + "f - --no-recursion --\n"
	}
	rx := g.newReceiver(want)
	body := "cd -P -- " + script.Quote(g.dir) + " || die 81 'the directory is gone'\n" + command
	_, err := g.session.Run(g.ctx, script.Script{Label: "pull", Body: body, Input: bytes.NewReader(names.Bytes()), InputSize: int64(names.Len()),
		Consume: func(reply io.Reader) error {
			err := rx.archive(io.MultiReader(reply, strings.NewReader(archiveEnd+"\n")))
			if werr := rx.wait(); err == nil {
				err = werr
			}
			return err
		}})
	var exit *script.ExitError
	switch {
	case errors.As(err, &exit):
		g.complaints(exit.Stderr)
	case err != nil:
		return err
	}
	// tar's exit code is not needed to know what is missing, but it tells why.
	for _, e := range files {
		name := g.remoteName(e)
		if _, missing := want[name]; missing && !g.failed[e.Path] {
			if exit == nil {
				return integrityError(fmt.Sprintf("%d of %d files arrived; %q did not", len(files)-len(want), len(files), name))
			}
			g.fail(e.Path, errors.New(complaintAbout(exit.Stderr, name)))
		}
	}
	if exit != nil && len(exit.Stderr) >= provider.StderrTail {
		return integrityError("the sandbox's tar complained about more files than can be told apart")
	}
	return nil
}

// complaints finds the files that tar says changed under it. GNU tar ends with
// 1 then, with a valid archive.
func (g *puller) complaints(stderr string) {
	for line := range strings.Lines(stderr) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "tar: ")
		if name, ok := strings.CutSuffix(line, ": file changed as we read it"); ok {
			g.problem(tree.Problem{Path: strings.TrimPrefix(name, "./"), Err: errModified})
		} else if name, _, ok := strings.Cut(line, ": File shrank by "); ok {
			p := strings.TrimPrefix(name, "./")
			if p == path.Base(g.facts.path) && g.plan.root.Type == tree.File {
				p = ""
			}
			g.fail(p, errShrunk)
		}
	}
}

// complaintAbout returns what tar said of a file.
func complaintAbout(stderr, name string) string {
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, name+": ") {
			_, text, _ := strings.Cut(line, name+": ")
			return strings.TrimSpace(text)
		}
	}
	return "it did not arrive"
}

// verify compares the digests of what arrived with those in the sandbox.
func (g *puller) verify(files []tree.Entry) error {
	g.phase("verify")
	h, err := g.facts.hasher(0)
	if err != nil {
		return err
	}
	if h.sum {
		return &provider.Error{Kind: provider.Missing, Op: "verify", Err: errors.New("the sandbox has no SHA-256 tool")}
	}
	var names []string
	for _, e := range files {
		names = append(names, g.remoteName(e))
	}
	sums, err := g.remoteDigests(g.ctx, g.session, h, g.dir, names)
	if err != nil {
		return err
	}
	for i, e := range files {
		if !g.failed[e.Path] && sums[i] != g.digests[e.Path] {
			return integrityError(fmt.Sprintf("verify %q: the digest differs from the sandbox's", e.Path))
		}
	}
	return nil
}

// receiver takes an archive apart. Small files are written by a few workers,
// since creating files takes longer than reading them.
type receiver struct {
	g    *puller
	want map[string]tree.Entry // what has not arrived yet, by remote name
	jobs *jobs
	mu   sync.Mutex // guards g.digests
}

// smallFile is up to which size files are held in memory for a worker.
const smallFile = 128 << 10

// receiveWorkers write small files.
const receiveWorkers = 4

func (g *puller) newReceiver(want map[string]tree.Entry) *receiver {
	return &receiver{g: g, want: want, jobs: newJobs(g.ctx, receiveWorkers)}
}

func (rx *receiver) wait() error { return rx.jobs.wait() }

// archive reads archives until the end mark. Members that were not asked for
// are refused: the sandbox may not choose what is written.
func (rx *receiver) archive(r io.Reader) error {
	l := rx.g.opt.Limits
	tr := tarball.NewReader(r, tarball.ReaderOptions{Trailer: archiveEnd, MaxMembers: int64(len(rx.want)), MaxTotal: l.Total, MaxFile: l.File})
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return refusedArchive(err)
		}
		e, ok := rx.want[h.Name]
		if !ok || h.Type != tarball.RegularFile {
			return &provider.Error{Kind: provider.Confined, Err: fmt.Errorf("the sandbox sent %s %q, which was not asked for", h.Type, h.Name)}
		}
		delete(rx.want, h.Name)
		if h.Size != e.Size || h.Time.Sec != e.Time.Sec && e.Time.Sec >= 0 {
			// It changed after it was listed. (BusyBox's tar can't tell times
			// before 1970.)
			e.Size, e.Time = h.Size, h.Time
		}
		if err := rx.member(e, tr); err != nil {
			return err
		}
	}
}

// refusedArchive gives errors of the archive their kinds.
func refusedArchive(err error) error {
	switch {
	case errors.Is(err, tarball.ErrHostile):
		return &provider.Error{Kind: provider.Confined, Err: err}
	case errors.Is(err, tarball.ErrCorrupt):
		return &provider.Error{Kind: provider.Integrity, Err: err}
	}
	return err
}

func (rx *receiver) member(e tree.Entry, r io.Reader) error {
	if e.Size > smallFile {
		return rx.write(e, func(w io.Writer) error {
			_, err := io.CopyBuffer(w, r, make([]byte, 512<<10))
			return err
		})
	}
	buf := smallBuffers.Get().(*[]byte)
	b := (*buf)[:e.Size]
	if _, err := io.ReadFull(r, b); err != nil {
		return refusedArchive(err)
	}
	return rx.jobs.run(func(context.Context) error {
		defer smallBuffers.Put(buf)
		return rx.write(e, func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		})
	})
}

var smallBuffers = sync.Pool{New: func() any {
	b := make([]byte, smallFile)
	return &b
}}

// write makes one staged file.
func (rx *receiver) write(e tree.Entry, fill func(w io.Writer) error) error {
	f, err := rx.g.stage.Create(e.Path)
	if err != nil {
		return err
	}
	w := &progressWriter{f: f, progress: rx.g.progress}
	if rx.g.digests != nil {
		w.sum = sha256.New()
	}
	if err := fill(w); err != nil {
		f.Close()
		if w.err != nil {
			return rx.g.stage.WriteError(e.Path, w.err)
		}
		return refusedArchive(err)
	}
	if err := rx.g.stage.FinishFile(f, e.Mode, e.Time); err != nil {
		return err
	}
	if w.sum != nil {
		rx.mu.Lock()
		rx.g.digests[e.Path] = strings.TrimSpace(digestLine(w.sum))
		rx.mu.Unlock()
	}
	rx.g.progress(1, 0)
	return nil
}

// progressWriter writes a file, hashing and counting.
type progressWriter struct {
	f        *os.File
	sum      hash.Hash
	progress func(files int, bytes int64)
	err      error
}

func (w *progressWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if w.sum != nil {
		w.sum.Write(p[:n])
	}
	w.progress(0, int64(n))
	w.err = err
	return n, err
}
