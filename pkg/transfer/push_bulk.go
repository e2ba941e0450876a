package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tree"
)

// On the bulk route a push takes three calls, however many files there are: one
// makes the private staging directory, one request uploads into it, and one
// command extracts, verifies and publishes, as on the stream route. Large files
// are uploaded by themselves, so that they are not written twice.

// bulkLarge is from which size on. A part of its own costs a line of script;
// below some MiB the archive is as fast (measured with Daytona's daemon 0.190).
const bulkLarge = 8 << 20

// Names of what is uploaded into the staging directory.
const (
	bulkArchive = "archive"
	bulkPlace   = "place" // the script that puts the large files into the tree
	bulkFile    = "large" // and a number
)

// bulkScript works on what was uploaded. The last file's first line proves that
// all are there, as the seal does for the archive. Large files come first:
// hard links to them are members, and so are the directories with their final
// times.
const bulkScript = `
child=
trap 'trap "" TERM INT HUP; [ -z "$child" ] || kill "$child" 2>/dev/null; cd /; unstage' EXIT
trap 'exit 143' TERM INT HUP
cd -- "$S" || die 81 'the staging directory is gone'
printf '%s\n' "$$" >pid
l=; [ ! -f place ] || read -r l <place
[ "$l" = "# sbsync $NONCE" ] || die 83 'the upload did not arrive whole'
. ./place
umask 000 # BusyBox takes it off all modes, in spite of -p
$UNTAR <archive & child=$!
umask 077
wait "$child"; r=$?; child=
l=; [ ! -f seal ] || read -r l <seal
[ "$l" = "# sbsync $NONCE" ] || die 83 "the archive did not arrive whole (tar ended with exit code $r)"
[ "$r" = 0 ] || die 89 "tar ended with exit code $r"
rm -f archive
. ./seal
`

// pushBulk carries a push through the provider's bulk API.
func (c *carrier) pushBulk(ctx context.Context) error {
	h, err := c.facts.hasher(c.plan.bytes)
	if err != nil && c.opt.Verify {
		return err
	}
	nonce := script.Word()
	prepare := prepareScript(c.place, h) + c.facts.untar()
	if _, err := c.session.Run(ctx, script.Script{Label: "stage", Body: prepare + removeScript(c.stale) + "stage\n"}); err != nil {
		return err
	}
	b := &bulkPush{c: c, s: c.newSender(), h: h, nonce: nonce}
	if c.opt.Verify {
		b.s.digests = &digestList{hasher: h}
	}
	if err := b.upload(ctx); err != nil {
		return err
	}
	c.phase("publish")
	ctx, cancel := c.patient(ctx, c.plan.bytes, len(c.plan.send))
	defer cancel()
	reply, err := c.session.Run(ctx, script.Script{Label: "push", Body: prepare + "NONCE=" + nonce + "\n" + bulkScript})
	if err != nil {
		return err
	}
	c.published(reply)
	return nil
}

// patient allows a command that says nothing before it ends, since the provider
// delivers output no earlier, more time than the idle deadline: what writing and
// hashing so much takes a slow sandbox, at 2 MiB and 200 entries a second.
func (r *runner) patient(ctx context.Context, bytes int64, entries int) (context.Context, context.CancelFunc) {
	if r.opt.IdleTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	d := r.opt.IdleTimeout + time.Duration(bytes>>21)*time.Second + time.Duration(entries)*5*time.Millisecond
	return context.WithTimeoutCause(provider.Patient(ctx), d, fmt.Errorf("the command has not ended after %v", d))
}

// bulkPush is what one push uploads.
type bulkPush struct {
	c     *carrier
	s     *sender
	h     hasher
	nonce string
	place strings.Builder
	files []provider.PutFile
	feeds []*feed
}

