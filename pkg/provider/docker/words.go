package docker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/remote"
	"github.com/sbsync/sbsync/pkg/shell"
)

// maxArg is below Linux's limit (provider.DefaultMaxArg), since words that are
// not UTF-8 grow on the way.
const maxArg = 120 << 10

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
	var w shell.Words
	dir := ""
	if cmd.Dir != "" {
		dir = w.Add(cmd.Dir)
	}
	words := cmd.Args
	if len(cmd.Env) > 0 {
		words = []string{"env"}
		for _, name := range slices.Sorted(maps.Keys(cmd.Env)) {
			words = append(words, name+"="+cmd.Env[name])
		}
		words = append(words, cmd.Args...)
	}
	body := remote.Launch(s.word, dir) + "exec"
	for _, word := range words {
		if strings.IndexByte(word, 0) >= 0 {
			return usage("a word has a NUL byte")
		}
		if len(word) > provider.DefaultMaxArg {
			return opt, &provider.Error{Kind: provider.TooLarge, Op: "exec", Err: fmt.Errorf("a word has %d bytes, and %d is the most", len(word), provider.DefaultMaxArg)}
		}
		body += " " + w.Add(word)
	}
	text := w.Assignments() + body
	if len(text) > provider.DefaultMaxArg {
		return opt, &provider.Error{Kind: provider.TooLarge, Op: "exec", Err: fmt.Errorf("words that are not UTF-8 have %d bytes, and %d is the most", len(text), provider.DefaultMaxArg)}
	}
	opt.Cmd = append([]string{"sh", "-c", text, "sh"}, w.Args()...)
	return opt, nil
}
