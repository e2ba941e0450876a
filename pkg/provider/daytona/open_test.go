//go:build linux

package daytona_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/internal/daytonatest"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/daytona"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

// writeProfile writes the file of the Daytona CLI.
func writeProfile(t *testing.T, url, key string, expires time.Time) {
	t.Helper()
	api := map[string]any{"url": url}
	if key != "" {
		api["key"] = key
	} else {
		api["token"] = map[string]any{"accessToken": daytonatest.Key, "expiresAt": expires}
	}
	text, err := json.Marshal(map[string]any{"activeProfile": "main", "profiles": []any{
		map[string]any{"id": "main", "name": "Main", "api": api, "activeOrganizationId": "org"}}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(os.Getenv("DAYTONA_CONFIG_DIR"), "config.json"), text, 0o600))
}

func TestConfiguration(t *testing.T) {
	for name, tc := range map[string]struct {
		env     map[string]string
		cfg     provider.Config
		profile func(t *testing.T, url string)
		kind    provider.Kind // of the error; Other: none
		org     string        // the header that the toolbox gets
	}{
		"keys of a target":                {cfg: provider.Config{"api_key": daytonatest.Key, "api_url": "URL"}},
		"environment":                     {env: map[string]string{"DAYTONA_API_KEY": daytonatest.Key, "DAYTONA_API_URL": "URL"}},
		"a target's key is stronger":      {env: map[string]string{"DAYTONA_API_KEY": "wrong key", "DAYTONA_API_URL": "URL"}, cfg: provider.Config{"api_key": daytonatest.Key}},
		"login with an organization":      {env: map[string]string{"DAYTONA_JWT_TOKEN": daytonatest.Key, "DAYTONA_ORGANIZATION_ID": "o1", "DAYTONA_API_URL": "URL"}, org: "o1"},
		"login without an organization":   {env: map[string]string{"DAYTONA_JWT_TOKEN": daytonatest.Key, "DAYTONA_API_URL": "URL"}, kind: provider.Unauthorized},
		"nothing":                         {kind: provider.Unauthorized},
		"wrong key":                       {cfg: provider.Config{"api_key": "dtn_wrong", "api_url": "URL"}, kind: provider.Unauthorized},
		"unknown key":                     {cfg: provider.Config{"api_keys": "x"}, kind: provider.Usage},
		"not a text":                      {cfg: provider.Config{"api_key": 12345678}, kind: provider.Usage},
		"the CLI's profile":               {profile: func(t *testing.T, url string) { writeProfile(t, url, daytonatest.Key, time.Time{}) }},
		"the CLI's login":                 {profile: func(t *testing.T, url string) { writeProfile(t, url, "", time.Now().Add(time.Hour)) }, org: "org"},
		"the CLI's login has expired":     {profile: func(t *testing.T, url string) { writeProfile(t, url, "", time.Now().Add(-time.Hour)) }, kind: provider.Unauthorized},
		"a profile by its name":           {cfg: provider.Config{"profile": "Main"}, profile: func(t *testing.T, url string) { writeProfile(t, url, daytonatest.Key, time.Time{}) }},
		"a profile that is not there":     {cfg: provider.Config{"profile": "other"}, profile: func(t *testing.T, url string) { writeProfile(t, url, daytonatest.Key, time.Time{}) }, kind: provider.Unauthorized},
		"a profile's key to another host": {cfg: provider.Config{"api_url": "URL"}, profile: func(t *testing.T, _ string) { writeProfile(t, "http://other/api", daytonatest.Key, time.Time{}) }, kind: provider.Unauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.NoLeaks(t)
			clean(t)
			s := daytonatest.Open(t, daytonatest.Options{})
			for key, value := range tc.env {
				t.Setenv(key, strings.ReplaceAll(value, "URL", s.URL))
			}
			cfg := provider.Config{}
			for key, value := range tc.cfg {
				if cfg[key] = value; value == "URL" {
					cfg[key] = s.URL
				}
			}
			if tc.profile != nil {
				tc.profile(t, s.URL)
			}
			sb, err := daytona.Driver{}.Open(t.Context(), daytonatest.Name, cfg)
			if tc.kind != provider.Other {
				if provider.KindOf(err) != tc.kind || provider.HintOf(err) == "" && tc.kind != provider.Usage {
					t.Errorf("error %v of kind %v, want %v", err, provider.KindOf(err), tc.kind)
				}
				noSecret(t, err)
				return
			}
			must(t, err)
			defer sb.Close()
			if _, err := sb.Exec(t.Context(), provider.Command{Args: []string{"true"}}); err != nil {
				t.Error(err)
			}
			if got := s.Header().Get("X-Daytona-Organization-ID"); got != tc.org {
				t.Errorf("organization %q, want %q", got, tc.org)
			}
		})
	}
}

