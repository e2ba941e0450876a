package tree

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ListFunctions are shell functions for [Parse]'s format. `list_tree` prints
// the current directory and what is below it, or with arguments the current
// directory itself and what is at and below the arguments, each a path that
// begins with "./". GNU find does it alone; elsewhere find and stat do it
// together; without find the shell walks. Links need readlink there.
//
// The records of find and stat have no character that cannot be in a name but
// NUL, which stat cannot print. A path that find or the walk makes never holds
// "//", so that ends the name, and the rest of the record holds no newline.
const ListFunctions = `
statfmt='%n//%f %s %y %d %i %h %Z'
show_links() { for f; do if [ -L "$f" ]; then printf '%s//' "$f"; readlink -n -- "$f" 2>/dev/null || readlink -n "$f"; printf '\000'; fi; done; }
walk() {
	for f in "$1"/* "$1"/.[!.]* "$1"/..?*; do
		if [ -e "$f" ] || [ -L "$f" ]; then set -- "$@" "$f"; fi
	done
	shift; [ $# -gt 0 ] || return 0
	if [ "$walker" = links ]; then show_links "$@"; else stat -c "$statfmt" -- "$@" || bad=1; fi
	for f; do
		if [ -d "$f" ] && [ ! -L "$f" ]; then
			if [ -r "$f" ] && [ -x "$f" ]; then walk "$f"; else bad=1; printf 'find: %s: Permission denied\n' "$f" >&2; fi
		fi
	done
}
list_tree() {
	if find . -prune -printf '' >/dev/null 2>&1; then
		printf 'find\n'
		if [ $# -gt 0 ]; then find . -prune -printf '%y %m %s %T@ %D %i %n %p\0%l\0'; else set -- .; fi
		{ e=$(find "$@" -printf '%y %m %s %T@ %D %i %n %p\0%l\0' 2>&1 >&6); r=$?; } 6>&1
		printf 'end %s\n%s\0' "$r" "$e"
		return
	fi
	have stat && have readlink || die 88 'neither GNU find nor stat and readlink found'
	stat -c "$statfmt" . >/dev/null || die 88 'stat does not know -c'
	printf 'stat\n'
	{ e=$(stat_tree "$@" 2>&1 >&6); r=$?; } 6>&1
	printf '//end %s\n%s' "$r" "$e"
}
stat_tree() {
	if [ $# -gt 0 ]; then stat -c "$statfmt" .; fi
	bad=0
	if have find; then
		[ $# -gt 0 ] || set -- .
		find "$@" -exec stat -c "$statfmt" {} + || bad=1
		printf '//links\n'
		find "$@" -type l -exec sh -c 'for f; do printf "%s//" "$f"; readlink -n "$f"; printf "\000"; done' sh {} + || bad=1
	else
		set +f
		if [ $# -gt 0 ]; then
			stat -c "$statfmt" -- "$@"
			walker=stat; for d; do if [ -d "$d" ] && [ ! -L "$d" ]; then walk "$d"; fi; done
			printf '//links\n'
			show_links "$@"
			walker=links; for d; do if [ -d "$d" ] && [ ! -L "$d" ]; then walk "$d"; fi; done
		else
			stat -c "$statfmt" .
			walker=stat; walk .
			printf '//links\n'
			walker=links; walk .
		fi
	fi
	return $bad
}
`

// ExitNoList is the exit code of a script with ListFunctions when the sandbox
// has nothing to list a tree with.
const ExitNoList = 88

// MaxListedPath bounds a path in a listing, which comes from the sandbox.
const MaxListedPath = 64 << 10

var errListing = errors.New("malformed listing")

// Listing is what [Parse] makes of a listing.
type Listing struct {
	Snapshot
	// Incomplete says that the sandbox could not read all of the tree.
	Incomplete bool
	// Trouble is what the sandbox's tools said of that.
	Trouble string
}

