package providertest

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

func TestParseOptions(t *testing.T) {
	got, err := ParseOptions(provider.Config{
		"stream": true, "cut_stdout": 1000, "max_stdout": int64(5), "max_arg": float64(7), "without": []any{"tar", "find"}, "only": []string{"sh"},
		"delay_exit": "1.5s", "cut_stream_out": "members=2,times=1,break", "cut_stream_in": "inside=3", "base64_wrap": "crlf",
	})
	want := Options{Stream: true, CutStdout: 1000, MaxStdout: 5, MaxArg: 7, Without: []string{"tar", "find"}, Only: []string{"sh"},
		DelayExit: 1500 * time.Millisecond, CutStreamOut: Cut{Members: 2, Times: 1, Break: true}, CutStreamIn: Cut{Inside: 3}, Base64Wrap: WrapCRLF}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for key, value := range map[string]any{
		"stram": true, "stream": "yes", "delay_exit": 5, "max_arg": 1.5, "max_stdout": "5", "without": "tar", "base64_wrap": 5,
		"cut_stream_in": "member=2", "cut_stream_out": "members=x", "box": nil, "die_at": nil,
	} {
		_, err := ParseOptions(provider.Config{key: value})
		if provider.KindOf(err) != provider.Usage || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v is accepted: %v", key, value, err)
		}
	}
	_, err = ParseOptions(provider.Config{"stram": true})
	if provider.HintOf(err) != `did you mean "stream"?` {
		t.Errorf("hint %q", provider.HintOf(err))
	}
}

// Every option can be set from a configuration.
func TestEveryOptionHasAKey(t *testing.T) {
	keys := make(map[string]bool)
	options := reflect.TypeFor[Options]()
	for i := range options.NumField() {
		key := options.Field(i).Tag.Get("key")
		if key == "" || keys[key] {
			t.Errorf("%s: key %q is empty or taken", options.Field(i).Name, key)
		}
		keys[key] = true
	}
}

func TestDriverOpens(t *testing.T) {
	var opened *Fake
	registry := provider.NewRegistry(Driver{OnOpen: func(f *Fake) { opened = f }})
	target, driver, err := registry.Parse("fake:any:/srv/box", "linux", nil)
	if err != nil || target.Path != "/srv/box" {
		t.Fatal(target, err)
	}
	sb, err := driver.Open(t.Context(), target.Ref, provider.Config{"no_stdin": true})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	if sb != provider.Sandbox(opened) || sb.Capabilities().Stdin {
		t.Errorf("opened %v, capabilities %+v", opened, sb.Capabilities())
	}
	if _, err := driver.Open(t.Context(), "any", provider.Config{"nope": 1}); provider.KindOf(err) != provider.Usage {
		t.Errorf("unknown key: %v", err)
	}
}
