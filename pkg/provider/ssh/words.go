package ssh

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
)

const (
	// maxLine is the longest command line: sshd hands it to the login shell as
	// one argument, so Linux's MAX_ARG_STRLEN holds for all words together.
	maxLine = provider.DefaultMaxArg
	// What is promised leaves room for quotes, the directory and the
	// environment.
	maxArg  = 100 << 10
	maxArgs = 112 << 10
)

// commandLine makes the one string that an exec request carries. The first line
// of its stderr is the word and the command's process id; if the directory can't
// be entered, the second is the word alone.
func commandLine(cmd provider.Command, word string) (string, error) {
	if len(cmd.Args) == 0 {
		return "", usage("exec: no command given", "")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "echo %s $$ >&2; ", word)
	if cmd.Dir != "" {
		if cmd.Dir[0] != '/' {
			return "", usage(fmt.Sprintf("exec: directory %q is not absolute", cmd.Dir), "")
		}
		fmt.Fprintf(&b, "cd %s || { echo %s >&2; exit 126; }; ", quote(cmd.Dir), word)
	}
	b.WriteString("exec")
	if len(cmd.Env) > 0 {
		b.WriteString(" env")
		for _, name := range slices.Sorted(maps.Keys(cmd.Env)) {
			b.WriteString(" " + quote(name+"="+cmd.Env[name]))
		}
	}
	for _, arg := range cmd.Args {
		b.WriteString(" " + quote(arg))
	}
	line := b.String()
	if strings.IndexByte(line, 0) >= 0 {
		return "", usage("exec: a word has a NUL byte", "")
	}
	if len(line) > maxLine {
		return "", &provider.Error{Kind: provider.TooLarge, Op: "exec",
			Err: fmt.Errorf("the command line has %d bytes, and %d is the most that a host takes", len(line), maxLine)}
	}
	return line, nil
}

// quote makes one word of a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// shellWord quotes for people: only where it must be.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,") == "" {
		return s
	}
	return quote(s)
}

func usage(text, hint string) *provider.Error { return provider.New(provider.Usage, text, hint) }
