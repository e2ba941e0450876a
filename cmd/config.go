package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/sbsync/sbsync/pkg/provider"
)

// projectFile is the config file of the current directory.
const projectFile = "sbsync.yaml"

// config is what the config files say.
type config struct {
	files     []*configFile // the user's first, so that later ones win
	settings  *viper.Viper  // defaults of flags: SBSYNC_* over the files in order
	targets   map[string]*namedTarget
	providers map[string]provider.Config
}

// configFile is one file. Files that sbsync found by itself in the current
// directory are not trusted: they may have come with a cloned repository, or
// out of a sandbox. They can't set what widens sbsync's powers or redirects
// credentials.
type configFile struct {
	*yamlDoc
	trusted bool
	values  map[string][]string // of flags, by name; one text for each value
}

// namedTarget is an entry of the targets section.
type namedTarget struct {
	provider.Named
	exclude       []string
	policy, route string
	settings      provider.Config
}

// trustedOnly are the settings that only a trusted file may make.
func trustedOnly() []string { return []string{"allow-external-symlinks", "force", "set-id", "start"} }

// settingNames are the flags whose defaults can be configured. In the
// environment, dry-run and config can be set as well.
func settingNames() []string {
	var names []string
	settingFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "dry-run" && f.Name != "config" {
			names = append(names, f.Name)
		}
	})
	return names
}

// settingFlags returns a flag set of its own with all flags that can be
// configured.
func settingFlags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("config", pflag.ContinueOnError)
	newTransferFlags().register(fs)
	new(outputFlags).register(fs)
	return fs
}

func envName(setting string) string {
	return "SBSYNC_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// loadConfig reads the config files: the one that --config or SBSYNC_CONFIG
// names, or else ./sbsync.yaml and the user's own, as far as they exist.
func loadConfig(named string) (*config, error) {
	if err := checkEnv(os.Environ()); err != nil {
		return nil, err
	}
	c := &config{settings: viper.New(), targets: make(map[string]*namedTarget), providers: make(map[string]provider.Config)}
	c.settings.SetEnvPrefix("sbsync")
	c.settings.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	c.settings.AutomaticEnv()
	if named == "" {
		named = os.Getenv("SBSYNC_CONFIG")
	}
	if named != "" {
		return c, c.add(named, true, true)
	}
	if dir, err := os.UserConfigDir(); err == nil {
		if err := c.add(filepath.Join(dir, "sbsync", "config.yaml"), true, false); err != nil {
			return nil, err
		}
	}
	return c, c.add(projectFile, false, false)
}

// readFound reads a file that nobody named. It may lie in a directory that
// somebody else filled, and a FIFO there would be waited for.
func readFound(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file", path)
	}
	return os.ReadFile(path)
}

// add reads one file over those before it; named says that it was asked for.
func (c *config) add(path string, trusted, named bool) error {
	read := readFound
	if named {
		read = os.ReadFile
	}
	data, err := read(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		return usageError("", "config: %w", err)
	}
	doc, err := readDoc(path, data)
	if err != nil {
		return err
	}
	f := &configFile{yamlDoc: doc, trusted: trusted, values: make(map[string][]string)}
	if err := c.parse(f); err != nil {
		return err
	}
	c.files = append(c.files, f)
	merged := make(map[string]any)
	for name, v := range f.values {
		merged[name] = v
	}
	return c.settings.MergeConfigMap(merged)
}

func (c *config) parse(f *configFile) error {
	if f.root == nil {
		return nil
	}
	known := append(settingNames(), "targets", "providers")
	return f.fields(f.root, "the config file", known, func(key, value *yaml.Node) error {
		switch key.Value {
		case "targets":
			return c.parseTargets(f, value)
		case "providers":
			return c.parseProviders(f, value)
		}
		return f.parseSetting(key, value)
	})
}

// parseSetting checks a value with the flag that it is for.
func (f *configFile) parseSetting(key, value *yaml.Node) error {
	name := key.Value
	if !f.trusted && slices.Contains(trustedOnly(), name) {
		return f.untrusted(key, fmt.Sprintf("%q is", name))
	}
	flag := settingFlags().Lookup(name)
	texts, err := f.texts(value, fmt.Sprintf("%q", name))
	if err != nil {
		return err
	}
	if _, list := flag.Value.(pflag.SliceValue); !list && value.Kind == yaml.SequenceNode {
		return f.errorf(value, "", "%q must be a single value", name)
	}
	for _, text := range texts {
		if err := flag.Value.Set(text); err != nil {
			return f.errorf(value, provider.HintOf(err), "%s %q: %w", name, text, plainCause(err))
		}
	}
	f.values[name] = texts
	return nil
}

