package cmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
)

func TestChooseRoute(t *testing.T) {
	for _, test := range []struct {
		name   string
		wanted transfer.Route
		base64 bool
		chosen transfer.Route
		kind   provider.Kind
	}{
		{"best", transfer.Auto, true, transfer.Stream, provider.Other},
		{"wanted", transfer.Base64, true, transfer.Base64, provider.Other},
		{"wanted but impossible", transfer.Base64, false, "", provider.NotImplemented},
		{"never offered", transfer.Sync, true, "", provider.NotImplemented},
	} {
		routes := []transfer.RouteVerdict{{Route: transfer.Sync}, {Route: transfer.Stream, OK: true, Chosen: true},
			{Route: transfer.Base64, OK: test.base64, Why: "because"}}
		err := choose(routes, test.wanted)
		if provider.KindOf(err) != test.kind || (err != nil) != (test.chosen == "") {
			t.Errorf("%s: %v", test.name, err)
		}
		for _, v := range routes {
			if v.Chosen != (v.Route == test.chosen) {
				t.Errorf("%s: %s is chosen: %v", test.name, v.Route, v.Chosen)
			}
		}
	}
	if err := choose([]transfer.RouteVerdict{{Route: transfer.Base64}}, transfer.Auto); provider.KindOf(err) != provider.Missing {
		t.Errorf("no route at all: %v", err)
	}
}

func TestWrap(t *testing.T) {
	for text, want := range map[string][]string{
		"":                   nil,
		"one two":            {"one two"},
		"one two three four": {"one two", "three four"},
		"unbreakable-word x": {"unbreakable-word x"},
		"a  b":               {"a  b"},
		"1234567890 x":       {"1234567890", "x"},
	} {
		if got := wrap(text, 10); !slices.Equal(got, want) {
			t.Errorf("wrap(%q) = %q, want %q", text, strings.Join(got, "|"), strings.Join(want, "|"))
		}
	}
}
