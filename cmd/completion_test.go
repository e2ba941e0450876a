package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The scripts in completions/ are what this program writes.
func TestCompletionsAreFresh(t *testing.T) {
	for shell, name := range CompletionFiles() {
		var want bytes.Buffer
		if err := WriteCompletion(&want, shell); err != nil {
			t.Fatal(err)
		}
		got := readText(t, filepath.Join("..", "completions", name))
		if got != want.String() {
			t.Errorf("completions/%s is stale: run go generate ./...", name)
		}
	}
}

// complete returns what is offered for the last of args.
func complete(t *testing.T, args ...string) []string {
	t.Helper()
	var out, err bytes.Buffer
	if code := Execute(t.Context(), append([]string{"__completeNoDesc"}, args...), Stdio{Out: &out, Err: &err}); code != 0 {
		t.Fatalf("exit code %d: %s", code, &err)
	}
	words := strings.Fields(out.String())
	return words[:len(words)-1] // the last one is the directive
}

func TestCompletion(t *testing.T) {
	inProject(t, "targets: {dev: {provider: local, root: /x}}\n", "")
	dir := t.TempDir()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home) // on Windows
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".ssh", "config"), []byte("Host web build-1 *.example.com !x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sub", ".hidden"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	local := "local:" + filepath.ToSlash(dir) + "/"
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"pu"}, []string{"pull", "push"}},
		{[]string{"push", "src", ""}, []string{"daytona:", "dev", "docker:", "kubernetes:", "local:", "ssh:"}},
		{[]string{"push", "src", "l"}, []string{"local:"}},
		{[]string{"push", "src", local}, []string{local + "sub/"}},
		{[]string{"push", "src", local + ".h"}, []string{local + ".hidden/"}},
		{[]string{"push", "src", "local:"}, []string{"local:/"}},
		{[]string{"push", "src", "local:rel"}, nil},
		{[]string{"push", "src", "unknown:x"}, nil},
		{[]string{"push", "src", "ssh:"}, []string{"ssh:build-1:/", "ssh:web:/"}},
		{[]string{"push", "src", "ssh:me@w"}, []string{"ssh:me@web:/"}},
		{[]string{"pull", "ssh:web:/x"}, nil},
		{[]string{"push", ""}, nil},
		{[]string{"push", "--ops", "f", "de"}, []string{"dev"}},
		{[]string{"pull", "de"}, []string{"dev"}},
		{[]string{"pull", "dev", ""}, nil},
		{[]string{"probe", "dev", ""}, nil},
		{[]string{"diff", "de"}, []string{"dev"}},
		{[]string{"push", "--symlinks", ""}, []string{"preserve", "follow", "skip", "reject"}},
		{[]string{"probe", "--route", ""}, []string{"auto", "sync", "stream", "bulk", "base64"}},
		{[]string{"completion", "z"}, []string{"zsh"}},
		{[]string{"help", "exit"}, []string{"exit-codes"}},
	} {
		if got := complete(t, test.args...); !slices.Equal(got, test.want) {
			t.Errorf("%q offers %q, want %q", test.args, got, test.want)
		}
	}
}

// Completing must not fail, nor say anything, because of a slip in a file.
func TestCompletionWithBrokenConfig(t *testing.T) {
	inProject(t, "tragets: {}\n", "")
	if got := complete(t, "push", "src", ""); !slices.Equal(got, []string{"daytona:", "docker:", "kubernetes:", "local:", "ssh:"}) {
		t.Errorf("offers %q", got)
	}
}
