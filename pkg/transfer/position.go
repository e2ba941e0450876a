package transfer

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/tree"
)

// position is how far a pull has come, to be told when it breaks off. It is
// safe for concurrent use.
type position struct {
	mu       sync.Mutex
	received int64  // content, what came twice counted twice
	path     string // of the file that bytes came of last
	offset   int64  // after these
}

// add takes note of n bytes of a file that came from an offset on.
func (p *position) add(path string, offset, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received += n
	p.path, p.offset = path, offset+n
}

// locate completes an error that says that the way to the sandbox, or what came
// over it, was cut.
func (p *position) locate(err error, files []tree.Entry) error {
	if err == nil || !errors.Is(err, script.ErrCut) && provider.KindOf(err) != provider.Unreachable && provider.KindOf(err) != provider.Timeout {
		return err
	}
	var total int64
	for _, e := range files {
		total += e.Size
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.received == 0 {
		return fmt.Errorf("received 0 of %d bytes: %w", total, err)
	}
	name := "the file"
	if p.path != "" {
		name = fmt.Sprintf("%q", p.path)
	}
	return fmt.Errorf("received %d of %d bytes, the last of %s at offset %d: %w", min(p.received, total), total, name, p.offset, err)
}
