package cmd

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo is the output of `sbsync version --json`.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Time     string `json:"time"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  positional(),
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if a.out.json {
				return printJSON(a.Out, v)
			}
			_, err := fmt.Fprintln(a.Out, v)
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

// buildVersion is what the Go toolchain wrote into the program.
func buildVersion() versionInfo {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v versionInfo) String() string {
	text := "sbsync " + v.Version
	if v.Revision != "" {
		text += " " + v.Revision[:min(12, len(v.Revision))]
		if v.Modified {
			text += "+modified"
		}
	}
	return fmt.Sprintf("%s %s %s/%s", text, v.Go, v.OS, v.Arch)
}