// upload sends everything. An attempt counts what it reads, so that only the
// whole push can be repeated.
func (b *bulkPush) upload(ctx context.Context) error {
	filer, ok := provider.FilerOf(b.c.sandbox)
	if !ok {
		return provider.ErrNotImplemented
	}
	b.place.WriteString("# sbsync " + b.nonce + "\n")
	for _, e := range b.large() {
		b.addLarge(e)
	}
	b.add(bulkArchive, -1, func(w io.Writer) error { return b.c.writeArchive(w, b.s, b.h, b.nonce) })
	b.add(bulkPlace, -1, func(w io.Writer) error { _, err := io.WriteString(w, b.place.String()); return err })
	defer func() {
		for _, f := range b.feeds {
			f.stop()
		}
	}()
	err := filer.PutFiles(ctx, b.files)
	for _, f := range b.feeds {
		if werr := f.failure(); werr != nil && (err == nil || errors.Is(err, werr)) {
			return werr
		}
	}
	return err
}

// large are the files that are sent by themselves.
func (b *bulkPush) large() []tree.Entry {
	p := b.c.plan
	if p.root.Type != tree.Dir {
		if p.newRoot && p.root.Type == tree.File && p.root.Size >= bulkLarge {
			return []tree.Entry{p.root}
		}
		if p.newRoot {
			return nil
		}
	}
	var list []tree.Entry
	for _, e := range p.send {
		if _, hard := p.hard[e.Path]; e.Type == tree.File && e.Size >= bulkLarge && !hard {
			list = append(list, e)
		}
	}
	return list
}

// add adds a file that is made while it is sent.
func (b *bulkPush) add(name string, size int64, produce func(w io.Writer) error) {
	f := newFeed(produce)
	b.feeds = append(b.feeds, f)
	opened := false
	b.files = append(b.files, provider.PutFile{Path: path.Join(b.c.place.stage(), name), Size: size, Open: func() (io.ReadCloser, error) {
		if opened {
			return nil, errSentBefore
		}
		opened = true
		return io.NopCloser(f), nil
	}})
}

// errSentBefore ends a second attempt by the sandbox's wrappers; the engine then
// repeats the whole push.
var errSentBefore = &provider.Error{Kind: provider.Unreachable, Op: "upload", Err: errors.New("the upload broke off")}

// addLarge adds a large file. What it turns out to be when it is read is what
// counts.
func (b *bulkPush) addLarge(e tree.Entry) {
	name := fmt.Sprintf("%s%d", bulkFile, len(b.files))
	if b.s.skip == nil {
		b.s.skip = map[string]bool{}
	}
	b.s.skip[e.Path] = true
	b.add(name, -1, func(w io.Writer) error {
		f, info := b.s.open(e)
		if f == nil {
			return nil
		}
		defer f.Close()
		broken := &brokenFile{}
		content := &hashedSection{SectionReader: io.NewSectionReader(f, 0, info.Size()), want: info.Size(), sum: noSum{}, broke: broken.broke}
		to := member(e.Path)
		if b.s.digests != nil {
			sum := b.s.digests.start()
			content.sum = sum
			defer func() {
				if !broken.short {
					b.s.digests.add(to, sum)
				}
			}()
		}
		if err := b.copy(w, content); err != nil {
			return err
		}
		b.s.written++
		b.s.sizes.add(e, info.Size())
		after, _ := f.Stat()
		b.s.settle(e.Path, info, after, false, broken.short, broken.err)
		b.placeFile(name, to, e, info)
		return nil
	})
}

// placeFile notes the commands that put a large file into the staged tree.
func (b *bulkPush) placeFile(name, to string, e tree.Entry, info fs.FileInfo) {
	w := publisher{touchNs: b.c.facts.touchNs()}
	quoted := shell.Quote(to)
	fmt.Fprintf(&b.place, "mkdir -p -- %s && mv -f -- %s %s && %s %s && chmod %04o -- %s || die 86 'a file cannot be put in its place'\n",
		shell.Quote(path.Dir(to)), name, quoted, w.touch(timeOf(info)), quoted, e.Mode, quoted)
}

func (b *bulkPush) copy(w io.Writer, r io.Reader) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			b.c.progress(0, int64(n))
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// brokenFile takes note of a file that could not be read whole.
type brokenFile struct {
	short bool
	err   error
}

func (f *brokenFile) broke(err error) {
	f.short = true
	if f.err == nil && err != io.EOF {
		f.err = err
	}
}

// noSum takes the place of a digest that nobody wants.
type noSum struct{}

func (noSum) Write(p []byte) (int, error) { return len(p), nil }
func (noSum) Reset()                      {}