func (f *configFile) untrusted(n *yaml.Node, what string) error {
	return f.errorf(n, fmt.Sprintf("put it into your own config file, or trust this one with --config %s", f.name),
		"%s not taken from a file that was found in the current directory", what)
}

func (c *config) parseProviders(f *configFile, n *yaml.Node) error {
	if !f.trusted {
		return f.untrusted(n, "provider settings are")
	}
	return f.fields(n, `"providers"`, driverWords(drivers()), func(key, value *yaml.Node) error {
		var settings provider.Config
		if err := value.Decode(&settings); err != nil {
			return f.errorf(value, "", "provider %q must be a mapping of names to values", key.Value)
		}
		c.providers[key.Value] = settings
		return nil
	})
}

func (c *config) parseTargets(f *configFile, n *yaml.Node) error {
	return f.fields(n, `"targets"`, nil, func(key, value *yaml.Node) error {
		if key.Value == "" || strings.ContainsAny(key.Value, `:/\ `) {
			return f.errorf(key, "", "target name %q must not be empty nor have a colon, slash or space", key.Value)
		}
		t := &namedTarget{settings: make(provider.Config)}
		err := f.fields(value, fmt.Sprintf("target %q", key.Value), nil, func(k, v *yaml.Node) error {
			return f.parseTargetField(t, key.Value, k, v)
		})
		if err == nil && t.Provider == "" {
			err = f.errorf(key, "add a line like provider: local", "target %q has no provider", key.Value)
		}
		c.targets[key.Value] = t
		return err
	})
}

func (f *configFile) parseTargetField(t *namedTarget, name string, key, value *yaml.Node) (err error) {
	switch key.Value {
	case "provider":
		t.Provider, err = f.text(value, "provider")
		if err == nil && !drivers().Has(t.Provider) {
			return f.errorf(value, didYouMean(t.Provider, driverWords(drivers()), `run "sbsync providers" for the list`),
				"unknown provider %q", t.Provider)
		}
	case "ref":
		t.Ref, err = f.text(value, "ref")
	case "root":
		t.Root, err = f.text(value, "root")
		if err == nil && !strings.HasPrefix(t.Root, "/") {
			return f.errorf(value, "roots are absolute paths in the sandbox", "root %q of target %q is not absolute", t.Root, name)
		}
	case "exclude":
		t.exclude, err = f.texts(value, "exclude")
	case "policy":
		t.policy, err = f.choice(value, "policy", []string{"update", "delete", "replace"})
	case "route":
		t.route, err = f.choice(value, "route", settingFlags().Lookup("route").Value.(interface{ words() []string }).words())
	default:
		return f.parseTargetSetting(t, name, key, value)
	}
	return err
}

// parseTargetSetting takes a field that is the provider's own. Which ones there
// are is for the driver to say when it is opened; a slip of one of sbsync's own
// names is found here.
func (f *configFile) parseTargetSetting(t *namedTarget, name string, key, value *yaml.Node) error {
	own := []string{"provider", "ref", "root", "exclude", "policy", "route"}
	if s := provider.Suggest(key.Value, own); s != "" {
		return f.errorf(key, fmt.Sprintf("did you mean %q?", s), "unknown key %q in target %q", key.Value, name)
	}
	if !f.trusted {
		return f.untrusted(key, fmt.Sprintf("provider setting %q of target %q is", key.Value, name))
	}
	var v any
	if err := value.Decode(&v); err != nil {
		return f.errorf(value, "", "%q: %w", key.Value, err)
	}
	t.settings[key.Value] = v
	return nil
}

func (f *configFile) choice(n *yaml.Node, what string, choices []string) (string, error) {
	s, err := f.text(n, what)
	if err == nil && !slices.Contains(choices, s) {
		err = f.errorf(n, didYouMean(s, choices, ""), "%s %q: not one of %s", what, s, strings.Join(choices, ", "))
	}
	return s, err
}

// checkEnv refuses variables that look like settings and are none: a mistyped
// SBSYNC_EXCLUDE would send what should stay. SBSYNC_PLUGIN_* are left to
// external providers.
func checkEnv(environ []string) error {
	known := []string{envName("config"), envName("dry-run")}
	for _, name := range settingNames() {
		known = append(known, envName(name))
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value != "" && strings.HasPrefix(name, "SBSYNC_") && !strings.HasPrefix(name, "SBSYNC_PLUGIN_") && !slices.Contains(known, name) {
			return usageError(didYouMean(name, known, `see "sbsync help config" for the names`),
				"unknown environment variable %q", name)
		}
	}
	return nil
}
