package transfer

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tree"
)

// Names inside the staging directory.
const (
	stagedTree = "t"    // what will be published
	sealName   = "seal" // the script that verifies and publishes; its arrival proves that the archive is whole
)

// receiveFunctions are the shell functions of everything that receives. $S is
// the staging directory, $T the target.
//
// What has to leave its place before something else can take it is kept in the
// staging directory as oldN, and oldN.to says where it belongs. No staging
// directory is removed before what is missing in its place was put back, be it
// by the run itself, by its clean-up, or by the next run if it was killed; but
// once claim/ is called done, publishing was complete, and it is rubbish.
// Only places below the directory that holds the staging directory count: the
// files in it may be anybody's.
//
// A publishing script and a clean-up must not meet: the first to make claim/
// goes ahead.
//
// xargs reads from a pipe: BusyBox 1.35 forks applets without exec, and when
// one exits, its copy of the buffered standard input moves the offset of a file
// back, so that names get lost and torn.
const receiveFunctions = `
keep() {
	printf %s "$2" >"$1.to" || return 1
	mv -f -- "$2" "$1" || { rm -f -- "$1.to"; return 1; }
}
there() { [ -e "$1" ] || [ -L "$1" ]; }
putback() {
	[ ! -e "$S/done" ] || return 0
	set +f
	for b in "$S"/old*.to; do
		there "${b%.to}" && t=$(cat "$b" && echo .) || continue
		t=${t%.}
		case $t in "${S%/*}"/*) ;; *) continue ;; esac
		there "$t" || mv -f -- "${b%.to}" "$t" || return 1
	done
	set -f
}
unstage() {
	putback || return 1
	rm -rf -- "$S" 2>/dev/null || { chmod -R u+rwx -- "$S" 2>/dev/null; rm -rf -- "$S"; }
}
stage() {
	[ -d "${S%/*}/" ] || die 81 "${S%/*}: no such directory"
	if e=$(mkdir -- "$S" 2>&1); then printf '%s\n' "$OWNER" >"$S/draft" && mv -f -- "$S/draft" "$S/owner"
	else [ -d "$S" ] || die 85 "no staging directory can be made in ${S%/*}: $e"; fi
}
hashes() { [ ! -s "$1" ] || cat "$1" | xargs -0 $HASH | trim; }
hashes_singly() { [ ! -s "$1" ] || cat "$1" | xargs -0 -n1 sh -c "$HASH <\"\$1\"" sh | trim; }
`

// prepareScript sets the variables of a receiving script.
func prepareScript(pl place, h hasher) string {
	var b strings.Builder
	set := func(name, value string) { b.WriteString(name + "=" + shell.Quote(value) + "\n") }
	set("S", pl.stage())
	set("T", pl.target)
	set("OWNER", confine.Owner())
	set("HASH", h.command)
	b.WriteString("trim() { " + h.trim + "; }\n")
	return b.String() + receiveFunctions
}

// removeScript removes leftovers of dead runs. An empty one may be that of a
// run that is just beginning, and then stays.
func removeScript(stale []leftover) string {
	var b strings.Builder
	for _, l := range stale {
		if l.empty {
			fmt.Fprintf(&b, "(S=%s; rm -f -- \"$S/draft\"; rmdir -- \"$S\" 2>/dev/null)\n", shell.Quote(l.path))
		} else {
			fmt.Fprintf(&b, "(S=%s; unstage)\n", shell.Quote(l.path))
		}
	}
	return b.String()
}

// publisher writes the shell text that publishes a staged tree.
type publisher struct {
	strings.Builder
	pl      place
	touchNs bool // touch -d takes fractions of a second
}

// publishScript returns the commands that put a staged tree into its place.
// They run in the staging directory, and once they do no signal stops them:
// between two renames the target may be gone. failed are staged entries that
// must not be published.
func publishScript(pl place, f *facts, p *plan, failed map[string]bool) string {
	w := &publisher{pl: pl, touchNs: f.touchNs()}
	w.WriteString(`trap '' TERM INT HUP PIPE
broken() { die 86 "publishing failed: $1"; }
mkdir claim 2>/dev/null && printf '%s\n' "$$" >claim/pid || broken 'the staging directory is being removed'
`)
	for _, e := range p.send {
		if failed[e.Path] {
			w.WriteString("rm -f -- " + shell.Quote(path.Join(stagedTree, e.Path)) + "\n")
		}
	}
	if f.tar != "gnu" {
		w.directories(p)
	}
	if p.newRoot {
		w.root(p)
	} else {
		w.merge(p, failed)
	}
	w.WriteString("mv -f -- claim done\n") // takes no space, where a new file might
	return w.String()
}

