package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tree"
)

// facts are what one look into the sandbox told about a path, and about the
// tools there.
type facts struct {
	tar       string // "gnu", "busybox", "other", "" if there is none
	tools     map[string]bool
	gnuTouch  bool
	uid       string
	stdin     string // "ok", "lost"; "" if not tried
	kind      byte   // of the path: 'd', 'f', 'l' (a link, but not to a directory), 's', '-' if nothing is there
	dir       string // physical path of the directory: the path itself, or the deepest one that exists above it
	path      string // that was looked at, absolute
	fixed     bool   // the directory there cannot be moved: a mount point, or its parent may not be written
	missing   int    // elements of the path below dir that are not there
	blocked   string // something above the path that is not a directory
	roots     []string
	leftovers []leftover
	listing   *tree.Listing
}

// leftover is a scratch directory of another run.
type leftover struct {
	path  string // absolute
	aged  bool   // untouched for an hour
	empty bool   // nothing is in it, not even a whole owner: its run was killed right after making it
	holds bool   // holds what is missing in its place
	owner string
}

// question says what to look at.
type question struct {
	path    string   // absolute, clean
	roots   []string // directories whose physical paths are wanted
	list    bool     // list the tree there
	file    bool     // only a file matters there: a directory is not listed
	only    []string // list just these entries of the directory; nil means all
	resolve bool     // if the path is a link to a file, look at the file
	probe   string   // text whose arrival on stdin is tested
}

// toolNames are the commands whose presence the engine cares about.
const toolNames = "base64 gzip zstd sha256sum openssl shasum cksum xargs find stat readlink touch head tail dd sed cut cmp mv rm df"

const inspectScript = `
fact() { printf '%s %s\000' "$1" "$2"; }
physical() { p=$(cd -P -- "$1" >/dev/null 2>&1 && pwd -P && echo .) && p=${p%??}; }
leftovers() {
	set +f
	for s in "${1%/}"/.sbsync-????????????????; do
		[ -d "$s" ] && [ ! -L "$s" ] && [ -O "$s" ] || continue
		older() { [ -n "$(find "$s" -prune -mmin +$1 2>/dev/null)" ]; }
		q=; if [ -f "$s/pid" ]; then read -r q <"$s/pid"; fi
		if [ -n "$q" ] && kill -0 "$q" 2>/dev/null && ! older 1440; then continue; fi
		a=new; if older 60; then a=old; fi
		case $(cd -- "$s" && echo *) in '*' | draft) a=empty ;; esac
		o=; if [ -f "$s/owner" ]; then read -r o <"$s/owner"; fi
		w=no
		for f in "$s"/old*.to; do
			if [ ! -e "$s/done" ] && { [ -e "${f%.to}" ] || [ -L "${f%.to}" ]; }; then
				t=$(cat "$f" && echo .) && t=${t%.}
				[ -e "$t" ] || [ -L "$t" ] || w=old
			fi
		done
		fact leftover "$a $w"; fact owner "$o"; fact at "$s"
	done
	set -f
}
x=$(input "$@")
[ -z "$P" ] || if [ "$x" = "$P" ]; then fact stdin ok; else fact stdin lost; fi
t=
if have tar; then
	case $(tar --version 2>&1 </dev/null) in *GNU*) t=gnu ;; *[Bb]usy[Bb]ox*) t=busybox ;; *) t=other ;; esac
fi
fact tar "$t"
if [ "$t" != gnu ] && have touch; then
	case $(touch --version 2>&1 </dev/null) in *GNU*) fact touch gnu ;; esac
fi
l=; for c in ` + toolNames + `; do if have $c; then l="$l $c"; fi; done
fact tools "$l"
fact uid "$(id -u 2>/dev/null)"
if [ -n "$R" ] && [ -L "$D" ] && [ ! -d "$D" ]; then
	p=$(readlink -f "$D") || die 81 "$D is a link to nothing"
	D=$p
fi
fact path "$D"
a=$D b= m=0
while [ ! -d "$a" ]; do
	if [ "$a" != "$D" ] && { [ -e "$a" ] || [ -L "$a" ]; }; then b=$a; fi
	a=${a%/*}; m=$((m+1)); [ -n "$a" ] || a=/
done
k=-
if [ -d "$D" ]; then k=d
elif [ -L "$D" ] && { [ ! -e "$D" ] || [ -f "$D" ]; }; then k=l
elif [ -f "$D" ]; then k=f
elif [ -e "$D" ]; then k=s; fi
physical "$a" || die 81 "cannot enter $a"
fact kind $k; fact missing $m; fact dir "$p"; fact blocked "$b"
leftovers "$p"
if [ $k = d ] && [ "$p" != / ]; then
	a=${p%/*}; a=${a:-/}
	if [ -w "$a" ] && [ "$(stat -c %d "$a" 2>/dev/null)" = "$(stat -c %d "$p" 2>/dev/null)" ]; then leftovers "$a"; else fact fixed yes; fi
elif [ $k = d ]; then fact fixed yes; fi
`

