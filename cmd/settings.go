package cmd

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// apply gives every flag of fs that was not typed its configured value. It
// does not mark them as typed.
// Excludes and the policy have rules of their own, see excludes and policy.
func (c *config) apply(fs *pflag.FlagSet) error {
	var failed error
	fs.VisitAll(func(flag *pflag.Flag) {
		if failed == nil && !flag.Changed && configurable(flag.Name) && c.settings.IsSet(flag.Name) {
			failed = c.applyTo(flag)
		}
	})
	return failed
}

func configurable(name string) bool {
	return name != "exclude" && settingFlags().Lookup(name) != nil
}

func (c *config) applyTo(flag *pflag.Flag) error {
	texts := c.settings.GetStringSlice(flag.Name)
	if env := os.Getenv(envName(flag.Name)); env != "" {
		texts = splitEnv(flag, env)
	}
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.Replace(texts)
	}
	for _, text := range texts {
		// Values of files were checked when they were read.
		if err := flag.Value.Set(text); err != nil {
			return usageError(provider.HintOf(err), "%s=%q: %w", envName(flag.Name), text, plainCause(err))
		}
	}
	return nil
}

// splitEnv returns the values in a variable. Lists have one item a line, since
// any other separator may be part of a name.
func splitEnv(flag *pflag.Flag, env string) []string {
	if _, list := flag.Value.(pflag.SliceValue); !list {
		return []string{env}
	}
	return slices.DeleteFunc(strings.Split(env, "\n"), func(s string) bool { return strings.TrimSpace(s) == "" })
}

// excludes returns the patterns of all layers, the strongest last, so that it
// can take back with "!" what a weaker one excludes. They add up: naming one
// more on the command line must not send what a config file keeps back.
func (c *config) excludes(fs *pflag.FlagSet, target *namedTarget) []string {
	var all []string
	for _, f := range c.files {
		all = append(all, f.values["exclude"]...)
	}
	if target != nil {
		all = append(all, target.exclude...)
	}
	flag := fs.Lookup("exclude")
	if env := os.Getenv(envName("exclude")); env != "" {
		all = append(all, splitEnv(flag, env)...)
	}
	return append(all, flag.Value.(pflag.SliceValue).GetSlice()...)
}

// policy settles --delete and --replace, which exclude each other within a
// layer, while a stronger layer overrules a weaker one.
func (c *config) policy(fs *pflag.FlagSet, target *namedTarget) (transfer.Policy, error) {
	policy := transfer.Update
	var failed error
	layer := func(where string, value func(name string) (text string, set bool)) {
		deletes, replaces := answerOf(value("delete")), answerOf(value("replace"))
		if deletes == yes && replaces == yes && failed == nil {
			failed = usageError("choose one", "%s: delete and replace exclude each other", where)
		}
		policy = overrule(policy, transfer.Mirror, deletes)
		policy = overrule(policy, transfer.Replace, replaces)
	}
	for _, f := range c.files {
		layer(f.name, func(name string) (string, bool) {
			v, ok := f.values[name]
			return strings.Join(v, ""), ok
		})
	}
	if target != nil && target.policy != "" {
		policy = map[string]transfer.Policy{"update": transfer.Update, "delete": transfer.Mirror, "replace": transfer.Replace}[target.policy]
	}
	layer("environment", func(name string) (string, bool) {
		env := os.Getenv(envName(name))
		return env, env != ""
	})
	layer("flags", func(name string) (string, bool) { return fs.Lookup(name).Value.String(), fs.Changed(name) })
	return policy, failed
}

// answer is a bool that may not have been given.
type answer int

const (
	unsaid answer = iota
	yes
	no
)

func answerOf(text string, set bool) answer {
	on, err := strconv.ParseBool(text)
	switch {
	case !set || err != nil:
		return unsaid
	case on:
		return yes
	}
	return no
}

func overrule(policy, by transfer.Policy, said answer) transfer.Policy {
	switch {
	case said == yes:
		return by
	case said == no && policy == by:
		return transfer.Update
	}
	return policy
}

// settle fills in flags from the configuration and the named target, and
// checks the result.
func (c *config) settle(fs *pflag.FlagSet, f *transferFlags, target *namedTarget, root string) (transfer.Options, error) {
	exclude := c.excludes(fs, target)
	policy, err := c.policy(fs, target)
	if err != nil {
		return transfer.Options{}, err
	}
	if err := c.apply(fs); err != nil {
		return transfer.Options{}, err
	}
	f.opt.Exclude, f.opt.Policy = exclude, policy
	f.opt.Route = c.route(fs, target, f.opt.Route)
	for i, dir := range f.opt.HostRoots {
		if f.opt.HostRoots[i], err = hostPath(dir); err != nil {
			return transfer.Options{}, err
		}
	}
	if root != "" && len(f.opt.SandboxRoots) == 0 {
		f.opt.SandboxRoots = []string{root}
	}
	return f.options(), f.check(fs)
}

// route returns the named target's route, unless a flag or the environment has
// one. settled is what they or the files say.
func (c *config) route(fs *pflag.FlagSet, target *namedTarget, settled transfer.Route) transfer.Route {
	if target == nil || target.route == "" || fs.Changed("route") || os.Getenv(envName("route")) != "" {
		return settled
	}
	return transfer.Route(target.route)
}

// describe tells which files were read, for -v.
func (c *config) describe() string {
	if len(c.files) == 0 {
		return "no config file"
	}
	var names []string
	for _, f := range c.files {
		names = append(names, fmt.Sprintf("%q", f.name))
	}
	return "config: " + strings.Join(names, ", ")
}
