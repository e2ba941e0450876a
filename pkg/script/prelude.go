package script

import (
	"strconv"
	"strings"
)

// inputMode says how a script gets its input.
type inputMode int

const (
	inputNone     inputMode = iota
	inputRaw                // bytes on stdin, ended by end-of-file
	inputBounded            // so many bytes on stdin; its end acknowledges the reply
	inputAck                // nothing on stdin; its end acknowledges the reply
	inputStdin              // base64 text on stdin, ended by end-of-file
	inputSentinel           // base64 lines on stdin, ended by a line "."
	inputArgs               // base64 text in the arguments
)

var inputFunctions = [...]string{
	inputNone:     `input() { :; }`,
	inputRaw:      `input() { cat; }`,
	inputBounded:  `input() { head -c ` + "%SIZE%" + `; }`,
	inputAck:      `input() { :; }`,
	inputStdin:    `input() { base64 -d; }`,
	inputSentinel: `input() { sed -n '/^\.$/q;p' | base64 -d; }`,
	inputArgs:     `input() { printf %s "$@" | base64 -d; }`,
}

// Exit codes of scripts, beside what the tools in them answer. They are chosen
// away from the ones that shells and tools use.
const (
	ExitGone      = 81 // what is to be read, or the staging directory, is not there
	ExitConflict  = 82 // the target is not what it was
	ExitShort     = 83 // the input did not arrive whole
	ExitDigest    = 84 // a digest differs
	ExitNotStaged = 85 // no staging directory could be made
	ExitPublish   = 86 // publishing failed half-way
	ExitNoBase64  = 87 // there is no base64
	ExitTool      = 89 // all arrived, but a tool failed (88 is tree.ExitNoList)
	ExitVanished  = 90 // a file that is to be read is gone, or may not be read
)

// prelude is what every script starts with. The environment must not change
// what tools do: TAR_OPTIONS and GZIP add options, CDPATH makes cd print.
// BusyBox 1.28 to 1.30 leave out links that point upwards unless
// EXTRACT_UNSAFE_SYMLINKS is set.
const prelude = `LC_ALL=C TZ=UTC0 EXTRACT_UNSAFE_SYMLINKS=1; export LC_ALL TZ EXTRACT_UNSAFE_SYMLINKS
unset TAR_OPTIONS GZIP POSIXLY_CORRECT CDPATH ENV BASH_ENV
umask 077; set -f
have() { command -v "$1" >/dev/null 2>&1; }
last() { tail -c 32768; }
have tail || last() { while IFS= read -r l || [ -n "$l" ]; do printf '%s\n' "$l"; done; }
die() { printf 'sbsync: %s\n' "$2" >&2; exit "$1"; }
`

// beat prints an empty line now and then, so that neither a proxy nor an idle
// deadline takes a command for dead that hashes or deletes silently
// (kubernetes/kubernetes#64949). If the shell is killed, it goes away with its
// next line.
const beat = `beat() {
	s=; trap 'kill $s 2>/dev/null; exit' TERM
	while :; do sleep 4 >/dev/null 2>&1 3>&- & s=$!; wait $s; printf '\n' || exit; done
}
`

// wrap puts a script's body between the marks that frame reads. The body's
// standard error is collected and printed after the reply, so that it cannot
// get into it where a provider merges the two. The outer shell keeps stdout and
// stderr open while the body reads its input: containerd stops delivering
// stdin once the process's stdout is closed (containerd#13934).
func wrap(body, word string, mode inputMode, size int64, earlyExit, heartbeat bool) string {
	var b strings.Builder
	b.WriteString(prelude)
	if heartbeat {
		b.WriteString(beat)
	}
	b.WriteString(strings.Replace(inputFunctions[mode], "%SIZE%", strconv.FormatInt(size, 10), 1))
	b.WriteString("\nexec 3>&1\nprintf '\\nsbsync-begin " + word + "\\n'\n")
	if heartbeat {
		b.WriteString("beat & h=$!\n")
	}
	b.WriteString("e=$( { (\n" + body + "\n) 3>&-; printf '\\nrc=%s' \"$?\" >&2; } 2>&1 >&3 | last)\n")
	if heartbeat {
		b.WriteString("kill $h 2>/dev/null; wait $h 2>/dev/null\n")
	}
	b.WriteString("rc=${e##*rc=}\n")
	b.WriteString("printf '\\nsbsync-err " + word + "\\n%s\\nsbsync-end " + word + " %s\\n' \"${e%rc=*}\" \"$rc\"\n")
	switch {
	case mode == inputAck || mode == inputBounded:
		b.WriteString("read -r ack\n")
	case earlyExit:
		// The end of the input was the end of what was sent, so it can't be
		// the acknowledgement too.
		b.WriteString("sleep 0.5 2>/dev/null || sleep 1\n")
	}
	b.WriteString("exit \"$rc\"\n")
	return b.String()
}
