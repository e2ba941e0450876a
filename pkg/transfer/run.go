package transfer

import "context"

// Run carries out operations in order. All checks of all operations come
// before the first provider call. The report is valid also on error.
func Run(ctx context.Context, dir Direction, target Target, ops []Operation, opt Options) (*Report, error) {
	panic("not yet")
}
