package cmd

import (
	"github.com/spf13/cobra"

	"github.com/sbsync/sbsync/pkg/transfer"
)

func (a *app) pullCommand() *cobra.Command {
	flags := newTransferFlags()
	cmd := &cobra.Command{
		Use:   "pull [flags] TARGET DEST",
		Short: "Make a path here the counterpart of a file or tree in a sandbox",
		Args:  transferArgs(flags, "TARGET", "DEST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.transfer(cmd, flags, transfer.Pull, args[0], args[1:])
		},
		ValidArgsFunction: a.completeTargetThenHost,
	}
	flags.register(cmd.Flags())
	flags.registerOps(cmd)
	completeFlagValues(cmd)
	return cmd
}
