package cmd

import (
	"github.com/spf13/cobra"

	"github.com/sbsync/sbsync/pkg/transfer"
)

func (a *app) probeCommand() *cobra.Command {
	opt := transfer.NewOptions()
	cmd := &cobra.Command{
		Use:   "probe [flags] TARGET",
		Short: "Say what a target has and which route would be taken, and why",
		Args:  positional("TARGET"),
		RunE: func(*cobra.Command, []string) error {
			return usageError("", "not yet")
		},
		ValidArgsFunction: a.completeOnlyTarget,
	}
	registerRoute(cmd.Flags(), &opt.Route)
	completeFlagValues(cmd)
	return cmd
}
