package provider

import "context"

// Starter is an optional verb of a [Driver] whose sandboxes can be at rest.
type Starter interface {
	// Start starts the sandbox if it does not run, and returns when it does.
	// It tells progress in lines for a person. Nothing else is changed, and a
	// sandbox that runs already is left alone.
	Start(ctx context.Context, ref string, cfg Config, progress func(line string)) error
}
