package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/tarball"
	"github.com/sbsync/sbsync/pkg/tree"
)

// On the base64 route a push goes in chunks. Each chunk is one command that is
// complete in itself: it may run twice, out of order and beside others. Small
// files travel together as an archive of their own, with the digests of what
// is in it; a large file is cut into pieces that are written at their offsets.
// A last command links, sets the modes and times of directories, and publishes.
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
	p.prepare = prepareScript(c.place, h) + unpackPlain
	if hasTar(c.facts) {
		p.prepare = prepareScript(c.place, h) + unpackTar
	}
	start := time.Now()
	if _, err := c.session.Run(ctx, script.Script{Label: "stage", Body: p.prepare + removeScript(c.stale) + "stage\n"}); err != nil {
		return err
	}
	p.link.roundTrip = time.Since(start)
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
		if e.Type == tree.File && e.Size > min(p.sizes.piece, p.sizes.packed/2) {
			err = p.pieces(e)
		} else if e.Type != tree.Dir {
			err = p.add(e)
		}
		if err != nil {
			return err
		}
	}
	return p.flush()
}

// add puts a small entry into the current archive, and sends that when it is
// full.
func (p *chunker) add(e tree.Entry) error {
	if p.pack != nil && p.full(e.Size) {
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
	if err := p.c.writeEntry(p.pack.w, p.s, e); err != nil {
		return err
	}
	p.pack.add(e.Size + entryOverhead)
	return nil
}

// entryOverhead is more than an entry's header and digest take, compressed or
// not, unless its name is very long.
const entryOverhead = 1 << 10

// full says whether the archive has no room for a file of so many bytes. What
// compression makes of the last entries is only known once they are flushed.
func (p *chunker) full(size int64) bool {
	k := p.pack
	if k.raw+size > p.sizes.raw {
		return true
	}
	limit := p.sizes.packed
	if !k.gzip {
		limit = p.sizes.plain
	}
	if k.size()+size+entryOverhead <= limit {
		return false
	}
	if k.pending > limit/8 {
		k.sync()
	}
	return k.size()+size+entryOverhead > limit
}

// packer is an archive in memory.
type packer struct {
	buf  *bytes.Buffer
	gzip bool
	zip  *gzipper
	w    archive
	dirs map[string]bool
	raw  int64 // content and headers
	// pending is the part of raw that may not have reached buf yet.
	pending int64
}

func (p *chunker) newPacker(compress bool) *packer {
	k := &packer{buf: getBuffer(), dirs: map[string]bool{}, gzip: p.gzip && compress}
	k.zip = newGzipper(k.buf, k.gzip)
	if k.w = tarball.NewWriter(k.zip); !hasTar(p.c.facts) {
		k.w = newPlainArchive(k.zip, p.c.facts.touchNs())
	}
	return k
}

// size is how many bytes the archive has at most.
func (k *packer) size() int64 { return int64(k.buf.Len()) + k.pending }

func (k *packer) add(n int64) {
	k.raw += n
	k.pending += n
}

// sync compresses what is pending. Errors come back when the archive is closed.
func (k *packer) sync() {
	k.w.Flush()
	k.zip.Flush()
	k.pending = 0
}

// parents writes the directories above an entry: every archive can be unpacked
// on its own.
func (k *packer) parents(dir string) error {
	if k.dirs[dir] {
		return nil
	}
	k.dirs[dir] = true
	if dir != "" {
		if err := k.parents(tree.Parent(dir)); err != nil {
			return err
		}
	}
	k.add(entryOverhead)
	return k.w.WriteHeader(tarball.Header{Name: member(dir), Type: tarball.Directory, Mode: 0o700})
}

func (k *packer) close() ([]byte, error) {
	if err := k.w.Close(); err != nil {
		return nil, err
	}
	if err := k.zip.Close(); err != nil {
		return nil, err
	}
	return k.buf.Bytes(), nil
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
	body := p.prepare + "cd -- \"$S\" || die 81 'the staging directory is gone'\ntouch \"$S\"\n" +
		"input \"$@\"" + k.unzip() + " | unpack " + id + " || die 83 'the archive did not arrive whole'\n" + verifyScript(id)
	return p.jobs.run(func(ctx context.Context) error {
		defer putBuffer(k.buf)
		return p.c.again(ctx, "chunk "+id, func(ctx context.Context) error {
			start := time.Now()
			_, err := p.c.session.Run(ctx, script.Script{Label: "chunk " + id, Body: body, Input: bytes.NewReader(data)})
			if err == nil {
				p.link.measure(int64(len(data)), time.Since(start))
			}
			return err
		})
	})
}

func (k *packer) unzip() string {
	if k.gzip {
		return " | gzip -dc"
	}
	return ""
}

// pieces sends a large file.
func (p *chunker) pieces(e tree.Entry) error {
	f, info := p.s.open(e)
	if f == nil {
		return nil
	}
	size := info.Size()
	if size == 0 { // it was large when it was listed
		f.Close()
		return p.add(e)
	}
	p.s.written++
	name := member(e.Path)
	var left atomic.Int64
	count := (size + p.sizes.piece - 1) / p.sizes.piece
	left.Store(count)
	pf := &piecedFile{f: f, size: size, name: name}
	done := func() {
		if left.Add(-1) == 0 {
			pf.after, _ = f.Stat()
			f.Close()
		}
	}
	compress := p.gzip && p.link.compress() && compressible(f, size)
	for i := range count {
		offset := i * p.sizes.piece
		n := min(p.sizes.piece, size-offset)
		err := p.jobs.run(func(ctx context.Context) error {
			defer done()
			return p.piece(ctx, pf, offset, n, compress)
		})
		if err != nil {
			for ; offset < size; offset += p.sizes.piece {
				done() // those that nobody will send
			}
			return err
		}
	}
	p.jobs.then(func() { p.s.settle(e.Path, info, pf.after, false, pf.short, pf.err) })
	w := publisher{touchNs: p.c.facts.touchNs()}
	fmt.Fprintf(&p.finals, "%s %s && chmod %04o -- %s || die 86 'metadata cannot be set'\n", w.touch(timeOf(info)), script.Quote(name), e.Mode, script.Quote(name))
	return nil
}

// piecedFile is a large file on its way.
type piecedFile struct {
	f     *os.File
	size  int64
	name  string
	after fs.FileInfo // once all pieces are sent

	mu    sync.Mutex
	short bool
	err   error // of reading it
}

// broke takes note that a piece could not be read whole. It is made up for with
// zeros, and the file not published.
func (f *piecedFile) broke(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.short = true
	if f.err == nil && err != io.EOF {
		f.err = err
	}
}

// piece sends one piece and has it read back.
func (p *chunker) piece(ctx context.Context, f *piecedFile, offset, n int64, compress bool) error {
	label := fmt.Sprintf("piece of %s at %d", path.Base(f.name), offset)
	return p.c.again(ctx, label, func(ctx context.Context) error {
		sum := p.s.digests.start()
		section := io.NewSectionReader(f.f, offset, n)
		var input io.Reader
		unzip := ""
		if compress {
			buf := getBuffer()
			defer putBuffer(buf)
			if err := pack(buf, section, n, sum); err != nil {
				f.broke(err)
			}
			input, unzip = bytes.NewReader(buf.Bytes()), " | gzip -dc"
		} else {
			input = &hashedSection{SectionReader: section, want: n, sum: sum, broke: f.broke}
		}
		name := script.Quote(f.name)
		seek := offset / pieceAlign
		block := int64(pieceAlign)
		if offset%pieceAlign != 0 { // pieces smaller than the alignment
			seek, block = offset/p.sizes.piece, p.sizes.piece
		}
		place := fmt.Sprintf("bs=%d seek=%d", block, seek)
		back := fmt.Sprintf("bs=%d skip=%d count=%d", block, seek, (n+block-1)/block)
		body := p.prepare + "cd -- \"$S\" || die 81 'the staging directory is gone'\ntouch \"$S\"\n" +
			"mkdir -p -- " + script.Quote(path.Dir(f.name)) + "\n" +
			"e=$( { input \"$@\"" + unzip + " | dd of=" + name + " conv=notrunc " + place + "; } 2>&1 ) || die 83 \"$e\"\n" +
			"dd if=" + name + " " + back + " 2>/dev/null | $HASH | trim\n"
		reply, err := p.c.session.Run(ctx, script.Script{Label: label, Body: body, Input: input})
		if err != nil {
			return err
		}
		if want := digestLine(sum); strings.TrimSpace(string(reply)) != strings.TrimSpace(want) {
			return integrityError(label + ": the digest differs from what was sent")
		}
		p.c.progress(0, n)
		return nil
	})
}

// hashedSection reads a section of a file, hashing it, and makes up for what
// the file has lost meanwhile with zeros.
type hashedSection struct {
	*io.SectionReader
	want, got int64
	sum       interface {
		io.Writer
		Reset()
	}
	broke func(error)
}

func (h *hashedSection) Read(p []byte) (int, error) {
	if h.got == h.want {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), h.want-h.got)]
	n, err := h.SectionReader.Read(p)
	if n == 0 && err != nil {
		h.broke(err)
		clear(p)
		n = len(p)
	}
	h.sum.Write(p[:n])
	h.got += int64(n)
	return n, nil
}

