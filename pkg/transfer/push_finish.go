package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/tarball"
	"github.com/sbsync/sbsync/pkg/tree"
)

// finish sends the last command, with the current archive if nothing was sent
// before.
func (p *chunker) finish(ctx context.Context) error {
	nonce := script.Word()
	k, verify := p.pack, ""
	if k == nil {
		k = p.newPacker(true) // headers of directories, which become a tenth
	} else {
		id := strconv.Itoa(p.id)
		if err := p.s.digests.write(k.w, id); err != nil {
			return err
		}
		verify = verifyScript(id)
	}
	defer putBuffer(k.buf)
	if err := p.writeFinish(k, nonce); err != nil {
		return err
	}
	data, err := k.close()
	if err != nil {
		return err
	}
	source := "input \"$@\"" + k.unzip()
	var input io.Reader = bytes.NewReader(data)
	if limit, _ := p.c.session.MaxInput(); limit > 0 && int64(len(data)) > limit {
		if err := p.upload(ctx, data, limit); err != nil {
			return err
		}
		source, input = "cat tail"+k.unzip(), nil
	}
	body := "NONCE=" + nonce + "\ntrap 'cd /; unstage' EXIT\ntrap 'exit 143' TERM INT HUP\n" + p.enter(p.sent == 0) +
		source + " | unpack end || die 83 'the archive did not arrive whole'\n" +
		"l=; [ ! -f seal ] || read -r l <seal\n[ \"$l\" = \"# sbsync $NONCE\" ] || die 83 'the archive did not arrive whole'\n" + verify + ". ./seal\n"
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
		body := fmt.Sprintf("%sinput \"$@\" | dd of=tail conv=notrunc bs=%d seek=%d 2>/dev/null || die 83 'a part did not arrive'\n[ $(($(wc -c <tail))) -ge %d ] || die 83 'a part did not arrive whole'\n",
			p.enter(p.sent == 0), pieceAlign, offset/pieceAlign, offset+int64(len(part)))
		err := p.c.again(ctx, "upload", func(ctx context.Context) error {
			_, err := p.c.session.Run(ctx, script.Script{Label: "upload", Body: body, Input: bytes.NewReader(part)})
			if err == nil {
				p.sent++
				p.staged.Store(true)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
