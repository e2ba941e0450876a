package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tree"
)

// On the bulk route a pull has the sandbox write an archive of small files into a
// private temporary directory, and downloads that. Large files are downloaded
// as they are. So the calls grow with the bytes, and not with the files.

// bulkArchiveBytes bounds the content of one archive, and so the disk space
// that a pull takes in the sandbox.
const bulkArchiveBytes = 256 << 20

// bulkPull is a pull on the bulk route.
type bulkPull struct {
	*puller
	filer provider.Filer
	dir   string // in the sandbox, private; empty until it is made
	word  string
}

func (g *puller) fetchBulk(files []tree.Entry) error {
	if g.facts.tar != "gnu" {
		if err := g.facts.require("bulk route", "xargs"); err != nil {
			return err
		}
	}
	filer, ok := provider.FilerOf(g.sandbox)
	if !ok {
		return provider.ErrNotImplemented
	}
	g.routed(g.mapping, Bulk, bulkReason(g.facts))
	g.phase("send")
	g.bulk = &bulkPull{puller: g, filer: filer, word: script.Word()}
	defer g.bulk.remove()
	return g.bulk.fetch(files)
}

func (b *bulkPull) fetch(files []tree.Entry) error {
	var small, large []tree.Entry
	for _, e := range files {
		if e.Size >= bulkLarge && b.downloadable(e) {
			large = append(large, e)
		} else {
			small = append(small, e)
		}
	}
	for _, group := range b.groups(small) {
		if err := b.fetchStream(group); err != nil {
			return err
		}
	}
	for _, e := range large {
		if err := b.download(e); err != nil {
			return err
		}
	}
	if len(large) == 0 {
		return nil
	}
	return b.recheck(large)
}

// downloadable says whether a file API finds the file under its name: such were
// seen to trim names, and to need UTF-8.
func (b *bulkPull) downloadable(e tree.Entry) bool {
	p := b.remote(e)
	return utf8.ValidString(p) && strings.TrimSpace(p) == p
}

func (b *bulkPull) remote(e tree.Entry) string { return path.Join(b.puller.dir, b.remoteName(e)) }

// groups parts files so that an archive is not too large, and their names are
// not more than what a command's input takes.
func (b *bulkPull) groups(files []tree.Entry) [][]tree.Entry {
	limit, _ := b.session.MaxInput()
	if limit <= 0 {
		limit = 1 << 20
	}
	var groups [][]tree.Entry
	var size, names int64
	for _, e := range files {
		n := int64(len(b.remoteName(e)) + 3)
		if len(groups) == 0 || size+e.Size > bulkArchiveBytes || names+n > limit {
			groups, size, names = append(groups, nil), 0, 0
		}
		last := len(groups) - 1
		groups[last], size, names = append(groups[last], e), size+e.Size, names+n
	}
	return groups
}

// bulkStaleMinutes is when a temporary directory that a killed run left is
// removed by the next run: when nobody can still download from it.
const bulkStaleMinutes = 24 * 60

