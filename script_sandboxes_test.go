package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sbsync/sbsync/pkg/provider/providertest"
)

// everywhere is a comment line of scripts that run in each of scriptSandboxes.
const everywhere = "\n# Runs in every sandbox.\n"

// scriptSandbox is a kind of sandbox. A script sees it as
//
//	$ROUTE    the route that is asked for, by SBSYNC_ROUTE
//	$TOOLS    gnu or busybox: what the sandbox's PATH holds
//
// and as conditions, [base64] and [busybox]. tree-equal then compares whole seconds, since
// BusyBox's touch and tar set no more.
type scriptSandbox struct{ route, tools string }

var scriptSandboxes = []scriptSandbox{
	{"stream", "gnu"}, {"base64", "gnu"}, {"stream", "busybox"}, {"base64", "busybox"},
}

// scriptFiles returns the scripts that run in every sandbox, and the others.
func scriptFiles(t *testing.T) (every, once []string) {
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(everywhere)) {
			every = append(every, file)
		} else {
			once = append(once, file)
		}
	}
	return every, once
}

// TestScriptsEverywhere runs the scripts that say so in each kind of sandbox.
// Run one with
//
//	go test -run TestScriptsEverywhere/base64,_busybox/NAME .
func TestScriptsEverywhere(t *testing.T) {
	every, _ := scriptFiles(t)
	for _, s := range scriptSandboxes {
		t.Run(s.route+", "+s.tools, func(t *testing.T) {
			busybox := ""
			if s.tools == "busybox" {
				busybox = providertest.BusyBoxPath(t)
			}
			params := scriptParams(t)
			params.Files = every
			params.Condition = s.condition
			setup := params.Setup
			params.Setup = func(env *testscript.Env) error {
				if err := setup(env); err != nil {
					return err
				}
				env.Setenv("SBSYNC_ROUTE", s.route)
				env.Setenv("ROUTE", s.route)
				env.Setenv("TOOLS", s.tools)
				if s.tools == "busybox" {
					return writeUserConfig(env, "providers:\n  local:\n    path: "+busybox+"\n")
				}
				return nil
			}
			testscript.Run(t, params)
		})
	}
}

// condition knows [busybox] and [base64], beside scriptCondition.
func (s scriptSandbox) condition(name string) (bool, error) {
	switch name {
	case "busybox":
		return s.tools == "busybox", nil
	case "base64":
		return s.route == "base64", nil
	}
	return scriptCondition(name)
}

func writeUserConfig(env *testscript.Env, text string) error {
	dir := filepath.FromSlash(env.Getenv("CONFIG"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o644)
}