// inspect looks at a path in the sandbox. One call, unless output is limited.
func inspect(ctx context.Context, s *script.Session, q question) (*facts, error) {
	var b strings.Builder
	resolve := ""
	if q.resolve {
		resolve = "yes"
	}
	b.WriteString("D=" + shell.Quote(q.path) + " P=" + shell.Quote(q.probe) + " R=" + resolve + "\n")
	if q.list {
		b.WriteString(tree.ListFunctions)
	}
	b.WriteString(inspectScript)
	for _, r := range q.roots {
		b.WriteString("if physical " + shell.Quote(r) + "; then fact root \"$p\"; else fact root ''; fi\n")
	}
	b.WriteString("printf 'listing\\000'\n")
	if q.list {
		b.WriteString(listCommands(q))
	}
	// It is not called idempotent: what it is the first step of is repeated as a
	// whole, and each repetition in a repetition multiplies the waiting.
	sc := script.Script{Label: "inspect", Body: b.String()}
	if q.probe != "" {
		sc.Input, sc.InputSize = strings.NewReader(q.probe), int64(len(q.probe))
	}
	text, err := s.Report(ctx, sc)
	if err != nil {
		return nil, err
	}
	return parseFacts(text)
}

// listCommands are the commands that list the tree at $D, which may also be a
// single file.
func listCommands(q question) string {
	var b strings.Builder
	b.WriteString("if [ $k = d ]; then cd -P -- \"$D\" || die 81 \"cannot enter $D\"\n")
	switch {
	case q.file:
		b.WriteString(":\n")
	case q.only == nil:
		b.WriteString("list_tree\n")
	default:
		b.WriteString("set --\nfor f in")
		for _, name := range q.only {
			b.WriteString(" " + shell.Quote("./"+name))
		}
		b.WriteString("; do if [ -e \"$f\" ] || [ -L \"$f\" ]; then set -- \"$@\" \"$f\"; fi; done\n")
		b.WriteString("if [ $# -gt 0 ]; then list_tree \"$@\"; else printf 'find\\nend 0\\n\\000'; fi\n")
	}
	b.WriteString("elif [ $k != - ]; then cd -P -- \"${D%/*}/\" && list_tree \"./${D##*/}\"; fi\n")
	return b.String()
}

func parseFacts(text []byte) (*facts, error) {
	f := &facts{tools: map[string]bool{}}
	for {
		rec, rest, ok := bytes.Cut(text, []byte{0})
		if !ok {
			return nil, provider.New(provider.Integrity, "inspect: malformed reply", "")
		}
		text = rest
		if string(rec) == "listing" {
			break
		}
		key, value, _ := strings.Cut(string(rec), " ")
		f.set(key, value)
	}
	if f.dir == "" || !path.IsAbs(f.dir) {
		return nil, provider.New(provider.Integrity, "inspect: malformed reply", "")
	}
	// What is to be removed is named by the sandbox: it has to look like ours.
	f.leftovers = slices.DeleteFunc(f.leftovers, func(l leftover) bool {
		at := path.Dir(l.path)
		return !tree.IsScratch(path.Base(l.path)) || at != f.dir && at != path.Dir(f.dir)
	})
	if len(text) == 0 {
		return f, nil
	}
	var err error
	f.listing, err = tree.Parse(text)
	if err != nil {
		return nil, &provider.Error{Kind: provider.Integrity, Op: "inspect", Err: err}
	}
	return f, nil
}