func (h *hashedSection) Seek(offset int64, whence int) (int64, error) {
	h.got = 0
	h.sum.Reset()
	return h.SectionReader.Seek(offset, whence)
}

// finish sends the last command.
func (p *chunker) finish(ctx context.Context) error {
	nonce := script.Word()
	k := p.newPacker(true) // headers of directories, which become a tenth
	if err := p.writeFinish(k, nonce); err != nil {
		return err
	}
	data, err := k.close()
	if err != nil {
		return err
	}
	defer putBuffer(k.buf)
	source := "input \"$@\"" + k.unzip()
	var input io.Reader = bytes.NewReader(data)
	if limit, _ := p.c.session.MaxInput(); limit > 0 && int64(len(data)) > limit {
		if err := p.upload(ctx, data, limit); err != nil {
			return err
		}
		source, input = "cat tail"+k.unzip(), nil
	}
	body := p.prepare + "NONCE=" + nonce + "\ntrap 'cd /; unstage' EXIT\ntrap 'exit 143' TERM INT HUP\ncd -- \"$S\" || die 81 'the staging directory is gone'\n" +
		source + " | unpack end || die 83 'the archive did not arrive whole'\n" +
		"l=; [ ! -f seal ] || read -r l <seal\n[ \"$l\" = \"# sbsync $NONCE\" ] || die 83 'the archive did not arrive whole'\n. ./seal\n"
	reply, err := p.c.session.Run(ctx, script.Script{Label: "publish", Heartbeat: true, Body: body, Input: input})
	if err != nil {
		return err
	}
	p.c.published(reply)
	return nil
}

