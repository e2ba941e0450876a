package cmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sbsync/sbsync/pkg/provider"
)

// usageError returns an error of kind Usage. The hint may be empty.
func usageError(hint, format string, args ...any) error {
	return &provider.Error{Kind: provider.Usage, Err: fmt.Errorf(format, args...), Hint: hint}
}

// didYouMean returns a hint, or otherwise if nothing is near to word.
func didYouMean(word string, known []string, otherwise string) string {
	if s := provider.Suggest(word, known); s != "" {
		return fmt.Sprintf("did you mean %q?", s)
	}
	return otherwise
}

// verbArgs refuses what is not a verb. It is reached only by words that cobra
// found no command for.
func verbArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var verbs []string
	for _, c := range cmd.Commands() {
		if c.Runnable() {
			verbs = append(verbs, c.Name())
		}
	}
	return usageError(didYouMean(args[0], verbs, "the commands are "+strings.Join(verbs, ", ")),
		"unknown command %q", args[0])
}

func noVerb(cmd *cobra.Command) error {
	fmt.Fprint(cmd.ErrOrStderr(), helpText(cmd))
	return usageError("", "no command given")
}

// positional checks that a command got its arguments, none of them empty.
func positional(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return checkArgs(cmd, args, names) }
}

func checkArgs(cmd *cobra.Command, args, names []string) error {
	hint := fmt.Sprintf("usage: %s; see sbsync help %s", cmd.UseLine(), cmd.Name())
	if len(args) < len(names) {
		return usageError(hint, "missing argument %s", names[len(args)])
	}
	if len(args) > len(names) {
		return usageError(hint, "unexpected argument %q", args[len(names)])
	}
	for i, arg := range args {
		if arg == "" {
			return usageError(hint, "%s is empty", names[i])
		}
	}
	return nil
}

// flagError turns pflag's errors into usage errors with a way out.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	help := fmt.Sprintf("see sbsync help %s and sbsync help flags", cmd.Name())
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		hint := help
		if s := provider.Suggest(unknown.GetSpecifiedName(), known); s != "" {
			hint = fmt.Sprintf("did you mean --%s?", s)
		}
		return usageError(hint, "unknown flag --%s", unknown.GetSpecifiedName())
	case errors.As(err, &value):
		return usageError(hintOr(value.Unwrap(), help), "--%s %q: %w", value.GetFlag().Name, value.GetValue(),
			plainCause(value.Unwrap()))
	}
	return usageError(help, "%w", err)
}

func hintOr(err error, otherwise string) string {
	if hint := provider.HintOf(err); hint != "" {
		return hint
	}
	return otherwise
}

// plainCause strips strconv's way of naming its own functions.
func plainCause(err error) error {
	if cause := errors.Unwrap(err); cause != nil && strings.HasPrefix(err.Error(), "strconv.") {
		return cause
	}
	return err
}
