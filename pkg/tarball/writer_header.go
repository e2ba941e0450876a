package tarball

import (
	"fmt"
	"strings"

	"github.com/sbsync/sbsync/pkg/confine"
)

// writeHeader writes the records and the header of a member.
//
// Names that do not fit the header go into GNU long-name records rather than
// into PAX ones: both tars take those byte for byte, while GNU tar converts a
// PAX path from UTF-8 to the charset of its locale, and older BusyBoxes skip
// PAX records. Times and sizes go into PAX records too, for the fraction of a
// second and for readers that hold to POSIX; the header has them as well as it
// can, times rounded down, for BusyBox.
func (w *Writer) writeHeader(h Header) error {
	if w.err != nil {
		return w.err
	}
	if err := checkHeader(h); err != nil {
		return fmt.Errorf("write archive: %q: %w", h.Name, err)
	}
	prefix, name, fits := splitName(h.Name)
	if !fits {
		if err := w.longName(flagLongName, h.Name); err != nil {
			return err
		}
	}
	if len(h.Link) > lenLink {
		if err := w.longName(flagLongLink, h.Link); err != nil {
			return err
		}
	}
	if err := w.paxRecords(h); err != nil {
		return err
	}
	b, err := w.block()
	if err != nil {
		return err
	}
	copy(b[offName:offName+lenName], name)
	copy(b[offPrefix:offPrefix+lenPrefix], prefix)
	copy(b[offLink:offLink+lenLink], h.Link)
	fillHeader(b, byte(h.Type), h.Mode, h.Size, h.Time.Sec)
	return nil
}

// checkHeader refuses what must not or can't be written.
func checkHeader(h Header) error {
	if err := confine.CheckPath(h.Name); err != nil {
		return err
	}
	switch h.Type {
	case RegularFile, Directory:
		if h.Link != "" {
			return fmt.Errorf("%s with a link target", h.Type)
		}
	case HardLink:
		if err := confine.CheckPath(h.Link); err != nil {
			return err
		}
	case SymbolicLink:
		if h.Link == "" || strings.IndexByte(h.Link, 0) >= 0 {
			return fmt.Errorf("link target %q", h.Link)
		}
	default:
		return fmt.Errorf("%s %q", h.Type, byte(h.Type))
	}
	if h.Size < 0 {
		return fmt.Errorf("negative size")
	}
	if h.Time.Nsec < 0 || h.Time.Nsec > 999_999_999 {
		return fmt.Errorf("time with %d nanoseconds", h.Time.Nsec)
	}
	return nil
}

// splitName splits a name into the header's prefix and name fields. If it does
// not fit, name is what to put there for readers that know no better.
func splitName(full string) (prefix, name string, fits bool) {
	if len(full) <= lenName {
		return "", full, true
	}
	i := strings.LastIndexByte(full[:min(len(full), lenPrefix+1)], '/')
	if i <= 0 || len(full)-i-1 > lenName {
		return "", full[:lenName], false
	}
	return full[:i], full[i+1:], true
}

// maxRecord is the longest record of a name or link that BusyBox 1.35 takes
// (measured); a longer one is a "bad archive" to it.
const maxRecord = 4095

// longName writes a GNU record that holds the next member's name or link, with a
// NUL as GNU tar does, unless that would make it too long for BusyBox: the
// padding ends it as well.
func (w *Writer) longName(flag byte, s string) error {
	b, err := w.block()
	if err != nil {
		return err
	}
	copy(b[offName:], longLinkName)
	size := int64(len(s)) + 1
	if len(s) == maxRecord {
		size--
	}
	fillHeader(b, flag, 0o644, size, 0)
	w.record = append(append(w.record[:0], s...), 0)
	if err := w.append(w.record[:size]); err != nil {
		return err
	}
	return w.pad(size)
}

// paxRecords writes what of h the header can't hold, if anything.
func (w *Writer) paxRecords(h Header) error {
	w.record = w.record[:0]
	if h.Size > maxOctal {
		w.record = appendPAXSize(w.record, h.Size)
	}
	if h.Time.Nsec != 0 || h.Time.Sec < 0 || h.Time.Sec > maxOctal {
		w.record = appendPAXTime(w.record, h.Time)
	}
	if len(w.record) == 0 {
		return nil
	}
	b, err := w.block()
	if err != nil {
		return err
	}
	copy(b[offName:], paxHeaderName)
	fillHeader(b, flagPAX, 0o644, int64(len(w.record)), 0)
	if err := w.append(w.record); err != nil {
		return err
	}
	return w.pad(int64(len(w.record)))
}

// block appends a zeroed block. The buffer holds whole blocks whenever a
// header begins, so it has room for one or for none.
func (w *Writer) block() ([]byte, error) {
	space, err := w.space()
	if err != nil {
		return nil, err
	}
	w.n += blockSize
	b := space[:blockSize]
	clear(b)
	return b, nil
}

// fillHeader fills the numeric fields of a header and seals it.
func fillHeader(b []byte, flag byte, mode uint32, size, sec int64) {
	putOctal(b[offMode:offMode+lenMode], int64(mode&0o7777))
	putOctal(b[offUID:offUID+lenUID], 0)
	putOctal(b[offGID:offGID+lenGID], 0)
	putNumber(b[offSize:offSize+lenSize], size)
	putNumber(b[offTime:offTime+lenTime], sec)
	b[offType] = flag
	copy(b[offMagic:], magicUSTAR)
	copy(b[offVersion:], versionUSTAR)
	putChecksum(b)
}
