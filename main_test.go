package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sbsync": main})
}

// TestScripts runs testdata/script/*.txtar against the real main, but for those
// that TestScriptsEverywhere runs. Run one with
//
//	go test -run TestScripts/NAME .
//
// A script starts in its own empty $WORK. What testscript has no command for is
// in script_test.go. Scripts that need a Unix begin with "[!unix] skip".
func TestScripts(t *testing.T) {
	params := scriptParams(t)
	_, params.Files = scriptFiles(t)
	testscript.Run(t, params)
}

func scriptParams(t *testing.T) testscript.Params {
	goSource := goSourceDir(t)
	return testscript.Params{
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                scriptCommands(),
		Condition:           scriptCondition,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GOSRC", goSource)
			return setupScript(env)
		},
	}
}

// setupScript gives a script
//
//	$BOX      an empty directory to be the sandbox
//	$HOME     an empty home
//	$CONFIG   the directory of the user's config file; it does not exist yet
//	$GOSRC    the standard library's source, about 10,000 files
//	$ARCHIVES testdata/hostile
func setupScript(env *testscript.Env) error {
	env.Setenv("GORACE", os.Getenv("GORACE"))
	home, box := filepath.Join(env.WorkDir, ".home"), filepath.Join(env.WorkDir, ".box")
	for _, dir := range []string{home, box} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	config := filepath.Join(home, ".config")
	switch runtime.GOOS {
	case "windows":
		config = filepath.Join(home, "AppData")
		env.Setenv("USERPROFILE", home)
		env.Setenv("AppData", config)
	case "darwin":
		config = filepath.Join(home, "Library", "Application Support")
	}
	archives, err := filepath.Abs(filepath.Join("testdata", "hostile"))
	if err != nil {
		return err
	}
	env.Setenv("ARCHIVES", archives)
	env.Setenv("HOME", home)
	env.Setenv("BOX", filepath.ToSlash(box))
	env.Setenv("CONFIG", filepath.Join(config, "sbsync"))
	return nil
}

func goSourceDir(t *testing.T) string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env GOROOT: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src")
}

// scriptCondition knows [root]: the tests run as the superuser, to whom
// permissions don't apply.
func scriptCondition(name string) (bool, error) {
	if name == "root" {
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}
