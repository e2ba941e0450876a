package cmd

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// inProject moves the test into an empty directory with an empty home, and
// writes config files: the project's and the user's.
func inProject(t *testing.T, project, user string) {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
		t.Setenv(name, home)
	}
	t.Chdir(t.TempDir())
	dir, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(dir, "sbsync", "config.yaml"), user)
	writeText(t, projectFile, project)
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if text == "" {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// settled returns the options that a command line has in the current
// directory. target names one of the config file, or is empty.
func settled(t *testing.T, target string, args ...string) (transfer.Options, error) {
	t.Helper()
	f := newTransferFlags()
	fs := pflag.NewFlagSet("push", pflag.ContinueOnError)
	f.register(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	c, err := loadConfig("")
	if err != nil {
		return transfer.Options{}, err
	}
	return c.settle(fs, f, c.targets[target], "")
}

func TestPrecedence(t *testing.T) {
	const user, project = "retries: 1\nidle-timeout: 1m\nsymlinks: skip\nlimit-file: 1M\n", "retries: 2\nidle-timeout: 2m\nsymlinks: follow\n"
	inProject(t, project, user)
	t.Setenv("SBSYNC_RETRIES", "3")
	t.Setenv("SBSYNC_IDLE_TIMEOUT", "3m")
	opt, err := settled(t, "", "--retries", "4")
	if err != nil {
		t.Fatal(err)
	}
	if opt.Retries != 4 || opt.IdleTimeout.Minutes() != 3 || opt.Symlinks != transfer.Follow || opt.Limits.File != 1<<20 {
		t.Errorf("got %d retries, %v, %s, %d; want the flag's 4, the environment's 3m, the project's follow, the user's 1 MiB",
			opt.Retries, opt.IdleTimeout, opt.Symlinks, opt.Limits.File)
	}
	if opt.Limits.PathBytes != transfer.DefaultLimits.PathBytes {
		t.Errorf("the default of limit-path became %d", opt.Limits.PathBytes)
	}
}

func TestExcludesAddUp(t *testing.T) {
	inProject(t, "exclude: ['*.p', '*.q']\ntargets: {dev: {provider: local, root: /x, exclude: '*.t'}}\n", "exclude: '*.u'\n")
	t.Setenv("SBSYNC_EXCLUDE", "*.e, with comma\n\n*.f\n")
	opt, err := settled(t, "dev", "--exclude", "!*.p", "--exclude", "a,b")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"*.u", "*.p", "*.q", "*.t", "*.e, with comma", "*.f", "!*.p", "a,b"}
	if !reflect.DeepEqual(opt.Exclude, want) {
		t.Errorf("excludes are %q, want %q", opt.Exclude, want)
	}
}

func TestPolicyLayers(t *testing.T) {
	for _, test := range []struct {
		name, user, project, target, env string
		args                             []string
		want                             transfer.Policy
	}{
		{name: "default", want: transfer.Update},
		{name: "project", project: "delete: true", want: transfer.Mirror},
		{name: "project over user", user: "replace: true", project: "delete: true", want: transfer.Mirror},
		{name: "project takes back", user: "delete: true", project: "delete: false", want: transfer.Update},
		{name: "no to one is not no to the other", user: "delete: true", project: "replace: false", want: transfer.Mirror},
		{name: "target over project", project: "delete: true", target: "replace", want: transfer.Replace},
		{name: "target update", project: "delete: true", target: "update", want: transfer.Update},
		{name: "environment over target", target: "replace", env: "true", want: transfer.Mirror},
		{name: "flag over environment", env: "true", args: []string{"--replace"}, want: transfer.Replace},
		{name: "flag takes back", env: "true", args: []string{"--delete=false"}, want: transfer.Update},
	} {
		t.Run(test.name, func(t *testing.T) {
			project := test.project + "\ntargets: {dev: {provider: local, root: /x"
			if test.target != "" {
				project += ", policy: " + test.target
			}
			inProject(t, project+"}}\n", test.user)
			if test.env != "" {
				t.Setenv("SBSYNC_DELETE", test.env)
			}
			opt, err := settled(t, "dev", test.args...)
			if err != nil || opt.Policy != test.want {
				t.Errorf("policy %s, %v; want %s", opt.Policy, err, test.want)
			}
		})
	}
}

func TestTargetRoute(t *testing.T) {
	inProject(t, "route: stream\ntargets: {dev: {provider: local, root: /x, route: base64}}\n", "")
	for _, test := range []struct {
		target string
		args   []string
		want   transfer.Route
	}{{"", nil, transfer.Stream}, {"dev", nil, transfer.Base64}, {"dev", []string{"--route=auto"}, transfer.Auto}} {
		if opt, err := settled(t, test.target, test.args...); err != nil || opt.Route != test.want {
			t.Errorf("target %q, %q: route %s, %v; want %s", test.target, test.args, opt.Route, err, test.want)
		}
	}
}

// Every slip is an error of kind Usage with file, line and a way out.
func TestConfigErrors(t *testing.T) {
	for _, test := range []struct{ name, project, want, hint string }{
		{"unknown key", "retries: 1\nexlude: x\n", `sbsync.yaml:2: unknown key "exlude"`, `"exclude"`},
		{"unknown section", "tragets: {}\n", `sbsync.yaml:1: unknown key "tragets"`, `"targets"`},
		{"far from anything", "zzzzzzzz: 1\n", `unknown key "zzzzzzzz"`, "known here: "},
		{"not for files", "dry-run: true\n", `unknown key "dry-run"`, ""},
		{"wrong word", "symlinks: folow\n", `sbsync.yaml:1: symlinks "folow": not one of`, `"follow"`},
		{"wrong number", "retries: many\n", `sbsync.yaml:1: retries "many": invalid syntax`, ""},
		{"yes is no bool", "delete: yep\n", `delete "yep": invalid syntax`, ""},
		{"list for one", "retries: [1, 2]\n", `"retries" must be a single value`, ""},
		{"null", "retries:\n", `"retries" must be a single value`, ""},
		{"mapping for one", "retries: {a: 1}\n", `"retries" must be a single value`, ""},
		{"twice", "retries: 1\nretries: 2\n", `sbsync.yaml:2: "retries" is given twice, first in line 1`, ""},
		{"syntax", "a: b\n  c: d\n", `sbsync.yaml:2: mapping values`, ""},
		{"tab", "targets:\n\tdev: {}\n", `sbsync.yaml:2: found character that cannot start any token`, ""},
		{"alias", "exclude: &a [x]\nretries: *a\n", `sbsync.yaml:2: aliases`, ""},
		{"list at top", "- a\n", `must be a mapping`, ""},
		{"two documents", "retries: 1\n---\nretries: 2\n", `more than one YAML document`, ""},
		{"target key", "targets:\n  dev:\n    provider: local\n    exlude: x\n", `sbsync.yaml:4: unknown key "exlude" in target "dev"`, `"exclude"`},
		{"target provider", "targets:\n  dev:\n    provider: locla\n", `sbsync.yaml:3: unknown provider "locla"`, `"local"`},
		{"target without provider", "targets:\n  dev:\n    root: /x\n", `sbsync.yaml:2: target "dev" has no provider`, "provider: local"},
		{"target root", "targets: {dev: {provider: local, root: x}}\n", `root "x" of target "dev" is not absolute`, ""},
		{"target policy", "targets: {dev: {provider: local, policy: mirror}}\n", `policy "mirror": not one of update, delete, replace`, ""},
		{"target name", "targets: {'a:b': {provider: local}}\n", `target name "a:b"`, ""},
		{"trusted only", "force: true\n", `not taken from a file that was found in the current directory`, "--config sbsync.yaml"},
		{"providers", "providers: {local: {exec_only: true}}\n", `not taken from a file`, "--config sbsync.yaml"},
		{"target setting", "targets: {dev: {provider: local, exec_only: true}}\n", `provider setting "exec_only" of target "dev" is not taken`, "--config"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inProject(t, test.project, "")
			_, err := loadConfig("")
			if err == nil || !strings.Contains(err.Error(), test.want) || provider.KindOf(err) != provider.Usage {
				t.Errorf("error %v, want a usage error with %q", err, test.want)
			} else if !strings.Contains(provider.HintOf(err), test.hint) {
				t.Errorf("hint %q, want %q in it", provider.HintOf(err), test.hint)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%q has more than one line", err)
			}
		})
	}
}

