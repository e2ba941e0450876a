package ssh

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/remote"
	"github.com/sbsync/sbsync/pkg/shell"
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

// commandLine makes the one string that an exec request carries.
func commandLine(cmd provider.Command, word string) (string, error) {
	if len(cmd.Args) == 0 {
		return "", usage("exec: no command given", "")
	}
	var b strings.Builder
	dir := ""
	if cmd.Dir != "" {
		if cmd.Dir[0] != '/' {
			return "", usage(fmt.Sprintf("exec: directory %q is not absolute", cmd.Dir), "")
		}
		dir = shell.Quote(cmd.Dir)
	}
	b.WriteString(remote.Launch(word, dir) + "exec")
	if len(cmd.Env) > 0 {
		b.WriteString(" env")
		for _, name := range slices.Sorted(maps.Keys(cmd.Env)) {
			b.WriteString(" " + shell.Quote(name+"="+cmd.Env[name]))
		}
	}
	for _, arg := range cmd.Args {
		b.WriteString(" " + shell.Quote(arg))
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

// shellWord quotes for people: only where it must be.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,") == "" {
		return s
	}
	return shell.Quote(s)
}

func usage(text, hint string) *provider.Error { return provider.New(provider.Usage, text, hint) }
