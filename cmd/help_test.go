package cmd

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func testRoot() *cobra.Command {
	return (&app{drivers: drivers()}).rootCommand()
}

// A screen has 80 columns and 24 lines; the verbs with most flags may scroll by
// a few.
func TestHelpFitsAScreen(t *testing.T) {
	for _, c := range append(testRoot().Commands(), testRoot()) {
		text := readText(t, "help/"+c.Name()+".txt")
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > 28 && c.Name() != "flags" {
			t.Errorf("help %s has %d lines", c.Name(), len(lines))
		}
		for i, line := range lines {
			if len(line) > 80 || strings.TrimRight(line, " ") != line {
				t.Errorf("help %s, line %d: %d columns", c.Name(), i+1, len(line))
			}
		}
	}
}

var flagInText = regexp.MustCompile(`--([a-z][a-z-]+)`)

// A help text names no flag that its command does not have.
func TestHelpNamesRealFlags(t *testing.T) {
	for _, c := range testRoot().Commands() {
		if !c.Runnable() {
			continue
		}
		c.InheritedFlags() // makes cobra merge the root's flags
		for _, m := range flagInText.FindAllStringSubmatch(helpText(c), -1) {
			if c.Flags().Lookup(m[1]) == nil {
				t.Errorf("help %s: there is no flag --%s", c.Name(), m[1])
			}
		}
	}
}

// The topic "flags" has every flag there is, and no other.
func TestFlagsTopicIsComplete(t *testing.T) {
	text := readText(t, "help/flags.txt")
	listed := make(map[string]bool)
	for _, m := range flagInText.FindAllStringSubmatch(text, -1) {
		listed[m[1]] = true
	}
	exists := map[string]bool{"help": true}
	for _, name := range []string{"push", "pull", "diff"} {
		c, _, err := testRoot().Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		c.InheritedFlags()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			exists[f.Name] = true
			if !listed[f.Name] {
				t.Errorf("--%s is not in the topic", f.Name)
			}
		})
	}
	for name := range listed {
		if !exists[name] {
			t.Errorf("--%s does not exist", name)
		}
	}
}

// The defaults in the topic "flags" are the program's.
func TestFlagsTopicDefaults(t *testing.T) {
	text := readText(t, "help/flags.txt")
	for flag, value := range map[string]string{"retries": "(3)", "idle-timeout": "(2m)", "limit-entries": "(5000000)",
		"limit-path": "(4095)", "limit-total": "(0)", "limit-file": "(0)"} {
		line := regexp.MustCompile(`(?m)^.*--` + flag + ` .*$`).FindString(text)
		if !strings.Contains(line, value) {
			t.Errorf("%q does not say %s", line, value)
		}
	}
	f := newTransferFlags()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.register(fs)
	for flag, value := range map[string]string{"retries": "3", "idle-timeout": "2m0s", "limit-entries": "5000000",
		"limit-path": "4095", "limit-total": "0", "limit-file": "0", "max-delete": "-1", "route": "auto", "symlinks": "preserve"} {
		if got := fs.Lookup(flag).DefValue; got != value {
			t.Errorf("--%s is %s by default", flag, got)
		}
	}
}

// Every command has a text of its own.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, c := range testRoot().Commands() {
		if text := readText(t, "help/"+c.Name()+".txt"); !c.Runnable() || strings.HasPrefix(text, "Usage: sbsync "+c.Name()) {
			continue
		}
		t.Errorf("help %s does not begin with its usage", c.Name())
	}
}
