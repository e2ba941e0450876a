package cmd

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
)

// The help texts are written by hand, one screen each, one file a command or
// topic. Tests hold them against the flags and the exit codes, and run their
// examples.
//
//go:embed help/*.txt
var helpFiles embed.FS

// helpText returns the help of a command or topic.
func helpText(cmd *cobra.Command) string {
	text, err := fs.ReadFile(helpFiles, "help/"+cmd.Name()+".txt")
	if err != nil {
		return cmd.Short + "\n"
	}
	return string(text)
}

func (a *app) showHelp(cmd *cobra.Command) { fmt.Fprint(a.Out, helpText(cmd)) }

// helpTopics are pages that belong to no command.
func helpTopics() []*cobra.Command {
	var topics []*cobra.Command
	for _, t := range [...][2]string{
		{"targets", "How to name a place in a sandbox"},
		{"flags", "All flags of push, pull and diff"},
		{"config", "Config files and the environment"},
		{"exit-codes", "What the exit codes mean"},
	} {
		topics = append(topics, &cobra.Command{Use: t[0], Short: t[1]})
	}
	return topics
}

func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Show help",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				a.showHelp(cmd.Root())
				return nil
			}
			var known []string
			for _, c := range cmd.Root().Commands() {
				if known = append(known, c.Name()); c.Name() == args[0] {
					a.showHelp(c)
					return nil
				}
			}
			return usageError(didYouMean(args[0], known, "known: "+strings.Join(known, ", ")), "no help on %q", args[0])
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) (completion, cobra.ShellCompDirective) {
			var words completion
			if len(args) == 0 {
				for _, c := range cmd.Root().Commands() {
					if !c.Hidden && strings.HasPrefix(c.Name(), word) {
						words = append(words, cobra.CompletionWithDesc(c.Name(), c.Short))
					}
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
