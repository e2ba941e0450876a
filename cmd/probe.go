package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// probeInfo is the output of `sbsync probe --json`.
type probeInfo struct {
	Event        string         `json:"event"` // "probe"
	Target       string         `json:"target"`
	Is           string         `json:"is"`
	UID          string         `json:"uid"`
	Tar          string         `json:"tar"`
	Tools        []string       `json:"tools"`
	Missing      []string       `json:"missing"`
	Stdin        string         `json:"stdin"`
	Capabilities capabilityInfo `json:"capabilities"`
	Routes       []routeInfo    `json:"routes"`
}

type capabilityInfo struct {
	Stdin         bool     `json:"stdin"`
	HalfClose     bool     `json:"halfClose"`
	MergedOutput  bool     `json:"mergedOutput"`
	TextOutput    bool     `json:"textOutput"`
	MaxStdin      int64    `json:"maxStdin"`
	MaxStdout     int64    `json:"maxStdout"`
	MaxArg        int      `json:"maxArg"`
	MaxArgs       int      `json:"maxArgs"`
	MaxConcurrent int      `json:"maxConcurrent"`
	Stream        bool     `json:"stream"`
	Files         bool     `json:"files"`
	Sync          bool     `json:"sync"`
	Notes         []string `json:"notes"`
}

type routeInfo struct {
	Route  string `json:"route"`
	OK     bool   `json:"ok"`
	Chosen bool   `json:"chosen"`
	Why    string `json:"why"`
}

func (a *app) probeCommand() *cobra.Command {
	opt := transfer.NewOptions()
	cmd := &cobra.Command{
		Use:   "probe [flags] TARGET",
		Short: "Say what a target has and which route would be taken, and why",
		Args:  positional("TARGET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.probe(cmd, &opt, args[0])
		},
		ValidArgsFunction: a.completeOnlyTarget,
	}
	registerProbe(cmd.Flags(), &opt)
	completeFlagValues(cmd)
	return cmd
}

// registerProbe adds those flags of a transfer that bear on a probe.
func registerProbe(fs *pflag.FlagSet, opt *transfer.Options) {
	registerRoute(fs, &opt.Route)
	registerPatience(fs, opt)
}

func (a *app) probe(cmd *cobra.Command, opt *transfer.Options, arg string) error {
	if err := a.loadConfig(cmd); err != nil {
		return err
	}
	t, err := a.parseTarget(arg)
	if err != nil {
		return err
	}
	if err := a.config.apply(cmd.Flags()); err != nil {
		return err
	}
	if err := checkPatience(*opt); err != nil {
		return err
	}
	wanted := a.config.route(cmd.Flags(), t.named, opt.Route)
	opt.Route = transfer.Auto
	report, err := a.probeTarget(cmd.Context(), t, *opt)
	if err != nil {
		return err
	}
	refused := choose(report.Routes, wanted)
	if err := a.printProbe(newProbeInfo(t, report)); err != nil {
		return err
	}
	return refused
}

func (a *app) probeTarget(ctx context.Context, t *target, opt transfer.Options) (*transfer.ProbeReport, error) {
	p := a.newPrinter()
	p.Log(a.config.describe())
	opt.Observer = p
	sandbox, err := a.open(ctx, t, p.Log, nil)
	if err != nil {
		return nil, err
	}
	defer sandbox.Sandbox.Close()
	return transfer.Probe(ctx, sandbox, t.Path, opt)
}

// choose marks the route that --route asks for instead of the best one. It is
// an error if that one can't be taken, or if none can.
func choose(routes []transfer.RouteVerdict, wanted transfer.Route) error {
	var refused error = provider.New(provider.Missing, "no route can be taken", "the sandbox needs at least sh and base64")
	for i := range routes {
		v := &routes[i]
		if wanted != transfer.Auto {
			v.Chosen = v.OK && v.Route == wanted
		}
		if v.Chosen {
			refused = nil
		} else if v.Route == wanted {
			refused = &provider.Error{Kind: provider.NotImplemented, Err: errors.New("route " + string(wanted) + ": " + v.Why)}
		}
	}
	return refused
}

func newProbeInfo(t *target, r *transfer.ProbeReport) probeInfo {
	c := r.Capabilities
	info := probeInfo{Event: "probe", Target: t.String(), Is: r.Target, UID: r.UID, Tar: r.Tar, Tools: append([]string{}, r.Tools...),
		Missing: append([]string{}, r.Missing...), Stdin: r.Stdin, Capabilities: capabilityInfo{Stdin: c.Stdin, HalfClose: c.HalfClose,
			MergedOutput: c.MergedOutput, TextOutput: c.TextOutput, MaxStdin: c.MaxStdin, MaxStdout: c.MaxStdout, MaxArg: c.MaxArg,
			MaxArgs: c.MaxArgs, MaxConcurrent: c.MaxConcurrent, Stream: c.Stream, Files: c.Files, Sync: c.Sync,
			Notes: append([]string{}, c.Notes...)}}
	for _, v := range r.Routes {
		info.Routes = append(info.Routes, routeInfo{string(v.Route), v.OK, v.Chosen, v.Why})
	}
	return info
}

func (a *app) printProbe(info probeInfo) error {
	if a.out.json {
		return printJSON(a.Out, info)
	}
	_, err := io.WriteString(a.Out, info.String())
	return err
}

// wrap breaks text at spaces into lines of at most width bytes, if it can. Runs
// of spaces within a line stay.
func wrap(text string, width int) []string {
	var lines []string
	for len(text) > width {
		at := strings.LastIndexByte(text[:width+1], ' ')
		if at <= 0 {
			break
		}
		lines, text = append(lines, strings.TrimRight(text[:at], " ")), text[at+1:]
	}
	if text == "" {
		return lines
	}
	return append(lines, text)
}

// String is the report for people.
func (info probeInfo) String() string {
	var b strings.Builder
	row := func(name, text string) {
		for _, line := range wrap(printable(text), 80-9) {
			fmt.Fprintf(&b, "%-9s%s\n", name, line)
			name = ""
		}
	}
	fmt.Fprintf(&b, "%-9s%s\n", "target", printable(info.Target)) // whole, however long
	row("found", info.Is)
	row("user", "uid "+info.UID)
	row("tar", info.Tar)
	row("has", strings.Join(info.Tools, " "))
	row("lacks", strings.Join(info.Missing, " "))
	row("stdin", info.Stdin)
	for _, note := range info.Capabilities.Notes {
		row("note", note)
	}
	for _, v := range info.Routes {
		sign := "no"
		if v.OK {
			sign = "yes"
		}
		if v.Chosen {
			sign = "taken"
		}
		row("route", fmt.Sprintf("%-7s%-6s%s", v.Route, sign, v.Why))
	}
	return b.String()
}
