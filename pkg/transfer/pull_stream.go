package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tarball"
	"github.com/sbsync/sbsync/pkg/tree"
)

// fetch receives the contents of files into the stage, by the route that the
// sandbox offers.
func (g *puller) fetch(files []tree.Entry) error {
	if g.opt.Verify || !g.canStream() && !g.takesBulk(g.facts) {
		g.digests = map[string]string{}
	}
	var err error
	switch {
	case g.canStream():
		if g.facts.tar != "gnu" {
			if err := g.facts.require("stream route", "xargs"); err != nil {
				return err
			}
		}
		g.routed(g.mapping, Stream, "the sandbox streams and has "+g.facts.tar+" tar")
		g.phase("send")
		err = g.fetchStream(files)
		if err == nil && g.opt.Verify {
			err = g.verify(files)
		}
		g.report.Digests = g.report.Digests || g.opt.Verify
	case g.opt.Route == Stream:
		return routeError(Stream, "the sandbox has no GNU or BusyBox tar")
	case g.takesBulk(g.facts):
		err = g.fetchBulk(files)
		if err == nil && g.opt.Verify {
			err = g.verify(files)
		}
		g.report.Digests = g.report.Digests || g.opt.Verify
	case g.opt.Route == Bulk:
		return routeError(Bulk, "the sandbox has no GNU or BusyBox tar")
	default:
		why := g.onlyExec()
		if g.opt.Route == Base64 {
			why = "asked for"
		} else if g.session.Streams() {
			why = "the sandbox has no GNU or BusyBox tar"
			g.session = script.NewSession(g.sandbox, true)
		}
		if err := g.facts.require("base64 route", "base64", "dd", "head", "tail"); err != nil {
			return err
		}
		g.routed(g.mapping, Base64, why)
		g.report.Digests = true
		g.phase("send")
		err = g.fetchBase64(files)
	}
	return g.at.locate(classify(err), files)
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

// fetchStream has the sandbox's tar send archives of exactly the files that are
// wanted. Everything else about them is known from the listing.
func (g *puller) fetchStream(files []tree.Entry) error {
	if g.facts.tar == "gnu" {
		return g.fetchArchive(files)
	}
	for _, round := range rounds(files) {
		if err := g.fetchArchive(round); err != nil {
			return err
		}
	}
	return nil
}

// rounds parts files so that no two in a round are one inode: BusyBox's tar
// makes a hard link of the second, and has no option not to. Hard links that
// stay hard links are not among the files; those that come together when links
// are followed are.
func rounds(files []tree.Entry) [][]tree.Entry {
	var parts [][]tree.Entry
	seen := make(map[inode]int, len(files))
	for _, e := range files {
		id, n := inode{e.Dev, e.Ino}, 0
		if e.Ino != 0 {
			n = seen[id]
			seen[id]++
		}
		if n == len(parts) {
			parts = append(parts, nil)
		}
		parts[n] = append(parts[n], e)
	}
	return parts
}

func (g *puller) fetchArchive(files []tree.Entry) error {
	asked := make(map[string]tree.Entry, len(files))
	missing := make(map[string]tree.Entry, len(files))
	for _, e := range files {
		name := g.remoteName(e)
		asked[name], missing[name] = e, e
	}
	run := g.runTar
	if g.bulk != nil {
		run = g.bulk.runTar
	}
	exit, err := run(files, missing)
	if err != nil {
		return err
	}
	if !tooManyComplaints(exit) || len(files) == 1 {
		if err := g.judge(asked, missing, exit); err != nil || g.facts.tar == "gnu" {
			return err
		}
		return g.recheck(files) // BusyBox's tar does not notice changes
	}
	g.log("tar complained about more files than can be told apart: %d files, again in halves", len(files))
	for _, e := range files {
		if err := g.stage.RemoveStaged(e.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	half := len(files) / 2
	if err := g.fetchArchive(files[:half]); err != nil {
		return err
	}
	return g.fetchArchive(files[half:])
}

// runTar receives an archive of files, and takes those that arrived out of
// missing. A nil exit means that tar found nothing wrong.
//
// The list of names travels on standard input, NUL-terminated. GNU tar reads
// it itself; BusyBox 1.35 has no -T, so xargs makes as many archives as it
// needs, one after the other. Where they end is marked by a random word, put
// there once the whole reply has arrived.
func (g *puller) runTar(files []tree.Entry, missing map[string]tree.Entry) (*script.ExitError, error) {
	names := g.nameList(files)
	command := g.tarCommand() + "\n"
	rx, end := g.newReceiver(missing), "sbsync-end-"+script.Word()
	body := "cd -P -- " + shell.Quote(g.dir) + " || die 81 'the directory is gone'\n" + command
	var cut error
	_, err := g.session.Run(g.ctx, script.Script{Label: "pull", Body: body, Input: bytes.NewReader(names), InputSize: int64(len(names)),
		Consume: func(reply io.Reader) error {
			err := rx.archive(io.MultiReader(reply, strings.NewReader(end+"\n")), end)
			if werr := rx.wait(); err == nil {
				err = werr
			}
			if errors.Is(err, io.ErrUnexpectedEOF) {
				cut, err = err, nil // all was read; how tar ended may say more
			}
			return err
		}})
	var exit *script.ExitError
	switch ended := errors.As(err, &exit) && exit.Code != script.ExitGone; {
	case ended && cut != nil:
		return nil, integrityError(fmt.Sprintf("%v: %v", exit, cut))
	case ended:
		return exit, nil
	case err == nil:
		err = cut
	}
	return nil, err
}

// nameList are the names of files as tar's input.
func (g *puller) nameList(files []tree.Entry) []byte {
	var names bytes.Buffer
	for _, e := range files {
		names.WriteString("./" + g.remoteName(e) + "\x00")
	}
	return names.Bytes()
}

// tarCommand is a command whose input is a nameList and whose output is the
// archive.
func (g *puller) tarCommand() string {
	h := ""
	if g.symlinks(g.mapping) == Follow {
		h = "h"
	}
	if g.facts.tar != "gnu" {
		return "input \"$@\" | xargs -0 tar -c" + h + "f - --no-recursion --"
	}
	return "input \"$@\" | tar --null --no-recursion --hard-dereference -H gnu -b 128 -c" + h + "f - -T -"
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
// are refused: the sandbox may not choose what is written. That bounds their
// number and their names too.
func (rx *receiver) archive(r io.Reader, end string) error {
	l := rx.g.opt.Limits
	tr := tarball.NewReader(r, tarball.ReaderOptions{Trailer: end, MaxTotal: l.Total, MaxFile: l.File, MaxPath: math.MaxInt})
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return refusedArchive(err)
		}
		e, ok := rx.want[h.Name]
		if !ok {
			return &provider.Error{Kind: provider.Confined, Err: fmt.Errorf("the sandbox sent %s %.300q, which was not asked for", h.Type, h.Name)}
		}
		if h.Type != tarball.RegularFile {
			// It may be honest, if it became that after it was listed; another
			// listing will show.
			return integrityError(fmt.Sprintf("%.300q was listed as a file, and came as %s", h.Name, h.Type))
		}
		delete(rx.want, h.Name)
		if h.Size != e.Size || h.Time.Sec != e.Time.Sec && e.Time.Sec >= 0 {
			// It changed after it was listed. (BusyBox's tar can't tell times
			// before 1970.)
			rx.g.drift[e.Path] = h.Size - e.Size
			e.Size, e.Time = h.Size, h.Time
			rx.g.arrived[e.Path] = e
		}
		if err := rx.member(e, tr); err != nil {
			return err
		}
	}
}

// refusedArchive gives errors of the archive their kinds.
func refusedArchive(err error) error {
	switch {
	case errors.Is(err, tarball.ErrSpecial):
		// As with other types that were not listed, another listing will show.
		return &provider.Error{Kind: provider.Integrity, Err: err}
	case errors.Is(err, tarball.ErrHostile):
		return &provider.Error{Kind: provider.Confined, Err: err}
	case errors.Is(err, tarball.ErrLimit):
		return &provider.Error{Kind: provider.TooLarge, Err: err}
	case errors.Is(err, tarball.ErrCorrupt), errors.Is(err, io.ErrUnexpectedEOF):
		return &provider.Error{Kind: provider.Integrity, Err: err}
	}
	return err
}

func (rx *receiver) member(e tree.Entry, r io.Reader) error {
	if e.Size > smallFile {
		return rx.write(e, &rx.g.at, func(w io.Writer) error {
			_, err := io.CopyBuffer(w, r, make([]byte, 512<<10))
			return err
		})
	}
	buf := smallBuffers.Get().(*[]byte)
	b := (*buf)[:e.Size]
	n, err := io.ReadFull(r, b)
	rx.g.at.add(e.Path, 0, int64(n))
	if err != nil {
		return refusedArchive(err)
	}
	return rx.jobs.run(func(context.Context) error {
		defer smallBuffers.Put(buf)
		return rx.write(e, new(position), func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		})
	})
}

var smallBuffers = sync.Pool{New: func() any {
	b := make([]byte, smallFile)
	return &b
}}

// write makes one staged file. What is written counts as received at a position.
func (rx *receiver) write(e tree.Entry, at *position, fill func(w io.Writer) error) error {
	f, err := rx.g.stage.Create(e.Path)
	if err != nil {
		return err
	}
	w := &progressWriter{f: f, path: e.Path, at: at, progress: rx.g.progress}
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
	path     string
	offset   int64
	at       *position
	sum      hash.Hash
	progress func(files int, bytes int64)
	err      error
}

func (w *progressWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if w.sum != nil {
		w.sum.Write(p[:n])
	}
	w.at.add(w.path, w.offset, int64(n))
	w.offset += int64(n)
	w.progress(0, int64(n))
	w.err = err
	return n, err
}
