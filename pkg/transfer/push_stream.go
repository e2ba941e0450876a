package transfer

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/tarball"
	"github.com/sbsync/sbsync/pkg/tree"
)

// streamScript receives an archive on standard input. Its last member is a
// script that publishes; if it is missing, the archive was cut, which tar
// itself does not notice between two members.
//
// tar runs in the background, so that a signal is acted on at once and not
// when tar ends.
const streamScript = `
child=
trap 'trap "" TERM INT HUP; [ -z "$child" ] || kill "$child" 2>/dev/null; cd /; unstage' EXIT
trap 'exit 143' TERM INT HUP
stage
printf '%s\n' "$$" >"$S/pid"
cd -- "$S" || die 81 'the staging directory cannot be entered'
exec 4<&0 # the shell gives background commands /dev/null
umask 000 # BusyBox takes it off all modes, in spite of -p
$UNTAR <&4 4<&- & child=$!; exec 4<&-
umask 077
wait "$child"; r=$?; child=
l=; [ ! -f seal ] || read -r l <seal
[ "$l" = "# sbsync $NONCE" ] || die 83 "the archive did not arrive whole (tar ended with exit code $r)"
[ "$r" = 0 ] || die 89 "tar ended with exit code $r"
. ./seal
`

// pushStream carries a push as one archive over a live stream.
func (c *carrier) pushStream(ctx context.Context) error {
	h, err := c.facts.hasher(c.plan.bytes)
	if err != nil && c.opt.Verify {
		return err
	}
	nonce := script.Word()
	body := prepareScript(c.place, h) + c.facts.untar() + "NONCE=" + nonce + "\n" + removeScript(c.stale) + streamScript
	s := c.newSender()
	if c.opt.Verify {
		s.digests = &digestList{hasher: h}
	}
	feed := newFeed(func(w io.Writer) error { return c.writeArchive(w, s, h, nonce) })
	defer feed.stop()
	reply, err := c.session.Run(ctx, script.Script{Label: "push", Body: body, Input: feed, Heartbeat: true})
	if werr := feed.failure(); werr != nil && (err == nil || errors.Is(err, werr)) {
		return werr
	}
	if err != nil {
		return err
	}
	c.published(reply)
	return nil
}

// writeArchive writes everything that is sent, and the seal.
func (c *carrier) writeArchive(dst io.Writer, s *sender, h hasher, nonce string) error {
	w := tarball.NewWriter(dst)
	if err := c.writeParents(w); err != nil {
		return err
	}
	for _, e := range c.plan.send {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.writeEntry(w, s, e); err != nil {
			return err
		}
	}
	if c.plan.newRoot && c.plan.root.Type != tree.Dir {
		if err := c.writeEntry(w, s, c.plan.root); err != nil {
			return err
		}
	}
	if err := c.refuseFailures(s); err != nil {
		return err
	}
	if err := c.writeDirectories(w); err != nil {
		return err
	}
	var seal strings.Builder
	seal.WriteString("# sbsync " + nonce + "\n")
	if s.digests != nil {
		if err := s.digests.write(w, ""); err != nil {
			return err
		}
		seal.WriteString(verifyScript("") + c.countScript(s.written))
	} else {
		seal.WriteString(s.sizes.script(h, c.countScript(s.written)))
	}
	seal.WriteString(publishScript(c.place, c.facts, c.plan, s.failed))
	if err := w.WriteBytes(tarball.Header{Name: sealName, Type: tarball.RegularFile, Mode: 0o600}, []byte(seal.String())); err != nil {
		return err
	}
	c.phase("publish")
	return w.Close()
}

// writeParents writes the directories that exist in the target already but are
// needed in the staged tree.
func (c *carrier) writeParents(w archive) error {
	if c.plan.root.Type == tree.Dir {
		if err := w.WriteHeader(tarball.Header{Name: stagedTree, Type: tarball.Directory, Mode: 0o700}); err != nil {
			return err
		}
	}
	for _, d := range c.plan.stagedParents() {
		if err := w.WriteHeader(tarball.Header{Name: member(d), Type: tarball.Directory, Mode: 0o700}); err != nil {
			return err
		}
	}
	return nil
}

// writeEntry writes one entry. Directories are writable until all is in them.
func (c *carrier) writeEntry(w archive, s *sender, e tree.Entry) error {
	h := header(e)
	switch {
	case e.Type == tree.Dir:
		h.Mode = 0o700
		return w.WriteHeader(h)
	case e.Type == tree.Symlink:
		s.written++
		s.sizes.addLink(e.Link)
		return w.WriteHeader(h)
	}
	if first, ok := c.plan.hard[e.Path]; ok {
		if s.failed[first] {
			s.fail(e.Path, errFirstLink)
			return nil
		}
		h.Type, h.Link, h.Size = tarball.HardLink, member(first), 0
		s.written++
		s.sizes.again(first)
		s.progress(1, 0)
		return w.WriteHeader(h)
	}
	if s.skip[e.Path] {
		return nil
	}
	return s.file(w, e)
}

var errFirstLink = errors.New("the file that it is a hard link to could not be read")

// writeDirectories writes new directories once more, with their modes and
// times, the deepest first. GNU tar would delay both by itself; BusyBox 1.35
// sets modes at once and keeps no times.
func (c *carrier) writeDirectories(w archive) error {
	for i := len(c.plan.send) - 1; i >= 0; i-- {
		e := c.plan.send[i]
		if e.Type != tree.Dir {
			continue
		}
		if err := w.WriteHeader(c.finalDirectory(e)); err != nil {
			return err
		}
	}
	if c.plan.newRoot && c.plan.root.Type == tree.Dir {
		return w.WriteHeader(c.finalDirectory(c.plan.root))
	}
	return nil
}

// finalDirectory describes a directory as it is staged.
func (c *carrier) finalDirectory(e tree.Entry) tarball.Header {
	h := header(e)
	h.Mode = c.plan.stagedMode(e)
	return h
}
