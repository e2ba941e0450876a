package provider

import "context"

// Completer is a driver that can say which sandboxes there are, for shell
// completion.
type Completer interface {
	// Complete returns the references that begin with prefix, in no order. It
	// is called while somebody waits for it, and should be back when ctx ends.
	Complete(ctx context.Context, prefix string) ([]string, error)
}
