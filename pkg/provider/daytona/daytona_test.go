//go:build linux

package daytona_test

import (
	"testing"

	"github.com/sbsync/sbsync/internal/daytonatest"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/daytona"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

// clean takes the machine's own Daytona configuration away.
func clean(t *testing.T) {
	t.Helper()
	for _, name := range []string{"DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN", "DAYTONA_ORGANIZATION_ID", "DAYTONA_API_URL", "DAYTONA_SERVER_URL",
		"DAYTONA_TARGET", "DAYTONA_EXPERIMENTAL_OTEL_ENABLED"} {
		t.Setenv(name, "")
	}
	t.Setenv("DAYTONA_CONFIG_DIR", t.TempDir())
}

func config(s *daytonatest.Server) provider.Config {
	return provider.Config{"api_key": daytonatest.Key, "api_url": s.URL}
}

func open(t *testing.T, s *daytonatest.Server) provider.Sandbox {
	t.Helper()
	sb, err := daytona.Driver{}.Open(t.Context(), daytonatest.Name, config(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}

// daemons are versions that differ in what they do.
var daemons = map[string]int{"0.145": 145, "0.190": 190}

func TestSuite(t *testing.T) {
	clean(t)
	for name, version := range daemons {
		t.Run(name, func(t *testing.T) {
			providertest.NoLeaks(t)
			s := daytonatest.Open(t, daytonatest.Options{Daemon: version})
			providertest.Suite(t, func(t *testing.T) (provider.Sandbox, string) { return open(t, s), t.TempDir() })
		})
	}
}
