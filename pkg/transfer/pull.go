package transfer

import "context"

func (r *runner) pull(ctx context.Context, m Mapping) error { panic("not yet") }
