package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// errDifferences ends diff --exit-code when something differs. It is no
// failure, and nothing is said of it.
var errDifferences = errors.New("differences")

// stdStream is the argument that stands for stdin or stdout.
const stdStream = "-"

// transferArgs checks the arguments of push and pull, which take the target
// alone with --ops.
func transferArgs(flags *transferFlags, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if flags.opsFile != "" {
			return checkArgs(cmd, args, []string{"TARGET"})
		}
		if cmd.Flags().Changed("ops") {
			return usageError("name a file, or - for stdin", "--ops is empty")
		}
		return checkArgs(cmd, args, names)
	}
}

// transfer is push and pull. host is the argument for this machine's side, or
// empty with --ops.
func (a *app) transfer(cmd *cobra.Command, flags *transferFlags, dir transfer.Direction, targetArg string, host []string) error {
	if err := a.loadConfig(cmd); err != nil {
		return err
	}
	t, err := a.parseTarget(targetArg)
	if err != nil {
		return err
	}
	root := t.Root
	if flags.opsFile != "" {
		root = t.Path // what the operations are confined to
	}
	opt, err := a.config.settle(cmd.Flags(), flags, t.named, root)
	if err != nil {
		return err
	}
	if err := t.mayStart(flags.start, cmd.Flags().Changed("start")); err != nil {
		return err
	}
	ops, err := a.operations(flags, dir, t, host)
	if err != nil {
		return err
	}
	start := runStart{verb: cmd.Name(), direction: dir, listPlan: opt.DryRun}
	start.source, start.target = endpoints(flags, dir, t, host)
	_, err = a.run(cmd.Context(), start, t, ops, opt)
	return err
}

// operations are those of --ops, or one that has a single mapping.
func (a *app) operations(flags *transferFlags, dir transfer.Direction, t *target, host []string) ([]transfer.Operation, error) {
	if flags.opsFile != "" {
		return a.readOps(flags.opsFile, dir)
	}
	if a.saysTarget(host[0]) {
		return nil, usageError(fmt.Sprintf("swap the arguments to go the other way, or write ./%s", host[0]),
			"%q is a target, and so is %q; one has to be a path on this machine", host[0], t)
	}
	local, err := hostPath(host[0])
	if err != nil {
		return nil, err
	}
	m := transfer.Mapping{Source: local, Target: t.path()}
	if dir == transfer.Pull {
		m.Source, m.Target = m.Target, m.Source
	}
	if dir == transfer.Pull && m.Target == stdStream && a.out.json {
		return nil, usageError("pull to a file, or leave --json out", "the file and --json would both go to stdout")
	}
	return []transfer.Operation{{Files: []transfer.Mapping{m}}}, nil
}

// hostPath makes a path of this machine absolute, as mappings have it. One that
// can only mean a directory ends in a separator afterwards, which for a single
// file means "into this directory".
func hostPath(arg string) (string, error) {
	if arg == stdStream {
		return arg, nil
	}
	full, err := filepath.Abs(arg)
	if err != nil {
		return "", usageError("", "%q: %w", arg, err)
	}
	last := arg[len(arg)-1]
	base := filepath.Base(arg)
	if (os.IsPathSeparator(last) || base == "." || base == "..") && !os.IsPathSeparator(full[len(full)-1]) {
		full += string(filepath.Separator)
	}
	return full, nil
}

// endpoints are source and target as messages show them.
func endpoints(flags *transferFlags, dir transfer.Direction, t *target, host []string) (source, dest string) {
	if flags.opsFile != "" {
		return flags.opsFile, t.String()
	}
	if dir == transfer.Pull {
		return t.String(), host[0]
	}
	return host[0], t.String()
}

// run opens the target, carries out the operations and shows what happens.
func (a *app) run(ctx context.Context, start runStart, t *target, ops []transfer.Operation, opt transfer.Options) (*transfer.Report, error) {
	p := a.newPrinter()
	p.began(start)
	p.Log(a.config.describe())
	// Run checks again; this is before anybody connects.
	if err := transfer.Check(start.direction, ops, opt); err != nil {
		return nil, err
	}
	sandbox, err := a.open(ctx, t, p.Log, p.note)
	if err != nil {
		return nil, err
	}
	defer sandbox.Sandbox.Close()
	opt.Observer = p
	report, err := transfer.Run(ctx, start.direction, sandbox, ops, opt)
	if report != nil {
		p.ended(report, err != nil)
	}
	return report, err
}

// inContext puts the verb and what it was about before an error:
// push "dir": cause.
func inContext(ctx context.Context, cmd *cobra.Command, err error) error {
	var interrupted Interrupted
	if errors.As(context.Cause(ctx), &interrupted) {
		err = interrupted
	}
	args := cmd.Flags().Args()
	switch {
	case !cmd.HasParent():
		return err
	case len(args) == 0 || kindOf(err) == provider.Usage:
		return fmt.Errorf("%s: %w", cmd.Name(), err)
	}
	return fmt.Errorf("%s %q: %w", cmd.Name(), args[0], err)
}

// loadConfig reads the configuration and settles the output flags with it.
func (a *app) loadConfig(cmd *cobra.Command) (err error) {
	if a.config, err = loadConfig(a.out.configFile); err != nil {
		return err
	}
	if err := a.config.apply(cmd.Root().PersistentFlags()); err != nil {
		return err
	}
	if a.out.quiet && a.out.verbose {
		return usageError("", "--quiet and --verbose exclude each other")
	}
	return nil
}
