package cmd

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// target is a parsed target with what the configuration knows of it.
type target struct {
	provider.Target
	driver provider.Driver
	named  *namedTarget // nil if it was written in full
	start  bool         // start the sandbox first if it is at rest
}

// parseTarget reads a target argument.
func (a *app) parseTarget(arg string) (*target, error) {
	t, driver, err := a.drivers.Parse(arg, runtime.GOOS, a.config.named())
	if err != nil {
		return nil, err
	}
	return &target{Target: t, driver: driver, named: a.config.targets[t.Name]}, nil
}

// named are the targets of the configuration, as the grammar needs them.
func (c *config) named() map[string]provider.Named {
	named := make(map[string]provider.Named, len(c.targets))
	for name, t := range c.targets {
		named[name] = t.Named
	}
	return named
}

// mayStart takes note of --start, which not every provider has a use for: what
// was typed is then a mistake, what was configured is not.
func (t *target) mayStart(start, typed bool) error {
	if _, ok := t.driver.(provider.Starter); !ok && start && typed {
		return usageError("leave it out", "--start: %s has no sandboxes to start", t.Provider)
	}
	t.start = start
	return nil
}

// label is how messages call the sandbox.
func (t *target) label() string {
	switch {
	case t.Name != "":
		return t.Name
	case t.Ref == "":
		return t.Provider
	}
	return t.Provider + ":" + t.Ref
}

// path is the target's path as a mapping has it, with its trailing slash.
func (t *target) path() string {
	if t.Slash && t.Path != "/" {
		return t.Path + "/"
	}
	return t.Path
}

// open connects to the target's sandbox. Settings of the provider's section
// come first, those of the named target over them. note is told what takes a
// while before that.
func (a *app) open(ctx context.Context, t *target, log, note func(string)) (transfer.Target, error) {
	settings := make(provider.Config)
	for _, word := range append(t.driver.Aliases(), t.driver.Name()) {
		maps.Copy(settings, a.config.providers[word])
	}
	if t.named != nil {
		maps.Copy(settings, t.named.settings)
	}
	if starter, ok := t.driver.(provider.Starter); ok && t.start {
		if err := starter.Start(ctx, t.Ref, settings, note); err != nil {
			return transfer.Target{}, err
		}
	}
	sandbox, err := t.driver.Open(ctx, t.Ref, settings)
	if err != nil {
		return transfer.Target{}, err
	}
	if a.out.verbose {
		for _, text := range sandbox.Capabilities().Notes {
			log(text)
		}
		sandbox = provider.Log(sandbox, func(e provider.Event) { log(callText(e)) })
	}
	return transfer.Target{Sandbox: sandbox, Name: t.label()}, nil
}

// callText is one line about a provider call.
func callText(e provider.Event) string {
	text := "call " + e.Verb
	if e.Label != "" {
		text += fmt.Sprintf(" %q", e.Label)
	}
	text += fmt.Sprintf(": %s", e.Duration.Round(100*time.Microsecond))
	if e.BytesIn > 0 {
		text += fmt.Sprintf(", %s in", humanBytes(e.BytesIn))
	}
	if e.BytesOut > 0 {
		text += fmt.Sprintf(", %s out", humanBytes(e.BytesOut))
	}
	if e.ExitCode != 0 {
		text += fmt.Sprintf(", exit code %d", e.ExitCode)
	}
	if e.Err != nil {
		text += fmt.Sprintf(", %v", e.Err)
	}
	return text
}
