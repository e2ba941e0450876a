package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// providerInfo is a provider in the output of `sbsync providers --json`.
type providerInfo struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
	Target  string   `json:"target"`
	Summary string   `json:"summary"`
}

func (a *app) providersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "providers",
		Short: "List the kinds of sandboxes this program knows",
		Args:  positional(),
		RunE: func(*cobra.Command, []string) error {
			for _, d := range a.drivers.Drivers() {
				info := providerInfo{Name: d.Name(), Aliases: append([]string{}, d.Aliases()...), Target: d.Name() + ":/path", Summary: d.Summary()}
				if d.HasRef() {
					info.Target = d.Name() + ":REF:/path"
				}
				if err := a.printProvider(info); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

func (a *app) printProvider(info providerInfo) error {
	if a.out.json {
		return printJSON(a.Out, info)
	}
	text := info.Summary
	if len(info.Aliases) > 0 {
		text += " (also " + strings.Join(info.Aliases, ", ") + ")"
	}
	_, err := fmt.Fprintf(a.Out, "%-24s %s\n", info.Target, text)
	return err
}
