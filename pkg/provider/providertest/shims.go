package providertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// shims returns the scripts that stand in front of tools, by tool.
func (f *Fake) shims() (map[string]string, error) {
	scripts := make(map[string]string)
	if f.opts.Base64Wrap != "" {
		script, err := f.base64Shim()
		if err != nil {
			return nil, err
		}
		scripts["base64"] = script
	}
	if f.opts.SpaceLeft > 0 {
		if err := f.spaceShims(scripts); err != nil {
			return nil, err
		}
	}
	return scripts, nil
}

// real returns shell words that run the tool itself, and what a script needs
// to define to use them.
func (f *Fake) real(name string) (string, error) {
	if f.opts.BusyBox {
		file, err := findTool("busybox")
		return file + " " + name, err
	}
	return findTool(name)
}

// base64Shim encodes as Options.Base64Wrap says. Like old BusyBox's and like
// macOS's, it has no -w.
func (f *Fake) base64Shim() (string, error) {
	base64, err := f.real("base64")
	if err != nil {
		return "", err
	}
	sed, err := f.real("sed")
	if err != nil {
		return "", err
	}
	encode := map[string]string{
		WrapLF:   `exec ` + base64 + ` "$@"`,
		WrapCRLF: `cr=$(printf '\r'); ` + base64 + ` "$@" | ` + sed + ` "s/\$/$cr/"`,
		WrapBare: `text=$(` + base64 + ` "$@") && printf %s "$text"`,
	}[f.opts.Base64Wrap]
	if encode == "" {
		return "", fmt.Errorf("fake: base64_wrap %q is none of %s, %s, %s", f.opts.Base64Wrap, WrapLF, WrapCRLF, WrapBare)
	}
	return "#!" + f.shell + `
for word; do
	case $word in
	-d | -D | --decode) exec ` + base64 + ` "$@" ;;
	-w* | --wrap*) echo "base64: unrecognized option: w" >&2; exit 1 ;;
	esac
done
` + encode + "\n", nil
}

// spaceShims adds scripts that count what is stored, and fail when it is more
// than Options.SpaceLeft. Each holds its output or input in a file of the
// fake's until it knows; that is bounded by the space left.
func (f *Fake) spaceShims(scripts map[string]string) error {
	dir := filepath.Join(f.state, "space")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := f.own(dir); err != nil {
		return err
	}
	head := "#!" + f.shell + "\nspace=" + dir + "\nlimit=" + fmt.Sprint(f.opts.SpaceLeft) + "\n"
	for _, tool := range []string{"cat", "head", "wc", "rm"} {
		file, err := f.real(tool)
		if err != nil {
			return err
		}
		head += tool + "() { " + file + ` "$@"; }` + "\n"
	}
	bodies := map[string]string{"dd": ddShim, "tar": tarShim}
	for _, name := range []string{"cat", "head", "tail", "base64", "gzip", "gunzip", "zstd"} {
		bodies[name] = outputShim
	}
	for name, body := range bodies {
		real, err := f.real(name)
		if err != nil {
			continue // this machine lacks it, so the sandbox does
		}
		before := real
		if wrapped, ok := scripts[name]; ok {
			before = filepath.Join(f.state, "wrapped-"+name)
			if err := writeProgram(before, wrapped); err != nil {
				return err
			}
		}
		scripts[name] = head + spacePrelude + strings.NewReplacer("REAL", before, "NAME", name).Replace(body)
	}
	return nil
}

// spacePrelude: left is how many bytes can still be stored; store FILE counts
// those of FILE and fails if they are too many.
const spacePrelude = `
used=0
[ -f "$space/used" ] && read used <"$space/used"
left=$((limit - used))
buf=$space/buffer.$$
store() {
	n=$(wc -c <"$1")
	if [ "$n" -gt "$left" ]; then
		echo "$limit" >"$space/used"
		echo >>"$space/full"
		return 1
	fi
	echo $((used + n)) >"$space/used"
}
full() {
	echo "$1: No space left on device" >&2
	rm -f "$buf" "$buf.rc"
	exit "$2"
}
`

// outputShim is for what writes its standard output: it counts if that is a
// file.
const outputShim = `
[ -f /dev/fd/1 ] || exec REAL "$@"
{ REAL "$@"; echo $? >"$buf.rc"; } | head -c $((left + 1)) >"$buf"
if ! store "$buf"; then
	head -c "$left" "$buf"
	full "NAME: write error" 1
fi
cat "$buf"
read rc <"$buf.rc"
rm -f "$buf" "$buf.rc"
exit "$rc"
`

// ddShim counts dd's input if the output is a file. It reads no more than
// count blocks, since what follows is for others.
const ddShim = `
of= if= bs=512 count=
for word; do
	case $word in
	of=*) of=${word#of=} ;;
	if=*) if=${word#if=} ;;
	bs=*) bs=${word#bs=} ;;
	count=*) count=${word#count=} ;;
	skip=*) exec REAL "$@" ;;
	esac
done
[ -n "$of" ] || [ -f /dev/fd/1 ] || exec REAL "$@"
case $of in /dev/*) exec REAL "$@" ;; esac
case $bs in
*[kK]) bs=$((${bs%?} * 1024)) ;;
*M) bs=$((${bs%?} * 1048576)) ;;
esac
want=$((left + 1))
[ -n "$count" ] && [ $((bs * count)) -lt "$want" ] && want=$((bs * count))
[ "$want" -gt 0 ] || exec REAL "$@"
if [ -n "$if" ]; then exec <"$if"; fi
head -c "$want" >"$buf"
if ! store "$buf"; then
	head -c "$left" "$buf" | REAL "$@" if=/dev/stdin 2>/dev/null
	full "dd: error writing '$of'" 1
fi
REAL "$@" if=/dev/stdin <"$buf"
rc=$?
rm -f "$buf"
exit $rc
`

// tarShim counts the archive that is extracted.
const tarShim = `
extract= file=- last= first=1
for word; do
	case $word in
	--extract | --get) extract=1 ;;
	--file=*) file=${word#--file=} ;;
	--*) ;;
	-*x*) extract=1 ;;
	-*) ;;
	*x*) [ -n "$first" ] && extract=1 ;;
	esac
	case $last in
	--*) ;;
	-*f) file=$word ;;
	*f) [ "$first" = 2 ] && file=$word ;;
	esac
	last=$word
	if [ "$first" = 1 ]; then first=2; else first=; fi
done
[ -n "$extract" ] || exec REAL "$@"
if [ "$file" != - ]; then
	store "$file" || full "tar: Cannot write" 2
	exec REAL "$@"
fi
head -c $((left + 1)) >"$buf"
if ! store "$buf"; then
	head -c "$left" "$buf" | REAL "$@" 2>/dev/null
	full "tar: Cannot write" 2
fi
REAL "$@" <"$buf"
rc=$?
rm -f "$buf"
exit $rc
`
