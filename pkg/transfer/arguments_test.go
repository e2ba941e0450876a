package transfer_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// Many small files that compress well, where input travels in arguments: the
// digests, which don't compress, have to fit in, too.
func TestDigestsFitIntoArguments(t *testing.T) {
	sb := openFake(t, providertest.Options{NoStdin: true})
	narrow := provider.Narrow(sb, func(c *provider.Capabilities) { c.MaxArgs = 128 << 10 })
	src := t.TempDir()
	for i := range 400 {
		must(t, os.WriteFile(filepath.Join(src, fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, 4096), 0o644))
	}
	mustRun(t, narrow, transfer.Push, src, filepath.Join(sb.Root(), "box"), options(transfer.Base64))
}