// directories gives new directories their times and modes, the deepest first.
// GNU tar does that itself. BusyBox sets times before it fills a directory, and
// without being root leaves the modes of directories that exist alone.
func (w *publisher) directories(p *plan) {
	var dirs []tree.Entry
	if p.newRoot && p.root.Type == tree.Dir {
		dirs = append(dirs, p.root)
	}
	for _, e := range p.send {
		if e.Type == tree.Dir {
			dirs = append(dirs, e)
		}
	}
	b := batch{w: w, dir: "."}
	for _, e := range slices.Backward(dirs) {
		b.add(w.touch(e.Time), member(e.Path))
	}
	for _, e := range slices.Backward(dirs) {
		b.add(fmt.Sprintf("chmod %04o --", p.stagedMode(e)), member(e.Path))
	}
	b.flush()
}

// root publishes the staged tree as a whole.
func (w *publisher) root(p *plan) {
	final, unique := shell.Quote(w.pl.target), w.pl.word
	late := ""
	if p.root.Type == tree.Dir && p.root.Mode&0o200 == 0 {
		late = fmt.Sprintf("chmod %04o -- %s\n", p.root.Mode, final)
	}
	// A directory that appears at the target meanwhile would take the staged
	// tree into itself; under its unique name that is noticed and undone.
	w.WriteString("mv -f -- " + stagedTree + " " + unique + " || broken staging\n")
	w.WriteString("misplaced() { [ -d " + final + " ] && there " + final + "/" + unique + "; }\n")
	switch {
	case !w.pl.replace:
		if parent := path.Dir(w.pl.target); parent != w.pl.base {
			w.parents(parent)
		}
		w.WriteString("if there " + final + "; then die 82 'the target came into being meanwhile'; fi\n")
		w.WriteString("mv -f -- " + unique + " " + final + " || { unparent; broken 'the target cannot be made'; }\n")
		w.WriteString("if misplaced; then rm -rf -- " + final + "/" + unique + "; die 82 'the target came into being meanwhile'; fi\n")
	case p.root.Type != tree.Dir && !w.pl.directory:
		w.WriteString("if [ -d " + final + " ]; then die 82 'the target became a directory meanwhile'; fi\n")
		w.WriteString("mv -f -- " + unique + " " + final + " || broken 'the target cannot be replaced'\n")
		w.WriteString("if misplaced; then rm -rf -- " + final + "/" + unique + "; die 82 'the target became a directory meanwhile'; fi\n")
	default:
		w.swap(p, final, unique)
	}
	w.WriteString(late)
}

// parents makes the missing directories above the target, and the function
// that removes them again.
func (w *publisher) parents(parent string) {
	var made []string
	for d := parent; d != w.pl.base; d = path.Dir(d) {
		made = append(made, shell.Quote(d))
	}
	w.WriteString("unparent() { rmdir -- " + strings.Join(made, " ") + " 2>/dev/null; }\n")
	w.WriteString("(umask 022; mkdir -p -- " + shell.Quote(parent) + ") || { unparent; broken 'the directories above the target cannot be made'; }\n")
}

// swap puts the staged tree in place of the old one. Where the old one cannot
// be moved (a mount point, a parent that may not be written) its children are
// replaced, and the reply says so.
func (w *publisher) swap(p *plan, final, unique string) {
	moved := "keep old " + final + " 2>/dev/null"
	if w.pl.inside {
		moved = "false"
	}
	children := ""
	if p.root.Type == tree.Dir {
		children = fmt.Sprintf(`elif [ -d %[1]s ]; then
	printf 'atomic no\n'
	set +f
	n=0
	for x in %[1]s/* %[1]s/.[!.]* %[1]s/..?*; do
		case ${x##*/} in .sbsync-????????????????) continue ;; esac
		if there "$x"; then
			n=$((n+1)); keep "old$n" "$x" || { putback; broken 'the target cannot be emptied'; }
		fi
	done
	for x in %[2]s/* %[2]s/.[!.]* %[2]s/..?*; do
		if there "$x"; then
			mv -f -- "$x" %[1]s/ || { rm -rf -- %[1]s/"${x##*/}"; withdraw; broken 'the target cannot be filled'; }
		fi
	done
	set -f
	chmod %04[3]o -- %[1]s 2>/dev/null
`, final, unique, p.root.Mode)
	}
	fmt.Fprintf(w, `withdraw() {
	for x in %[1]s/* %[1]s/.[!.]* %[1]s/..?*; do
		case ${x##*/} in .sbsync-????????????????) continue ;; esac
		if there "$x"; then mv -f -- "$x" %[2]s/ || rm -rf -- "$x"; fi
	done
	putback
}
if %[3]s; then
	mv -f -- %[2]s %[1]s || { putback; broken 'the target cannot be replaced'; }
	if misplaced; then rm -rf -- %[1]s/%[2]s; broken 'the target came back meanwhile'; fi
%[4]selse
	broken 'the target cannot be replaced'
fi
`, final, unique, moved, children)
}