// The same settings are fine in the user's own file, and in a file that the
// user names.
func TestTrustedConfig(t *testing.T) {
	const text = "force: true\nproviders: {local: {exec_only: true}}\ntargets: {dev: {provider: local, root: /x, path: /bin}}\n"
	inProject(t, "", text)
	writeText(t, "other.yaml", text)
	for _, named := range []string{"", "other.yaml"} {
		c, err := loadConfig(named)
		if err != nil {
			t.Fatalf("--config %q: %v", named, err)
		}
		if c.providers["local"]["exec_only"] != true || c.targets["dev"].settings["path"] != "/bin" || c.settings.GetStringSlice("force")[0] != "true" {
			t.Errorf("--config %q: got %v, %v", named, c.providers, c.targets["dev"])
		}
	}
}

func TestNamedConfigReplacesOthers(t *testing.T) {
	inProject(t, "retries: 7\n", "retries: 8\n")
	writeText(t, "other.yaml", "idle-timeout: 5s\n")
	t.Setenv("SBSYNC_CONFIG", "other.yaml")
	if opt, err := settled(t, ""); err != nil || opt.Retries != transfer.NewOptions().Retries || opt.IdleTimeout.Seconds() != 5 {
		t.Errorf("got %d retries, %v, %v", opt.Retries, opt.IdleTimeout, err)
	}
	if _, err := loadConfig("missing.yaml"); provider.KindOf(err) != provider.Usage {
		t.Errorf("a missing --config file: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	inProject(t, "", "")
	t.Setenv("SBSYNC_PLUGIN_SECRET", "left to plugins")
	t.Setenv("SBSYNC_DRY_RUN", "1")
	t.Setenv("SBSYNC_ROOT", "/a\n/b c\n")
	opt, err := settled(t, "")
	if err != nil || !opt.DryRun || !reflect.DeepEqual(opt.SandboxRoots, []string{"/a", "/b c"}) {
		t.Errorf("dry run %v, roots %q, %v", opt.DryRun, opt.SandboxRoots, err)
	}
	t.Setenv("SBSYNC_RETRIES", "some")
	if _, err := settled(t, ""); err == nil || !strings.Contains(err.Error(), `SBSYNC_RETRIES="some"`) {
		t.Errorf("a wrong value: %v", err)
	}
	t.Setenv("SBSYNC_RETRIES", "")
	t.Setenv("SBSYNC_EXCLDUE", "x")
	if _, err := settled(t, ""); err == nil || !strings.Contains(provider.HintOf(err), "SBSYNC_EXCLUDE") {
		t.Errorf("a mistyped variable: %v", err)
	}
}

// What the help topic and docs/config.md show is a config file that works.
func TestConfigExamples(t *testing.T) {
	_, example, _ := strings.Cut(readText(t, "help/config.txt"), "sections:\n\n")
	example, _, _ = strings.Cut(example, "\n\n")
	examples := []string{regexp.MustCompile(`(?m)^  `).ReplaceAllString(example, "")}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(readText(t, "../docs/config.md"), -1) {
		examples = append(examples, m[1])
	}
	if len(examples) < 2 {
		t.Fatal("docs/config.md has no example")
	}
	for _, text := range examples {
		inProject(t, "", text)
		if c, err := loadConfig(""); err != nil || len(c.targets) == 0 {
			t.Errorf("%v in\n%s", err, text)
		}
	}
}

// Every setting is described in docs/config.md.
func TestConfigDocs(t *testing.T) {
	doc := readText(t, "../docs/config.md")
	for _, name := range settingNames() {
		if !strings.Contains(doc, "| `"+name+"` |") {
			t.Errorf("docs/config.md has no row for %s", name)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("retries: 1\ntargets: {dev: {provider: local, root: /x}}\n"))
	f.Add([]byte(`{"exclude": ["\ud83d\ude00", 1], "delete": true}`))
	f.Add([]byte("a: &x [*x]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := readDoc("fuzz.yaml", data)
		if err == nil {
			c := &config{targets: make(map[string]*namedTarget), providers: make(map[string]provider.Config)}
			err = c.parse(&configFile{yamlDoc: doc, trusted: true, values: make(map[string][]string)})
		}
		if err != nil && provider.KindOf(err) != provider.Usage {
			t.Errorf("error of kind %v: %v", provider.KindOf(err), err)
		}
	})
}
