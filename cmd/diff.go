package cmd

import (
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
)

func (a *app) diffCommand() *cobra.Command {
	flags := newTransferFlags()
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "diff [flags] FROM TO",
		Short: "Say what push or pull would do",
		Args:  positional("FROM", "TO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.diff(cmd, flags, args, exitCode)
		},
		ValidArgsFunction: a.completeEither,
	}
	flags.register(cmd.Flags())
	cmd.Flags().Lookup("dry-run").Hidden = true // it always is one
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 10 if something differs")
	completeFlagValues(cmd)
	return cmd
}

func (a *app) diff(cmd *cobra.Command, flags *transferFlags, args []string, exitCode bool) error {
	if err := a.loadConfig(cmd); err != nil {
		return err
	}
	dir, err := a.direction(args[0], args[1])
	if err != nil {
		return err
	}
	host, targetArg := args[0], args[1]
	if dir == transfer.Pull {
		host, targetArg = targetArg, host
	}
	if host == stdStream {
		return usageError("compare with a file", "stdin and stdout can't be compared")
	}
	t, err := a.parseTarget(targetArg)
	if err != nil {
		return err
	}
	opt, err := a.config.settle(cmd.Flags(), flags, t.named, t.Root)
	if err != nil {
		return err
	}
	if err := t.mayStart(flags.start, cmd.Flags().Changed("start")); err != nil {
		return err
	}
	opt.DryRun = true
	ops, err := a.operations(flags, dir, t, []string{host})
	if err != nil {
		return err
	}
	start := runStart{verb: cmd.Name(), direction: dir, listPlan: true}
	start.source, start.target = endpoints(flags, dir, t, []string{host})
	report, err := a.run(cmd.Context(), start, t, ops, opt)
	if err == nil && exitCode && happened(report) {
		return errDifferences
	}
	return err
}

// direction finds out which of the two arguments is the target.
func (a *app) direction(from, to string) (transfer.Direction, error) {
	fromTarget, toTarget := a.looksLikeTarget(from), a.looksLikeTarget(to)
	switch {
	case toTarget && !fromTarget:
		return transfer.Push, nil
	case fromTarget && !toTarget:
		return transfer.Pull, nil
	case fromTarget:
		return "", usageError("put ./ in front of the one that is a path on this machine",
			"%q and %q are both targets", from, to)
	}
	// Say what is wrong with the one that was probably meant to be a target.
	_, err := a.parseTarget(to)
	return "", err
}

// saysTarget says whether an argument that should be a path on this machine was
// written as a target. A bare name is no sign of that.
func (a *app) saysTarget(arg string) bool {
	return strings.Contains(arg, ":") && a.looksLikeTarget(arg)
}

func (a *app) looksLikeTarget(arg string) bool {
	if provider.IsHostPath(arg, runtime.GOOS) {
		return false
	}
	_, _, err := a.drivers.Parse(arg, runtime.GOOS, a.config.named())
	return err == nil
}
