package providertest

import (
	"context"
	"encoding"
	"fmt"
	"reflect"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Driver opens fakes, for tests of the command line: provider "fake", targets
// fake:ANY:/path, where the path is one of this machine. Its configuration keys
// are those of [Options]; durations are written as "1s", cuts as "members=2".
type Driver struct {
	// OnOpen, if set, gets each fake that is opened.
	OnOpen func(*Fake)
}

// Name is "fake".
func (Driver) Name() string { return "fake" }

// Aliases has none.
func (Driver) Aliases() []string { return nil }

// Summary is one line.
func (Driver) Summary() string {
	return "a sandbox on this machine that misbehaves on demand, for tests"
}

// HasRef is true, as for most providers; the reference is not looked at.
func (Driver) HasRef() bool { return true }

// Open makes a new fake.
func (d Driver) Open(_ context.Context, _ string, cfg provider.Config) (provider.Sandbox, error) {
	opts, err := ParseOptions(cfg)
	if err != nil {
		return nil, err
	}
	f, err := NewFake(opts)
	if err != nil {
		return nil, err
	}
	if d.OnOpen != nil {
		d.OnOpen(f)
	}
	return f, nil
}

// ParseOptions reads options from configuration values: strings, numbers,
// booleans, and lists of strings. Errors are of kind Usage.
func ParseOptions(cfg provider.Config) (Options, error) {
	var opts Options
	fields := make(map[string]reflect.Value)
	var keys []string
	v := reflect.ValueOf(&opts).Elem()
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("key")
		fields[key] = v.Field(i)
		keys = append(keys, key)
	}
	for key, value := range cfg {
		field, ok := fields[key]
		if !ok {
			e := provider.New(provider.Usage, fmt.Sprintf("fake: unknown key %q", key), "")
			if s := provider.Suggest(key, keys); s != "" {
				e.Hint = fmt.Sprintf("did you mean %q?", s)
			}
			return Options{}, e
		}
		if err := setOption(field, value); err != nil {
			return Options{}, &provider.Error{Kind: provider.Usage, Op: fmt.Sprintf("fake: key %q", key), Err: err}
		}
	}
	return opts, nil
}

func setOption(field reflect.Value, value any) error {
	text, isText := value.(string)
	switch to := field.Addr().Interface().(type) {
	case *time.Duration:
		d, err := time.ParseDuration(fmt.Sprint(value))
		*to = d
		return err
	case encoding.TextUnmarshaler:
		if isText {
			return to.UnmarshalText([]byte(text))
		}
	case *[]string:
		list, ok := value.([]any)
		for _, item := range list {
			*to = append(*to, fmt.Sprint(item))
		}
		if texts, isTexts := value.([]string); isTexts {
			*to, ok = texts, true
		}
		if ok {
			return nil
		}
	case *string:
		if isText {
			*to = text
			return nil
		}
	case *bool:
		if b, ok := value.(bool); ok {
			*to = b
			return nil
		}
	default: // the rest are integers
		if n := reflect.ValueOf(value); n.IsValid() && n.CanInt() {
			field.SetInt(n.Int())
			return nil
		} else if n.IsValid() && n.CanFloat() && n.Float() == float64(int64(n.Float())) {
			field.SetInt(int64(n.Float()))
			return nil
		}
	}
	return fmt.Errorf("unusable value %v (%T)", value, value)
}