// runTar is the stream route's runTar, by way of a file in the sandbox.
func (b *bulkPull) runTar(files []tree.Entry, missing map[string]tree.Entry) (*script.ExitError, error) {
	names := b.nameList(files)
	body := fmt.Sprintf("D=${TMPDIR:-/tmp}\nfind \"$D\"/.sbsync-pull-* -prune -type d -user \"$(id -u)\" -mmin +%d -exec rm -rf {} + 2>/dev/null\nD=$D/.sbsync-pull-%s\n",
		bulkStaleMinutes, b.word) +
		"[ -d \"$D\" ] || mkdir -- \"$D\" || die 85 'no temporary directory can be made'\n" +
		"cd -P -- \"$D\" && D=$(pwd -P) || die 85 'the temporary directory cannot be entered'\nprintf '%s\\n' \"$D\"\n" +
		"cd -P -- " + shell.Quote(b.puller.dir) + " || die 81 'the directory is gone'\n" +
		"{ " + b.tarCommand() + "; } >\"$D/archive\"\nr=$?\nprintf '%s\\n' \"$r\"\nexit \"$r\"\n"
	if b.dir == "" {
		b.dir = "?" // from here on there is something to remove
	}
	var size int64
	for _, e := range files {
		size += e.Size
	}
	ctx, cancel := b.patient(b.ctx, size, len(files))
	defer cancel()
	var reply bytes.Buffer
	_, err := b.session.Run(ctx, script.Script{Label: "pack", Body: body, Input: bytes.NewReader(names), Consume: func(r io.Reader) error {
		_, err := io.Copy(&reply, io.LimitReader(r, 64<<10))
		return err
	}})
	var exit *script.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	dir, rest, ok := strings.Cut(reply.String(), "\n")
	if !ok || rest == "" || !path.IsAbs(dir) || path.Base(dir) != ".sbsync-pull-"+b.word {
		if exit == nil {
			return nil, integrityError("pack: the sandbox's answer is not understood")
		}
		return nil, exit // before tar ran
	}
	b.dir = dir
	return exit, b.receive(path.Join(dir, "archive"), missing, exit)
}

// receive downloads an archive and takes it apart. How tar ended may say more
// than that the archive is cut.
func (b *bulkPull) receive(archive string, missing map[string]tree.Entry, exit *script.ExitError) error {
	rx, end := b.newReceiver(missing), "sbsync-end-"+script.Word()
	pr, pw := io.Pipe()
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	got := make(chan error, 1)
	go func() {
		err := b.filer.GetFile(ctx, archive, 0, pw)
		pw.CloseWithError(err)
		got <- err
	}()
	err := rx.archive(io.MultiReader(pr, strings.NewReader(end+"\n")), end)
	if werr := rx.wait(); err == nil {
		err = werr
	}
	cancelled := err != nil
	pr.CloseWithError(errConsumer)
	gerr := <-got
	switch {
	case gerr != nil && !errors.Is(gerr, errConsumer) && (!cancelled || provider.KindOf(gerr) != provider.Other):
		return gerr
	case errors.Is(err, io.ErrUnexpectedEOF) && exit != nil:
		return exit
	}
	return err
}

// errConsumer ends a download whose content nobody wants any more.
var errConsumer = errors.New("the rest is not wanted")

// download receives a large file, and goes on where it broke off.
func (b *bulkPull) download(e tree.Entry) error {
	rx := b.newReceiver(nil)
	return rx.write(e, &b.at, func(w io.Writer) error {
		out := &exactWriter{w: w, left: e.Size}
		err := b.again(b.ctx, "download", func(ctx context.Context) error {
			return b.filer.GetFile(ctx, b.remote(e), e.Size-out.left, out)
		})
		switch {
		case out.over || err == nil && out.left > 0, provider.KindOf(err) == provider.NotFound:
			// Another listing will show what it is now.
			return integrityError(fmt.Sprintf("%q is not any more what was listed", e.Path))
		}
		return err
	})
}

// exactWriter takes so many bytes and no more.
type exactWriter struct {
	w    io.Writer
	left int64
	over bool
}

var errOver = errors.New("more arrives than was listed")

func (x *exactWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > x.left {
		x.over = true
		return 0, errOver
	}
	n, err := x.w.Write(p)
	x.left -= int64(n)
	return n, err
}

// remove takes the temporary directory away, also when the run was cancelled.
func (b *bulkPull) remove() {
	if b.dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), cleanupTime)
	defer cancel()
	body := "rm -rf -- \"${TMPDIR:-/tmp}/.sbsync-pull-" + b.word + "\"\n"
	if _, err := b.session.Run(ctx, script.Script{Label: "clean up", Body: body, Idempotent: true}); err != nil {
		b.report.Warnings = append(b.report.Warnings, fmt.Sprintf(".sbsync-pull-%s may be left in the sandbox's temporary directory: %v", b.word, err))
	}
}
