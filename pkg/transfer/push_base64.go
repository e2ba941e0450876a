package transfer

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/tree"
)

// On the base64 route a push goes in chunks. Each chunk is one command that is
// complete in itself: it may run twice, out of order and beside others. Small
// files travel together as an archive of their own, with the digests of what
// is in it; a large file is cut into pieces that are written at their offsets.
// A last command links, sets the modes and times of directories, and publishes;
// what fits into one chunk it carries too.
const (
	// pieceAlign is the block size of dd, in which pieces are placed.
	pieceAlign = 64 << 10
	// maxPacked bounds a chunk that is held in memory, compressed.
	maxPacked = 4 << 20
	// maxPlain is the same without compression.
	maxPlain = 6 << 20
	// maxRaw bounds what is packed into it. It bounds also how long a command
	// takes, so that progress and idle deadlines make sense.
	maxRaw = 32 << 20
	// maxPiece bounds a piece of a large file, which is read from the file
	// while it is sent.
	maxPiece = 16 << 20
	// defaultConcurrent is how many commands run at once, unless the sandbox
	// says otherwise.
	defaultConcurrent = 4
)

// chunkSizes are the limits for one sandbox.
type chunkSizes struct {
	packed int64 // of an archive, compressed
	plain  int64 // of one that is not
	raw    int64 // of an archive
	piece  int64 // of a large file
}

func (c *carrier) chunkSizes() chunkSizes {
	z := chunkSizes{packed: maxPacked, plain: maxPlain, raw: maxRaw, piece: maxPiece}
	if n := c.opt.ChunkBytes; n > 0 {
		z.packed, z.plain, z.raw, z.piece = min(z.packed, n), min(z.plain, n), n, n
	} else if workers := int64(c.concurrency()); c.plan.bytes < workers*z.piece {
		// Spread a small transfer over all workers.
		z.piece = max(c.plan.bytes/workers, 1<<20)
	}
	limit, hard := c.session.MaxInput()
	if limit > 0 {
		z.packed, z.plain = min(z.packed, limit), min(z.plain, limit)
		z.piece = min(z.piece, limit)
		if hard {
			z.raw = min(z.raw, 8*limit)
		}
	}
	z.piece = max(z.piece/pieceAlign, 1) * pieceAlign
	if limit > 0 && z.piece > limit { // the alignment does not fit
		z.piece = limit
	}
	return z
}

func (c *carrier) concurrency() int {
	if n := c.session.Capabilities().MaxConcurrent; n > 0 {
		return n
	}
	return defaultConcurrent
}

// pushBase64 carries a push as text over exec.
func (c *carrier) pushBase64(ctx context.Context) error {
	h, err := c.facts.hasher(c.plan.bytes)
	if err != nil {
		return err
	}
	p := &chunker{c: c, s: c.newSender(), sizes: c.chunkSizes(), gzip: c.facts.tools["gzip"], jobs: newJobs(ctx, c.concurrency())}
	p.s.digests = &digestList{hasher: h}
	p.s.largest = min(p.sizes.piece, p.sizes.packed/2)
	p.prepare = prepareScript(c.place, h) + unpackPlain
	if hasTar(c.facts) {
		p.prepare = prepareScript(c.place, h) + c.facts.untar() + unpackTar
	}
	err = p.sendAll()
	if werr := p.jobs.wait(); werr != nil {
		err = werr
	}
	if err != nil {
		return err
	}
	if err := c.refuseFailures(p.s); err != nil {
		return err
	}
	c.phase("publish")
	return p.finish(ctx)
}

// chunker cuts what is sent into chunks. Chunks are made by one goroutine and
// carried by several.
type chunker struct {
	c       *carrier
	s       *sender
	sizes   chunkSizes
	gzip    bool // the sandbox can expand it
	link    link
	prepare string
	jobs    *jobs
	sent    int         // commands that were started
	staged  atomic.Bool // one of them has succeeded

	id     int
	pack   *packer         // the archive that is being filled
	finals strings.Builder // modes and times of files that went in pieces
}