// merge publishes entry by entry, in batches for each directory.
func (w *publisher) merge(p *plan, failed map[string]bool) {
	b := batch{w: w}
	// at is where a step finds its entry: a single file in its directory.
	at := func(rel string) string {
		if b.dir = w.pl.target; p.root.Type != tree.Dir {
			b.dir, rel = path.Dir(w.pl.target), path.Base(w.pl.target)
		}
		return rel
	}
	for i, s := range p.steps {
		if failed[s.path] && s.kind != stepRemove && s.kind != stepRemoveDir {
			continue
		}
		switch s.kind {
		case stepMove:
			dir := tree.Parent(s.path)
			b.dir = path.Join(stagedTree, dir)
			b.add("mv -f --", tree.Base(s.path), w.pl.in(dir)+"/")
			continue
		case stepConvert:
			b.flush()
			from, to := shell.Quote(path.Join(stagedTree, s.path)), shell.Quote(w.pl.in(s.path))
			fmt.Fprintf(w, "keep old%d %s && { mv -f -- %s %s || { putback; false; }; } || broken %s\n", i, to, from, to, to)
			continue
		case stepUnlock:
			b.add("chmod u+rwx --", at(s.path))
		case stepChmod:
			b.add(fmt.Sprintf("chmod %04o --", s.mode), at(s.path))
		case stepTouch:
			b.add(w.touch(s.time), at(s.path))
		case stepRemove:
			b.add("rm -f --", at(s.path))
		case stepRemoveDir:
			b.add("rmdir --", at(s.path))
		}
	}
	b.flush()
}

// touch is the command that gives its arguments a time.
func (w *publisher) touch(t tree.Time) string {
	if w.touchNs {
		return "touch -c -m -d @" + seconds(t) + " --"
	}
	sec := t.Sec
	if sec == -1 {
		sec = -2 // BusyBox takes the result -1 for an error (measured with 1.35)
	}
	return "touch -c -m -d @" + strconv.FormatInt(sec, 10) + " --"
}

// seconds is a time as a decimal number, of which a sign is the sign of all: 0.5
// seconds before 1970 are -0.5, which tree.Time has as -1 and 500,000,000.
func seconds(t tree.Time) string {
	if t.Sec < 0 && t.Nsec > 0 {
		return fmt.Sprintf("-%d.%09d", -(t.Sec + 1), 1_000_000_000-t.Nsec)
	}
	return fmt.Sprintf("%d.%09d", t.Sec, t.Nsec)
}

// batch collects names that one command can take together: same command, same
// directory, and less than maxBatch bytes of names.
type batch struct {
	w       *publisher
	dir     string // where names are, set by the caller before add
	at      string // dir of what is collected
	command string
	last    string // final argument
	names   []string
	size    int
}

// maxBatch keeps a command's arguments well below the smallest ARG_MAX that
// POSIX systems of today have (128 KiB).
const maxBatch = 64 << 10

func (b *batch) add(command, name string, last ...string) {
	end := ""
	if len(last) > 0 {
		end = last[0]
	}
	if len(b.names) > 0 && (command != b.command || b.dir != b.at || end != b.last || b.size+len(name) > maxBatch) {
		b.flush()
	}
	b.command, b.at, b.last = command, b.dir, end
	b.names = append(b.names, name)
	b.size += len(name) + 8
}

func (b *batch) flush() {
	if len(b.names) == 0 {
		return
	}
	out := []byte("(cd -P -- " + shell.Quote(b.at) + " >/dev/null && " + b.command)
	for _, name := range b.names {
		out = append(out, ' ')
		out = shell.AppendQuoted(out, "./"+name)
	}
	if b.last != "" {
		out = append(out, ' ')
		out = shell.AppendQuoted(out, b.last)
	}
	out = append(out, ") || broken "...)
	out = shell.AppendQuoted(out, strings.TrimSuffix(b.command, " --")+" "+describe(b.names))
	b.w.Write(append(out, '\n'))
	b.names, b.size = b.names[:0], 0
}
