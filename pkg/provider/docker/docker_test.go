//go:build unix

package docker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/docker"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

func open(t *testing.T, ref string, cfg provider.Config) (provider.Sandbox, error) {
	t.Helper()
	sb, err := docker.Driver{}.Open(t.Context(), ref, cfg)
	if err == nil {
		t.Cleanup(func() { sb.Close() })
	}
	return sb, err
}

func TestSuite(t *testing.T) {
	providertest.NoLeaks(t)
	newEngine(t)
	providertest.Suite(t, func(t *testing.T) (provider.Sandbox, string) {
		sb, err := open(t, "web", nil)
		if err != nil {
			t.Fatal(err)
		}
		return sb, t.TempDir()
	})
}

// expect checks an error's kind, and what it and its hint say.
func expect(t *testing.T, err error, kind provider.Kind, says ...string) {
	t.Helper()
	text := fmt.Sprintf("%v; %s", err, provider.HintOf(err))
	if err == nil || provider.KindOf(err) != kind {
		t.Errorf("error of kind %v, want %v: %s", provider.KindOf(err), kind, text)
	}
	for _, s := range says {
		if !strings.Contains(text, s) {
			t.Errorf("%q does not say %q", text, s)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		ref    string
		cfg    provider.Config
		change func(e *engine)
		kind   provider.Kind
		says   []string
	}{
		"a mistyped name":   {ref: "wbe", kind: provider.NotFound, says: []string{`no container "wbe"`, `did you mean "web"?`}},
		"another name":      {ref: "zzzz", kind: provider.NotFound, says: []string{"there are web, worker"}},
		"no name":           {ref: "a/b", kind: provider.Usage, says: []string{"docker:CONTAINER:/path"}},
		"a path":            {ref: "..", kind: provider.Usage},
		"an ambiguous id":   {ref: "01", change: func(e *engine) { e.ambiguous = true }, kind: provider.Usage, says: []string{"several containers", "docker ps -a"}},
		"stopped":           {ref: "web", change: func(e *engine) { e.status = "exited" }, kind: provider.Unreachable, says: []string{"is exited", "docker start web"}},
		"only created":      {ref: "web", change: func(e *engine) { e.status = "created" }, kind: provider.Unreachable, says: []string{"is created"}},
		"paused":            {ref: "web", change: func(e *engine) { e.status = "paused" }, kind: provider.Unreachable, says: []string{"docker unpause web"}},
		"restarting":        {ref: "web", change: func(e *engine) { e.status = "restarting" }, kind: provider.Unreachable, says: []string{"docker logs web"}},
		"a mistyped key":    {ref: "web", cfg: provider.Config{"usr": "x"}, kind: provider.Usage, says: []string{`did you mean "user"?`}},
		"an unknown key":    {ref: "web", cfg: provider.Config{"zzzz": "x"}, kind: provider.Usage, says: []string{"its keys are context, host, user"}},
		"an unusable value": {ref: "web", cfg: provider.Config{"user": true}, kind: provider.Usage, says: []string{"must be a string"}},
		"two daemons":       {ref: "web", cfg: provider.Config{"host": "unix:///x", "context": "y"}, kind: provider.Usage, says: []string{"both host and context"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			if tc.change != nil {
				tc.change(e)
			}
			_, err := open(t, tc.ref, tc.cfg)
			expect(t, err, tc.kind, tc.says...)
			if provider.IsTemporary(err) {
				t.Error("it says that it may be tried again")
			}
		})
	}
}

// The version that both know is taken.
func TestVersion(t *testing.T) {
	e := newEngine(t)
	if _, err := open(t, "web", nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(e.paths, "/v1.41/containers/web/json") {
		t.Errorf("requests to %q", e.paths)
	}
}

func TestCommandErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(e *engine)
		kind   provider.Kind
		again  bool
		says   []string
	}{
		"the output breaks off": {func(e *engine) { e.cutAfter = 10 }, provider.Unreachable, true, []string{"broke off"}},
		"a new daemon":          {func(e *engine) { e.forgets = true }, provider.Unreachable, true, []string{"has been restarted"}},
		"no daemon any more":    {func(e *engine) { e.server.CloseClientConnections(); e.server.Listener.Close() }, provider.Unreachable, true, []string{"no connection to the Docker daemon"}},
		"stopped meanwhile":     {func(e *engine) { e.status = "exited" }, provider.Unreachable, false, []string{"--start"}},
		"no sh": {func(e *engine) {
			e.refuses = "OCI runtime exec failed: exec failed: unable to start container process: exec: \"sh\": executable file not found in $PATH: unknown\r\n"
		}, provider.Missing, false, []string{`container "web" has no sh`}},
		"no such user":    {func(e *engine) { e.refuses = "unable to find user x: no matching entries in passwd file\r\n" }, provider.Usage, false, []string{"the setting user"}},
		"another failure": {func(e *engine) { e.refuses = "something new" }, provider.Other, false, []string{"something new"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			sb, err := open(t, "web", nil)
			if err != nil {
				t.Fatal(err)
			}
			tc.change(e)
			_, err = sb.Exec(t.Context(), provider.Command{Args: []string{"printf", "some output"}, Stdout: io.Discard})
			expect(t, err, tc.kind, tc.says...)
			if provider.IsTemporary(err) != tc.again {
				t.Errorf("to be tried again: %v", provider.IsTemporary(err))
			}
		})
	}
}

// A daemon that is late to notice that a command has ended is waited for.
func TestLateExitCode(t *testing.T) {
	e := newEngine(t)
	e.slow = 5
	sb, err := open(t, "web", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := sb.Exec(t.Context(), provider.Command{Args: []string{"sh", "-c", "exit 7"}})
	if err != nil || res.ExitCode != 7 {
		t.Errorf("exit code %d, %v", res.ExitCode, err)
	}
	e.slow = 1 << 30
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sb.Exec(ctx, provider.Command{Args: []string{"true"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The API's JSON cannot carry words that are not UTF-8 as they are.
func TestForeignWords(t *testing.T) {
	newEngine(t)
	sb, err := open(t, "web", nil)
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"plain", "\xff", "a\x80'b\\c%d\n", "", "\xc3(\n\n", "é", `\101`}
	res, err := sb.Exec(t.Context(), provider.Command{Args: append([]string{"sh", "-c", `printf '<%s>' "$@" "$X"`, "sh"}, words...), Env: map[string]string{"X": "\xfe"}})
	if want := "<" + strings.Join(append(words, "\xfe"), "><") + ">"; err != nil || string(res.Stdout) != want {
		t.Errorf("got %q, %v; want %q", res.Stdout, err, want)
	}
}

func TestCompletion(t *testing.T) {
	newEngine(t)
	for prefix, want := range map[string][]string{"": {"web", "worker"}, "wo": {"worker"}, "x": {}} {
		got, err := docker.Driver{}.Complete(t.Context(), prefix)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", prefix, got, err)
		}
	}
}

// A socket that only its owner may use. Root may use any.
func TestSocketOfOthers(t *testing.T) {
	e := newEngine(t)
	if os.Geteuid() == 0 {
		return // e2e/docker does it as another user
	}
	if err := os.Chmod(e.socket, 0); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, "web", nil)
	expect(t, err, provider.Unauthorized, "permission denied", "only the socket's owner")
}
