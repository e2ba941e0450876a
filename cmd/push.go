package cmd

import (
	"github.com/spf13/cobra"

	"github.com/sbsync/sbsync/pkg/transfer"
)

func (a *app) pushCommand() *cobra.Command {
	flags := newTransferFlags()
	cmd := &cobra.Command{
		Use:   "push [flags] SOURCE TARGET",
		Short: "Make a path in a sandbox the counterpart of a file or tree here",
		Args:  transferArgs(flags, "SOURCE", "TARGET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.transfer(cmd, flags, transfer.Push, args[len(args)-1], args[:len(args)-1])
		},
		ValidArgsFunction: a.completeHostThenTarget,
	}
	flags.register(cmd.Flags())
	flags.registerOps(cmd)
	completeFlagValues(cmd)
	return cmd
}