// writeFinish writes the archive of the last command: hard links, directories
// with their modes and times, and the seal.
func (p *chunker) writeFinish(k *packer, nonce string) error {
	c := p.c
	if err := c.writeParents(k.w); err != nil {
		return err
	}
	for _, e := range c.plan.send {
		if e.Type == tree.Dir {
			if err := c.writeEntry(k.w, p.s, e); err != nil {
				return err
			}
		}
	}
	for _, e := range c.plan.send {
		if _, hard := c.plan.hard[e.Path]; hard {
			if err := c.writeEntry(k.w, p.s, e); err != nil {
				return err
			}
		}
	}
	if err := c.writeDirectories(k.w); err != nil {
		return err
	}
	seal := "# sbsync " + nonce + "\n" + p.finals.String() + c.countScript(p.s.written) + publishScript(c.place, c.facts, c.plan, p.s.failed)
	return k.w.WriteBytes(tarball.Header{Name: sealName, Type: tarball.RegularFile, Mode: 0o600}, []byte(seal))
}

// upload puts data that is too long for one command into the staging
// directory, as the file "tail".
func (p *chunker) upload(ctx context.Context, data []byte, limit int64) error {
	step := max(limit/pieceAlign, 1) * pieceAlign
	if step > limit {
		return errors.New("the sandbox takes too little input in one command")
	}
	for offset := int64(0); offset < int64(len(data)); offset += step {
		part := data[offset:min(offset+step, int64(len(data)))]
		body := fmt.Sprintf("%scd -- \"$S\" || die 81 'the staging directory is gone'\ninput \"$@\" | dd of=tail conv=notrunc bs=%d seek=%d 2>/dev/null || die 83 'a part did not arrive'\n[ $(($(wc -c <tail))) -ge %d ] || die 83 'a part did not arrive whole'\n",
			p.prepare, pieceAlign, offset/pieceAlign, offset+int64(len(part)))
		err := p.c.again(ctx, "upload", func(ctx context.Context) error {
			_, err := p.c.session.Run(ctx, script.Script{Label: "upload", Body: body, Input: bytes.NewReader(part)})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// jobs runs work in a few goroutines. The first error stops it.
type jobs struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	slots  chan struct{}
	wg     sync.WaitGroup
	after  []func()
}

func newJobs(ctx context.Context, n int) *jobs {
	j := &jobs{slots: make(chan struct{}, n)}
	j.ctx, j.cancel = context.WithCancelCause(ctx)
	return j
}

// run waits for a free worker and starts the work.
func (j *jobs) run(work func(ctx context.Context) error) error {
	select {
	case j.slots <- struct{}{}:
	case <-j.ctx.Done():
		return context.Cause(j.ctx)
	}
	j.wg.Add(1)
	go func() {
		defer j.wg.Done()
		defer func() { <-j.slots }()
		if err := work(j.ctx); err != nil {
			j.cancel(err)
		}
	}()
	return nil
}

// then notes what to do when all work is done, on the caller's goroutine.
func (j *jobs) then(f func()) { j.after = append(j.after, f) }

func (j *jobs) err() error { return context.Cause(j.ctx) }

// wait waits for all work and returns the first error.
func (j *jobs) wait() error {
	j.wg.Wait()
	err := context.Cause(j.ctx)
	j.cancel(context.Canceled)
	if err == nil {
		for _, f := range j.after {
			f()
		}
	}
	return err
}