// sendAll makes all chunks.
func (p *chunker) sendAll() error {
	entries := p.c.plan.send
	if p.c.plan.newRoot && p.c.plan.root.Type != tree.Dir {
		entries = []tree.Entry{p.c.plan.root}
	}
	for _, e := range entries {
		if err := p.jobs.err(); err != nil {
			return err
		}
		if _, hard := p.c.plan.hard[e.Path]; hard && e.Type == tree.File {
			continue // made at the end, when its first is certain to be there
		}
		var err error
		if e.Type == tree.File && e.Size > p.s.largest {
			err = p.pieces(e)
		} else if e.Type != tree.Dir {
			err = p.add(e)
		}
		if err != nil {
			return err
		}
	}
	if p.sent == 0 { // a push of one chunk is one command
		return nil
	}
	return p.flush()
}

// run starts a command, made of the text that enters the staging directory and
// its own.
//
// The first commands, as many as run at once, make the staging directory if it
// is not there; those that come later, once one has succeeded, never do: what
// is left of a push that failed must not begin another one.
func (p *chunker) run(do func(ctx context.Context, enter string) error) error {
	first := p.sent == 0
	p.sent++
	return p.jobs.run(func(ctx context.Context) error {
		err := do(ctx, p.enter(first))
		if err == nil {
			p.staged.Store(true)
		}
		return err
	})
}

// enter is the text; the first command's removes leftovers, too.
func (p *chunker) enter(first bool) string {
	text := p.prepare
	if first {
		text += removeScript(p.c.stale)
	}
	if !p.staged.Load() {
		text += "stage\n"
	}
	return text + "cd -- \"$S\" || die 81 'the staging directory is gone'\ntouch \"$S\"\n"
}

// add puts a small entry into the current archive, and sends that when it is
// full.
func (p *chunker) add(e tree.Entry) error {
	if p.pack != nil && p.full(e) {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if p.pack == nil {
		p.id++
		p.pack = p.newPacker(p.link.compress())
	}
	if e.Path != "" { // BusyBox puts no file in the place of a directory
		if err := p.pack.parents(tree.Parent(e.Path)); err != nil {
			return err
		}
	}
	err := p.c.writeEntry(p.pack.w, p.s, e)
	if errors.Is(err, errLarger) { // it was small when it was listed
		return p.pieces(e)
	}
	if err != nil {
		return err
	}
	p.pack.add(entrySize(e))
	return nil
}

// entrySize is more than an entry takes in an archive, compressed or not: its
// content, header and PAX records, each padded.
func entrySize(e tree.Entry) int64 {
	return e.Size + 3<<10 + 2*int64(len(e.Path)+len(e.Link))
}

// archiveEnd is more than the end of an archive takes: the headers of the
// digest lists, and what marks the end.
const archiveEnd = 5 << 10

// full says whether the archive has no room for an entry. What compression
// makes of the last entries is only known once they are flushed.
func (p *chunker) full(e tree.Entry) bool {
	k, more := p.pack, entrySize(e)+p.s.digests.size()+archiveEnd
	if k.raw+e.Size > p.sizes.raw {
		return true
	}
	limit := p.sizes.packed
	if !k.gzip {
		limit = p.sizes.plain
	}
	if k.size()+more <= limit {
		return false
	}
	if k.pending > limit/8 {
		k.sync()
	}
	return k.size()+more > limit
}

// flush sends the current archive.
func (p *chunker) flush() error {
	k := p.pack
	if k == nil {
		return nil
	}
	p.pack = nil
	id := strconv.Itoa(p.id)
	if err := p.s.digests.write(k.w, id); err != nil {
		return err
	}
	data, err := k.close()
	if err != nil {
		return err
	}
	body := "input \"$@\"" + k.unzip() + " | unpack " + id + " || die 83 'the archive did not arrive whole'\n" + verifyScript(id)
	return p.run(func(ctx context.Context, enter string) error {
		defer putBuffer(k.buf)
		return p.c.again(ctx, "chunk "+id, func(ctx context.Context) error {
			start := time.Now()
			_, err := p.c.session.Run(ctx, script.Script{Label: "chunk " + id, Heartbeat: true, Body: enter + body, Input: bytes.NewReader(data)})
			if err == nil {
				p.link.measure(int64(len(data)), time.Since(start))
			}
			return err
		})
	})
}
