// Package local is the driver for directories of this machine. Commands are
// run by this machine, so it needs no server and no configuration; it is the
// default to try sbsync with, and the base of the tests.
package local

import (
	"context"
	"fmt"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Driver opens targets of the form local:/path.
type Driver struct{}

// Name is "local".
func (Driver) Name() string { return "local" }

// Aliases has none.
func (Driver) Aliases() []string { return nil }

// Summary is one line.
func (Driver) Summary() string { return "directories of this machine, commands run by its sh" }

// HasRef is false: there is only one local machine.
func (Driver) HasRef() bool { return false }

// Open returns the local sandbox. Configuration keys: "path", the PATH of
// commands instead of the environment's; "exec_only", true to offer Exec alone,
// so that the base64 route can be seen. Errors are of kind [provider.Usage], or
// of kind [provider.Missing] if there is no sh (on Windows).
func (Driver) Open(_ context.Context, ref string, cfg provider.Config) (provider.Sandbox, error) {
	if ref != "" {
		return nil, &provider.Error{Kind: provider.Usage, Op: "open local", Err: fmt.Errorf("unexpected sandbox name %q", ref),
			Hint: "write local:/absolute/path"}
	}
	var opts Options
	for key, value := range cfg {
		ok := true
		switch key {
		case "path":
			opts.Path, ok = value.(string)
		case "exec_only":
			opts.ExecOnly, ok = value.(bool)
		default:
			hint := "its keys are path and exec_only"
			if s := provider.Suggest(key, []string{"path", "exec_only"}); s != "" {
				hint = fmt.Sprintf("did you mean %q?", s)
			}
			return nil, &provider.Error{Kind: provider.Usage, Op: "open local", Err: fmt.Errorf("unknown key %q", key), Hint: hint}
		}
		if !ok {
			return nil, &provider.Error{Kind: provider.Usage, Op: "open local", Err: fmt.Errorf("key %q has the value %v", key, value),
				Hint: "path is a string, exec_only is true or false"}
		}
	}
	sb := New(opts)
	if err := sb.check(); err != nil {
		return nil, err
	}
	return sb, nil
}
