// Package cmd is the command line: one file a verb, which parses and hands over
// to package transfer.
//
// What the terminal shows follows a few rules. Data that was asked for goes to
// stdout, everything else to stderr. Messages are lower case and have no final
// period. An error is one line, "sbsync: verb "what": cause"; lines that begin
// with "hint: " say what to do. Warnings begin with "warning: ". Nothing is
// drawn over unless stderr is a terminal.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Stdio are a command's standard streams.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
}

// app is what all commands share.
type app struct {
	Stdio
	drivers *provider.Registry
	config  *config
	out     outputFlags
}

// Execute runs the command line args, without the program's name, and returns
// the exit code. If ctx is cancelled by [Interrupted], it cleans up and returns
// the code of that signal.
func Execute(ctx context.Context, args []string, streams Stdio) int {
	out := &watchedWriter{w: streams.Out}
	a := &app{Stdio: Stdio{In: streams.In, Out: out, Err: streams.Err}, drivers: drivers()}
	root := a.rootCommand()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = out.failure()
	}
	code := exitCodeOf(ctx, err)
	if err != nil && err != errDifferences {
		json := a.out.json || slices.Contains(args, "--json")
		a.showError(inContext(ctx, cmd, err), code, json)
	}
	return code
}

// watchedWriter remembers that something could not be written. Printers go on
// then, since the work matters more than its report, but the command fails.
type watchedWriter struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

func (w *watchedWriter) Write(data []byte) (int, error) {
	n, err := w.w.Write(data)
	if err != nil {
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
	}
	return n, err
}

// failure is nil also if the reader has gone, having seen enough.
func (w *watchedWriter) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil || errors.Is(w.err, syscall.EPIPE) {
		return nil
	}
	return fmt.Errorf("print the result: %w", w.err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:                   "sbsync",
		Short:                 "Move file trees between this machine and sandboxes",
		Version:               buildVersion().String(),
		Args:                  verbArgs,
		RunE:                  func(cmd *cobra.Command, _ []string) error { return noVerb(cmd) },
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableAutoGenTag:     true,
		DisableFlagsInUseLine: true,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { a.showHelp(cmd) })
	root.CompletionOptions.DisableDefaultCmd = true
	a.out.register(root.PersistentFlags())
	root.AddCommand(
		a.pushCommand(),
		a.pullCommand(),
		a.diffCommand(),
		a.probeCommand(),
		a.providersCommand(),
		a.versionCommand(),
		a.completionCommand(),
	)
	root.AddCommand(helpTopics()...)
	root.SetHelpCommand(a.helpCommand())
	return root
}
