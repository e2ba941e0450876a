package docker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/moby/moby/client"

	"github.com/sbsync/sbsync/pkg/provider"
)

// maxArg is below Linux's limit (provider.DefaultMaxArg), since words that are
// not UTF-8 grow on the way.
const maxArg = 120 << 10

// launch prints the word and the process id as the first line of stderr, enters
// the directory, and becomes the command. Without the directory it prints the
// word alone.
const launch = `echo "$1 $$" >&2
[ -z "$2" ] || cd "$2" || { echo "$1" >&2; exit 126; }
shift 2
exec "$@"`

// options describe an exec that launches cmd.
func (s *Sandbox) options(cmd provider.Command) (client.ExecCreateOptions, error) {
	opt := client.ExecCreateOptions{User: s.user, AttachStdin: cmd.Stdin != nil, AttachStdout: true, AttachStderr: true}
	usage := func(text string) (client.ExecCreateOptions, error) {
		return opt, provider.New(provider.Usage, "exec: "+text, "")
	}
	if len(cmd.Args) == 0 {
		return usage("no command given")
	}
	if cmd.Dir != "" && cmd.Dir[0] != '/' {
		return usage(fmt.Sprintf("directory %q is not absolute", cmd.Dir))
	}
	words := append([]string{s.word, cmd.Dir}, cmd.Args...)
	if len(cmd.Env) > 0 {
		pairs := []string{s.word, cmd.Dir, "env"}
		for _, name := range slices.Sorted(maps.Keys(cmd.Env)) {
			pairs = append(pairs, name+"="+cmd.Env[name])
		}
		words = append(pairs, cmd.Args...)
	}
	text := ""
	for i, w := range words {
		if strings.IndexByte(w, 0) >= 0 {
			return usage("a word has a NUL byte")
		}
		if len(w) > provider.DefaultMaxArg {
			return opt, &provider.Error{Kind: provider.TooLarge, Op: "exec", Err: fmt.Errorf("a word has %d bytes, and %d is the most", len(w), provider.DefaultMaxArg)}
		}
		if !utf8.ValidString(w) {
			text += fmt.Sprintf("w%d=$(printf '%s.'); w%d=${w%d%%.}\n", i, escape(w), i, i)
		}
	}
	if text != "" {
		words, text = unescape(words, text)
	}
	if text += launch; len(text) > provider.DefaultMaxArg {
		return opt, &provider.Error{Kind: provider.TooLarge, Op: "exec", Err: fmt.Errorf("words that are not UTF-8 have %d bytes, and %d is the most", len(text), provider.DefaultMaxArg)}
	}
	opt.Cmd = append([]string{"sh", "-c", text, "sh"}, words...)
	return opt, nil
}

// unescape completes a script that puts words that are not UTF-8, which the
// API's JSON cannot carry, into their places. The other words stay arguments.
func unescape(words []string, text string) ([]string, string) {
	var b strings.Builder
	b.WriteString(text + "set --")
	var args []string
	for i, w := range words {
		if utf8.ValidString(w) {
			args = append(args, w)
			fmt.Fprintf(&b, ` "${%d}"`, len(args))
		} else {
			fmt.Fprintf(&b, ` "$w%d"`, i)
		}
	}
	b.WriteString("\n")
	return args, b.String()
}

// escape writes a word as a format of printf, between single quotes.
func escape(word string) string {
	var b strings.Builder
	for _, c := range []byte(word) {
		switch {
		case c == '%':
			b.WriteString("%%")
		case c == '\\' || c == '\'' || c >= 0x80:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