// noSecret fails if a key can be seen in an error, in whatever way it is printed.
func noSecret(t *testing.T, err error) {
	t.Helper()
	for _, text := range []string{fmt.Sprint(err), fmt.Sprintf("%+v", err), provider.HintOf(err)} {
		for _, key := range []string{daytonatest.Key, "dtn_wrong", "12345678"} {
			if strings.Contains(text, key) {
				t.Errorf("the key is shown: %s", text)
			}
		}
	}
}

// A server that answers with what it got, and -v, show no key.
func TestKeysAreNotShown(t *testing.T) {
	clean(t)
	s := daytonatest.Open(t, daytonatest.Options{})
	var shown []string
	sb := provider.Log(open(t, s), func(e provider.Event) { shown = append(shown, fmt.Sprintf("%+v", e)) })
	for _, on := range []string{"execute", "bulk-upload", "download"} {
		s.Fail(daytonatest.Fault{On: on, Status: 500, Body: `{"message":"Bearer ` + daytonatest.Key + ` was refused"}`})
	}
	filer, _ := provider.FilerOf(sb)
	_, err := sb.Exec(t.Context(), provider.Command{Args: []string{"true"}})
	noSecret(t, err)
	noSecret(t, filer.GetFile(t.Context(), "/x", 0, os.Stderr))
	noSecret(t, filer.PutFiles(t.Context(), []provider.PutFile{put("/nowhere/x", "y")}))
	if len(shown) != 3 || strings.Contains(strings.Join(shown, " "), daytonatest.Key) {
		t.Errorf("%q", shown)
	}
	if !strings.Contains(strings.Join(shown, " "), "[key] was refused") {
		t.Errorf("what the server said is gone: %q", shown)
	}
}

func TestSandboxIsNotThere(t *testing.T) {
	clean(t)
	s := daytonatest.Open(t, daytonatest.Options{})
	_, err := daytona.Driver{}.Open(t.Context(), "bax", config(s))
	if provider.KindOf(err) != provider.NotFound || !strings.Contains(err.Error(), `no sandbox "bax"`) || provider.HintOf(err) == "" {
		t.Errorf("error %v of kind %v", err, provider.KindOf(err))
	}
}

// daytonaio/daytona#2147: a sandbox that does not run is told from one that
// can't be reached; states that the SDK does not know are as good as any.
func TestSandboxAtRest(t *testing.T) {
	clean(t)
	for state, hint := range map[string]string{"stopped": "--start", "archived": "--start", "paused": "--start", "snapshotting": "wait", "error": "new one"} {
		s := daytonatest.Open(t, daytonatest.Options{State: state})
		_, err := daytona.Driver{}.Open(t.Context(), daytonatest.Name, config(s))
		if provider.KindOf(err) != provider.Unreachable || provider.IsTemporary(err) || !strings.Contains(err.Error(), state) || !strings.Contains(provider.HintOf(err), hint) {
			t.Errorf("%s: error %v of kind %v (%s)", state, err, provider.KindOf(err), provider.HintOf(err))
		}
		if s.Starts() != 0 {
			t.Errorf("%s: it was started", state)
		}
	}
}

func TestStart(t *testing.T) {
	clean(t)
	for state, starts := range map[string]int{"archived": 1, "starting": 0, "started": 0} {
		t.Run(state, func(t *testing.T) {
			providertest.NoLeaks(t)
			s := daytonatest.Open(t, daytonatest.Options{State: state, Starting: 1})
			s.Fail(daytonatest.Fault{On: "GET /api/sandbox", Times: 1, Status: 502})
			var lines []string
			must(t, daytona.Driver{}.Start(t.Context(), daytonatest.Name, config(s), func(line string) { lines = append(lines, line) }))
			if s.Starts() != starts || (len(lines) > 1) != (state != "started") {
				t.Errorf("%d starts, progress %q", s.Starts(), lines)
			}
			open(t, s)
		})
	}
	s := daytonatest.Open(t, daytonatest.Options{State: "error"})
	if err := (daytona.Driver{}).Start(t.Context(), daytonatest.Name, config(s), func(string) {}); provider.KindOf(err) != provider.Unreachable {
		t.Errorf("a sandbox that is lost: %v", err)
	}
	s = daytonatest.Open(t, daytonatest.Options{State: "starting", Starting: 1000})
	ctx, cancel := context.WithCancel(t.Context())
	if err := (daytona.Driver{}).Start(ctx, daytonatest.Name, config(s), func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
