// Command sbsync moves file trees between this machine and sandboxes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sbsync/sbsync/cmd"
)

//go:generate go run ./completions/gen

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// A reader that went away is a failed write, to be cleaned up after, and
	// not the end of the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		interrupted := cmd.InterruptedBy(<-signals)
		cancel(interrupted)
		<-signals // the user will not wait for the cleaning up
		os.Exit(interrupted.ExitCode())
	}()
	os.Exit(cmd.Execute(ctx, os.Args[1:], cmd.Stdio{Out: os.Stdout, Err: os.Stderr, In: os.Stdin}))
}