// Parse reads what list_tree printed. It trusts nothing in it: entries whose
// paths are not clean relative paths, of which there are two, or whose parent
// is missing or not a directory are an error. A snapshot's Root is the current
// directory of list_tree.
func Parse(text []byte) (*Listing, error) {
	kind, body, ok := bytes.Cut(text, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("%w: no format line", errListing)
	}
	l := &Listing{}
	var err error
	switch string(kind) {
	case "find":
		err = l.parseFind(body)
	case "stat":
		err = l.parseStat(body)
	default:
		err = fmt.Errorf("%w: unknown format %.20q", errListing, kind)
	}
	if err != nil {
		return nil, err
	}
	return l, l.finish()
}

func (l *Listing) parseFind(b []byte) error {
	for {
		rec, rest, ok := bytes.Cut(b, []byte{0})
		if !ok {
			return fmt.Errorf("%w: no end", errListing)
		}
		if end, ok := strings.CutPrefix(string(rec), "end "); ok {
			code, text, _ := strings.Cut(end, "\n")
			l.Incomplete, l.Trouble = code != "0", strings.TrimSpace(text)
			return nil
		}
		link, rest, ok := bytes.Cut(rest, []byte{0})
		if !ok {
			return fmt.Errorf("%w: no end", errListing)
		}
		b = rest
		f := strings.SplitN(string(rec), " ", 8)
		if len(f) != 8 {
			return fmt.Errorf("%w: record %.60q", errListing, rec)
		}
		var e Entry
		e.setType(f[0])
		n := numbers{}
		e.Mode = uint32(n.parse(f[1], 8)) & 07777
		e.Size = int64(n.parse(f[2], 10))
		e.Time = n.time(f[3])
		e.Dev, e.Ino, e.Nlink = n.parse(f[4], 10), n.parse(f[5], 10), uint32(n.parse(f[6], 10))
		if n.bad {
			return fmt.Errorf("%w: record %.60q", errListing, rec)
		}
		e.Link = string(link)
		if err := l.add(e, f[7]); err != nil {
			return err
		}
	}
}

// setType takes find's %y letter.
func (e *Entry) setType(letter string) {
	switch letter {
	case "f":
		e.Type = File
	case "d":
		e.Type = Dir
	case "l":
		e.Type = Symlink
	case "p":
		e.Type, e.Special = Special, "fifo"
	case "s":
		e.Type, e.Special = Special, "socket"
	default:
		e.Type, e.Special = Special, "device"
	}
}

func (l *Listing) parseStat(b []byte) error {
	links := map[string]string{}
	inLinks := false
	for {
		name, rest, ok := bytes.Cut(b, []byte("//"))
		if !ok {
			return fmt.Errorf("%w: no end", errListing)
		}
		end := byte('\n')
		if inLinks && len(name) > 0 {
			end = 0
		}
		rec, rest, ok := bytes.Cut(rest, []byte{end})
		if !ok {
			return fmt.Errorf("%w: no end", errListing)
		}
		b = rest
		switch {
		case len(name) == 0 && string(rec) == "links":
			inLinks = true
		case len(name) == 0 && strings.HasPrefix(string(rec), "end "):
			l.Incomplete, l.Trouble = string(rec) != "end 0", strings.TrimSpace(string(b))
			return l.setLinks(links)
		case inLinks:
			links[strings.TrimPrefix(string(name), "./")] = string(rec)
		default:
			if err := l.addStat(string(name), string(rec)); err != nil {
				return err
			}
		}
	}
}

// Types in the raw mode that stat's %f prints, as Linux has them.
const (
	statType = 0o170000
	statFIFO = 0o010000
	statDir  = 0o040000
	statFile = 0o100000
	statLink = 0o120000
	statSock = 0o140000
)

// addStat takes a record "%f %s %y %d %i %h %Z", where %y has blanks itself.
func (l *Listing) addStat(name, rec string) error {
	f := strings.Fields(rec)
	if len(f) != 9 {
		return fmt.Errorf("%w: record %.60q", errListing, rec)
	}
	n := numbers{}
	raw := n.parse(f[0], 16)
	e := Entry{Mode: uint32(raw & 07777), Size: int64(n.parse(f[1], 10)), Time: n.date(f[2] + " " + f[3])}
	e.Dev, e.Ino, e.Nlink = n.parse(f[5], 10), n.parse(f[6], 10), uint32(n.parse(f[7], 10))
	e.Changed = n.time(f[8]).Sec
	if n.bad {
		return fmt.Errorf("%w: record %.60q", errListing, rec)
	}
	switch raw & statType {
	case statFile:
		e.Type = File
	case statDir:
		e.Type = Dir
	case statLink:
		e.Type = Symlink
	case statFIFO:
		e.Type, e.Special = Special, "fifo"
	case statSock:
		e.Type, e.Special = Special, "socket"
	default:
		e.Type, e.Special = Special, "device"
	}
	return l.add(e, name)
}

