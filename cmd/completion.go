package cmd

import (
	"context"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sbsync/sbsync/pkg/provider"
)

// shells are the ones that completion scripts can be written for.
func shells() []string { return []string{"bash", "zsh", "fish", "powershell"} }

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Print a completion script for bash, zsh, fish or powershell",
		Args:      positional("SHELL"),
		ValidArgs: shells(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeCompletion(cmd.Root(), a.Out, args[0])
		},
	}
}

// CompletionFiles maps each shell to the name that its script has in
// completions/, which is the name the shell looks for.
func CompletionFiles() map[string]string {
	return map[string]string{"bash": "sbsync.bash", "zsh": "_sbsync", "fish": "sbsync.fish", "powershell": "sbsync.ps1"}
}

// WriteCompletion writes the completion script for a shell: bash, zsh, fish or
// powershell.
func WriteCompletion(w io.Writer, shell string) error {
	a := &app{Stdio: Stdio{Out: w, Err: w}, drivers: drivers()}
	return writeCompletion(a.rootCommand(), w, shell)
}

func writeCompletion(root *cobra.Command, w io.Writer, shell string) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(w, true)
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	case "powershell":
		return root.GenPowerShellCompletionWithDesc(w)
	}
	return usageError(didYouMean(shell, shells(), ""), "%q is not one of %s", shell, strings.Join(shells(), ", "))
}

// completion is what a function for ValidArgsFunction returns.
type completion = []cobra.Completion

func (a *app) completeHostThenTarget(cmd *cobra.Command, args []string, word string) (completion, cobra.ShellCompDirective) {
	if len(args) == 0 && !cmd.Flags().Changed("ops") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeTarget(word)
}

func (a *app) completeTargetThenHost(_ *cobra.Command, args []string, word string) (completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeTarget(word)
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// completeEither leaves a word to the shell if no target begins with it.
func (a *app) completeEither(_ *cobra.Command, _ []string, word string) (completion, cobra.ShellCompDirective) {
	if words, directive := a.completeTarget(word); len(words) > 0 && word != "" {
		return words, directive
	}
	return nil, cobra.ShellCompDirectiveDefault
}

func (a *app) completeOnlyTarget(_ *cobra.Command, args []string, word string) (completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeTarget(word)
}

// completeTarget offers providers and named targets, and directories for
// local:. Other providers may be asked for their sandboxes.
func (a *app) completeTarget(word string) (completion, cobra.ShellCompDirective) {
	const noSpace = cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	if path, ok := strings.CutPrefix(word, "local:"); ok {
		return withPrefix("local:", localDirs(path)), noSpace
	}
	if provider.IsHostPath(word, runtime.GOOS) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if name, ref, ok := strings.Cut(word, ":"); ok {
		return a.completeRef(name, ref), noSpace
	}
	var words completion
	if c, err := loadConfig(a.out.configFile); err == nil {
		for name, t := range c.targets {
			words = append(words, cobra.CompletionWithDesc(name, t.Provider+" "+t.Ref))
		}
	}
	for _, d := range a.drivers.Drivers() {
		words = append(words, cobra.CompletionWithDesc(d.Name()+":", d.Summary()))
	}
	words = slices.DeleteFunc(words, func(s string) bool { return !strings.HasPrefix(s, word) })
	slices.Sort(words)
	return words, noSpace
}

// completeTime is how long somebody who pressed Tab is kept waiting.
const completeTime = 2 * time.Second

// completeRef offers the sandboxes of a driver that knows them. A reference
// that has its path already has an end.
func (a *app) completeRef(name, ref string) completion {
	if strings.Contains(ref, ":/") || !a.drivers.Has(name) {
		return nil
	}
	driver, err := a.drivers.Lookup(name)
	if err != nil {
		return nil
	}
	completer, ok := driver.(provider.Completer)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	refs, err := completer.Complete(ctx, ref)
	if err != nil {
		return nil
	}
	var words completion
	for _, r := range refs {
		words = append(words, name+":"+r+":/")
	}
	slices.Sort(words)
	return words
}

// completeFlagValues offers the words of all flags that take one of a few, and
// nothing where a file makes no sense.
func completeFlagValues(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		var words completion
		if choice, ok := flag.Value.(interface{ words() []string }); ok {
			words = choice.words()
		} else if flag.Name == "ops" || flag.Name == "host-root" {
			return // the shell offers files
		}
		// It fails only for flags that do not exist or are registered twice.
		cmd.RegisterFlagCompletionFunc(flag.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	})
}

func withPrefix(prefix string, words []string) completion {
	for i := range words {
		words[i] = prefix + words[i]
	}
	return words
}
