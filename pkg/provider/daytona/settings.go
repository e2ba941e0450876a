package daytona

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/daytonaio/daytona/libs/sdk-go/pkg/types"

	"github.com/sbsync/sbsync/pkg/provider"
)

const credentialsHint = "set DAYTONA_API_KEY, or run \"daytona login\""

// settings are what the SDK needs to know.
type settings struct{ types.DaytonaConfig }

// keys are those of a provider section or a named target.
var keys = []string{"api_key", "jwt_token", "organization_id", "api_url", "target", "profile"}

// readSettings takes what the configuration says, then the SDK's environment
// variables, then the profile of the Daytona CLI. A profile is taken as a whole
// or not at all: its key goes to no other server.
func readSettings(cfg provider.Config) (*settings, error) {
	values := map[string]string{}
	for key, value := range cfg {
		text, ok := value.(string)
		switch {
		case !known(key):
			return nil, unknownKey(key)
		case !ok: // the value may be a secret
			return nil, &provider.Error{Kind: provider.Usage, Op: "open daytona", Err: fmt.Errorf("key %q is not a text", key)}
		}
		values[key] = text
	}
	s := &settings{types.DaytonaConfig{APIKey: values["api_key"], JWTToken: values["jwt_token"],
		OrganizationID: values["organization_id"], APIUrl: values["api_url"], Target: values["target"]}}
	configured := s.APIKey != "" || s.JWTToken != ""
	switch {
	case configured && values["profile"] != "":
		return nil, provider.New(provider.Usage, "open daytona: a profile and a key exclude each other", "")
	case !configured && (values["profile"] != "" || os.Getenv("DAYTONA_API_KEY") == "" && os.Getenv("DAYTONA_JWT_TOKEN") == ""):
		if err := s.readProfile(values["profile"]); err != nil {
			return nil, err
		}
	}
	// What the SDK would take from the environment by itself; here because
	// errors must not show it.
	if s.APIKey == "" && s.JWTToken == "" {
		s.APIKey, s.JWTToken = os.Getenv("DAYTONA_API_KEY"), os.Getenv("DAYTONA_JWT_TOKEN")
	}
	return s, nil
}

func known(key string) bool {
	for _, k := range keys {
		if k == key {
			return true
		}
	}
	return false
}

func unknownKey(key string) error {
	hint := "its keys are " + strings.Join(keys, ", ")
	if s := provider.Suggest(key, keys); s != "" {
		hint = fmt.Sprintf("did you mean %q?", s)
	}
	return &provider.Error{Kind: provider.Usage, Op: "open daytona", Err: fmt.Errorf("unknown key %q", key), Hint: hint}
}

// cliConfig is the file of the Daytona CLI, as far as it matters here
// (apps/cli/config in daytonaio/daytona).
type cliConfig struct {
	Active   string       `json:"activeProfile"`
	Profiles []cliProfile `json:"profiles"`
}

type cliProfile struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	API  struct {
		URL   string  `json:"url"`
		Key   *string `json:"key"`
		Token *struct {
			Access  string    `json:"accessToken"`
			Expires time.Time `json:"expiresAt"`
		} `json:"token"`
	} `json:"api"`
	Organization *string `json:"activeOrganizationId"`
}

// cliFile is where the CLI keeps its profiles.
func cliFile() (string, error) {
	if dir := os.Getenv("DAYTONA_CONFIG_DIR"); dir != "" {
		return filepath.Join(dir, "config.json"), nil
	}
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "daytona", "config.json"), err
}

// readProfile takes the credentials of a profile; an empty name is the active
// one.
func (s *settings) readProfile(name string) error {
	fail := func(err error) error {
		return &provider.Error{Kind: provider.Unauthorized, Op: "open daytona", Err: err, Hint: credentialsHint}
	}
	file, err := cliFile()
	if err != nil {
		return fail(errors.New("no API key"))
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fail(fmt.Errorf("no API key, and no profile of the Daytona CLI: %w", err))
	}
	var c cliConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return fail(fmt.Errorf("profile file %q is not understood", file)) // the cause may quote it
	}
	for _, p := range c.Profiles {
		if p.ID == cmp.Or(name, c.Active) || name != "" && p.Name == name {
			if err := s.take(p); err != nil {
				return fail(fmt.Errorf("profile %q: %w", p.ID, err))
			}
			return nil
		}
	}
	return fail(fmt.Errorf("no profile %q in %q", cmp.Or(name, c.Active), file))
}

func (s *settings) take(p cliProfile) error {
	wanted := cmp.Or(s.APIUrl, os.Getenv("DAYTONA_API_URL"), os.Getenv("DAYTONA_SERVER_URL"), p.API.URL)
	if strings.TrimSuffix(wanted, "/") != strings.TrimSuffix(p.API.URL, "/") {
		return fmt.Errorf("it is for %q, not for %q", p.API.URL, wanted)
	}
	switch {
	case p.API.Key != nil && *p.API.Key != "":
		s.APIKey = *p.API.Key
	case p.API.Token == nil || p.API.Token.Access == "":
		return errors.New("it holds no key")
	case !p.API.Token.Expires.IsZero() && time.Now().After(p.API.Token.Expires):
		return errors.New("its login has expired")
	default:
		s.JWTToken = p.API.Token.Access
	}
	s.APIUrl = p.API.URL
	if s.OrganizationID == "" && p.Organization != nil {
		s.OrganizationID = *p.Organization
	}
	return nil
}

// secrets are texts that no message may show.
type secrets []string

func (s *settings) secrets() secrets {
	var list secrets
	for _, text := range []string{s.APIKey, s.JWTToken, os.Getenv("DAYTONA_API_KEY"), os.Getenv("DAYTONA_JWT_TOKEN")} {
		if len(text) > 3 {
			list = append(list, text)
		}
	}
	return list
}

func (s secrets) redact(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "[key]")
	}
	return text
}