func (f *facts) set(key, value string) {
	switch key {
	case "tar":
		f.tar = value
	case "touch":
		f.gnuTouch = value == "gnu"
	case "tools":
		for name := range strings.FieldsSeq(value) {
			f.tools[name] = true
		}
	case "uid":
		f.uid = value
	case "stdin":
		f.stdin = value
	case "kind":
		f.kind = (value + "-")[0]
	case "dir":
		f.dir = value
	case "path":
		f.path = value
	case "missing":
		f.missing, _ = strconv.Atoi(value)
	case "blocked":
		f.blocked = value
	case "root":
		f.roots = append(f.roots, value)
	case "fixed":
		f.fixed = true
	case "leftover":
		age, holds, _ := strings.Cut(value, " ")
		f.leftovers = append(f.leftovers, leftover{aged: age == "old", empty: age == "empty", holds: holds == "old"})
	case "owner", "at":
		if n := len(f.leftovers); n == 0 {
			return
		} else if key == "owner" {
			f.leftovers[n-1].owner = value
		} else {
			f.leftovers[n-1].path = value
		}
	}
}

// dead says whether the run that made it has ended.
func (l leftover) dead() bool { return l.empty || confine.OwnerDead(l.owner, l.age()) }

// age is what is known of how long a leftover has not been touched.
func (l leftover) age() time.Duration {
	if l.aged {
		return time.Hour + time.Minute
	}
	return 0
}

// connect inspects the sandbox for the first time and finds out whether stdin
// really arrives, where the provider says that it does: it was seen to be
// dropped silently.
func connect(ctx context.Context, s *script.Session, q question) (*facts, error) {
	if s.Streams() || !s.UsesStdin() {
		return inspect(ctx, s, q)
	}
	for attempt := 0; ; attempt++ {
		q.probe = script.Word()
		f, err := inspect(ctx, s, q)
		if provider.KindOf(err) == provider.Timeout && attempt == 0 {
			// A reader whose input never comes and never ends.
			s.StdinLost()
			q.probe = ""
			return inspect(ctx, s, q)
		}
		if err != nil || f.stdin == "ok" {
			return f, err
		}
		if attempt == 1 {
			s.StdinLost()
			return f, nil
		}
	}
}

// touchNs says whether the sandbox's touch takes fractions of a second.
// BusyBox 1.35 does not.
func (f *facts) touchNs() bool { return f.tar == "gnu" || f.gnuTouch }

// require refuses a sandbox that lacks a tool, and names all that it lacks.
func (f *facts) require(what string, tools ...string) error {
	var missing []string
	for _, name := range tools {
		if !f.tools[name] {
			missing = append(missing, name)
		}
	}
	if missing == nil {
		return nil
	}
	return &provider.Error{Kind: provider.Missing, Op: what, Err: fmt.Errorf("the sandbox has no %s", strings.Join(missing, ", ")),
		Hint: "install it there, or use an image that has it (BusyBox is enough)"}
}

// hasher is a command that prints digests, one a line, for the files named in
// its arguments.
type hasher struct {
	command string
	trim    string // cuts the names off its output
	sum     bool   // POSIX cksum instead of SHA-256
}

// hasher picks the tool for so many bytes. OpenSSL uses the processor's SHA
// instructions, coreutils 9.1 does not: 64 MiB took 50 ms against 430.
func (f *facts) hasher(size int64) (hasher, error) {
	switch {
	case f.tools["openssl"] && (size > 4<<20 || !f.tools["sha256sum"]):
		return hasher{command: "openssl dgst -sha256 -r", trim: "cut -c1-64"}, nil
	case f.tools["sha256sum"]:
		return hasher{command: "sha256sum", trim: "cut -c1-64"}, nil
	case f.tools["shasum"]:
		return hasher{command: "shasum -a 256", trim: "cut -c1-64"}, nil
	case f.tools["cksum"]:
		return hasher{command: "cksum", trim: `sed 's/^\([0-9]* [0-9]*\).*/\1/'`, sum: true}, nil
	}
	return hasher{}, &provider.Error{Kind: provider.Missing, Op: "verify",
		Err:  errors.New("the sandbox has none of sha256sum, openssl, shasum, cksum"),
		Hint: "install one of them in the sandbox"}
}

// checkRoots says whether the physical directory lies below a declared root,
// as the sandbox sees them both.
func (f *facts) checkRoots(q question) error {
	if len(q.roots) == 0 {
		return nil
	}
	for i, r := range f.roots {
		switch {
		case i >= len(q.roots):
		case r == "/" || r != "" && (f.dir == r || strings.HasPrefix(f.dir, r+"/")):
			return nil
		case r == "" && tree.Within(q.path, path.Clean(q.roots[i])):
			return nil // no such directory: the path is it or is to be in it, and no link is on the way
		}
	}
	return &provider.Error{Kind: provider.Confined,
		Err:  fmt.Errorf("%q leads to %q, outside the declared root", q.path, f.dir),
		Hint: "a link on the way leaves the root; name the real directory, or declare it with --root"}
}
