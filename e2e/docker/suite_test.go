//go:build e2e && linux

package docker

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/e2e/internal/harness"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

func TestSuite(t *testing.T) {
	for name, tc := range map[string]struct {
		image string
		cfg   provider.Config
	}{"GNU": {"gnu", nil}, "BusyBox": {"busybox", nil}, "another user": {"gnu", provider.Config{"user": "somebody"}}} {
		t.Run(name, func(t *testing.T) {
			b := run(t, tc.image)
			providertest.NoLeaks(t)
			providertest.Suite(t, func(t *testing.T) (provider.Sandbox, string) {
				sb, err := open(t, b.name, tc.cfg)
				if err != nil {
					t.Fatal(err)
				}
				res, err := sb.Exec(t.Context(), provider.Command{Args: []string{"mktemp", "-d"}})
				if err != nil || res.ExitCode != 0 {
					t.Fatalf("mktemp: %v, %s", err, res.Stderr)
				}
				return sb, strings.TrimSpace(string(res.Stdout))
			})
			if left := b.quiet(5 * time.Second); len(left) > 0 {
				t.Errorf("still running: %q", left)
			}
		})
	}
}

func TestPushAndPull(t *testing.T) {
	for _, image := range []string{"gnu", "busybox"} {
		for _, route := range []string{"stream", "base64"} {
			t.Run(image+" "+route, func(t *testing.T) { roundTrip(t, run(t, image), "/srv/app", route) })
		}
	}
}

// roundTrip pushes one tree, then another over it, pulls that, and finds what
// it sent.
func roundTrip(t *testing.T, b *box, there, route string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	one, two, target := b.Path("one"), b.Path("two"), "docker:"+b.name+":"+there
	if err := harness.WriteTrees(rng, one, two); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{one, two} {
		b.must("push", "--delete", "--route", route, source, target)
		b.must("pull", "--delete", "--route", route, target, b.Path("copy"))
		harness.Same(t, b.Path("copy"), source)
	}
	if out := b.must("push", "--delete", "--json", "--route", route, one, target); !strings.Contains(out, `"route": "`+route+`"`) && !strings.Contains(out, `"route":"`+route+`"`) {
		t.Errorf("not by that route: %s", out)
	}
	// docker cp is another witness.
	b.docker("cp", b.name+":"+there, b.Path("witness"))
	harness.Same(t, b.Path("witness"), one)
	if rubbish, err := b.Rubbish(); err != nil || len(rubbish) > 0 {
		t.Errorf("left behind: %q, %v", rubbish, err)
	}
	if found := b.docker("exec", b.name, "find", "/srv", "/tmp", "-name", ".sbsync-*"); found != "" {
		t.Errorf("left behind in the container: %s", found)
	}
	if left := b.quiet(5 * time.Second); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
}
