package transfer

import (
	"bytes"

	"github.com/sbsync/sbsync/pkg/tarball"
	"github.com/sbsync/sbsync/pkg/tree"
)

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
func (k *packer) size() int64 {
	n := int64(k.buf.Len()) + k.pending
	if plain, ok := k.w.(*plainArchive); ok {
		n += plain.held()
	}
	return n
}

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
	k.add(entrySize(tree.Entry{Path: dir}))
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

func (k *packer) unzip() string {
	if k.gzip {
		return " | gzip -dc"
	}
	return ""
}