func (l *Listing) setLinks(links map[string]string) error {
	for i := range l.Entries {
		if e := &l.Entries[i]; e.Type == Symlink {
			target, ok := links[e.Path]
			if !ok || target == "" {
				return fmt.Errorf("%w: no target of link %.60q", errListing, e.Path)
			}
			e.Link = target
		}
	}
	return nil
}

func (l *Listing) add(e Entry, name string) error {
	if e.Type != Symlink {
		e.Link = ""
	}
	if e.Type != File {
		e.Size = 0
	}
	if name == "." {
		l.Root = e
		return nil
	}
	path, ok := strings.CutPrefix(name, "./")
	if !ok || len(path) > MaxListedPath || !cleanPath(path) {
		return fmt.Errorf("%w: path %.80q", errListing, name)
	}
	e.Path = path
	l.Entries = append(l.Entries, e)
	return nil
}

func cleanPath(p string) bool {
	for elem := range strings.SplitSeq(p, "/") {
		if elem == "" || elem == "." || elem == ".." {
			return false
		}
	}
	return strings.IndexByte(p, 0) < 0
}

// finish sorts the entries, checks the tree's shape and leaves out scratch.
func (l *Listing) finish() error {
	slices.SortFunc(l.Entries, func(a, b Entry) int { return ComparePaths(a.Path, b.Path) })
	kept := l.Entries[:0]
	var dirs []string // open directories on the way to the current entry
	scratch := ""
	for i, e := range l.Entries {
		if i > 0 && e.Path == l.Entries[i-1].Path {
			return fmt.Errorf("%w: %.80q twice", errListing, e.Path)
		}
		if scratch != "" && Within(e.Path, scratch) {
			continue
		}
		if IsScratch(Base(e.Path)) {
			scratch = e.Path
			l.Leftovers++
			continue
		}
		for len(dirs) > 0 && !Within(e.Path, dirs[len(dirs)-1]) {
			dirs = dirs[:len(dirs)-1]
		}
		parent := Parent(e.Path)
		if parent != "" && (len(dirs) == 0 || dirs[len(dirs)-1] != parent) {
			if l.Incomplete { // its directory vanished while it was being listed
				continue
			}
			return fmt.Errorf("%w: %.80q is in no directory", errListing, e.Path)
		}
		if e.Type == Dir {
			dirs = append(dirs, e.Path)
		}
		kept = append(kept, e)
	}
	l.Entries = kept
	return nil
}

// numbers parses fields and remembers whether one was wrong.
type numbers struct{ bad bool }

func (n *numbers) parse(s string, base int) uint64 {
	v, err := strconv.ParseUint(s, base, 63)
	if err != nil {
		n.bad = true
	}
	return v
}

// time takes find's %T@: seconds and a fraction that always counts upwards,
// also before 1970 (GNU find prints -2.5 for 1.5 seconds before).
func (n *numbers) time(s string) Time {
	whole, frac, _ := strings.Cut(s, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		n.bad = true
	}
	return Time{sec, n.nanoseconds(frac)}
}

func (n *numbers) nanoseconds(frac string) int32 {
	if frac == "" {
		return 0
	}
	frac = (frac + "000000000")[:9]
	ns, err := strconv.ParseUint(frac, 10, 32)
	if err != nil {
		n.bad = true
	}
	return int32(ns)
}

// date takes stat's %y without its time zone, which is UTC.
func (n *numbers) date(s string) Time {
	whole, frac, _ := strings.Cut(s, ".")
	t, err := time.Parse(time.DateTime, whole)
	if err != nil {
		n.bad = true
	}
	return Time{t.Unix(), n.nanoseconds(frac)}
}
