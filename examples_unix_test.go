//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exampleDir returns a directory with what examples speak of, and a function
// that runs one line there. /tmp/box stands for a directory of the test's own.
func exampleDir(t *testing.T) func(t *testing.T, line string) {
	t.Helper()
	dir, box, home := t.TempDir(), t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"site/index.html": "<p>hello</p>\n", "site/css/a.css": "p {}\n", "site/debug.log": "x\n", "notes.txt": "note\n",
		"operations.json": `[{"operationId": "notes", "files": [{"sourcePath": "` + dir + `/notes.txt", "targetPath": "` + box +
			`/notes", "kind": "file", "mode": "0600"}], "postUploadCommands": [{"command": "cat notes"}]}]`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return func(t *testing.T, line string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(line, "/tmp/box", box))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}

// Every example of every help text runs, in the order of a user's day.
func TestHelpExamples(t *testing.T) {
	run := exampleDir(t)
	for _, topic := range []string{"sbsync", "push", "pull", "diff", "targets", "probe", "providers", "version", "completion", "help"} {
		text, err := os.ReadFile(filepath.Join("cmd", "help", topic+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		_, examples, found := strings.Cut(string(text), "\nExamples:\n")
		if !found {
			t.Errorf("help %s has no examples", topic)
		}
		for line := range strings.Lines(examples) {
			run(t, strings.TrimSpace(line))
		}
	}
}

// readmeBlocks returns the code blocks of a language in README.md.
func readmeBlocks(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

func TestReadmeEverydayUse(t *testing.T) {
	run := exampleDir(t)
	blocks := readmeBlocks(t, "sh")
	for line := range strings.Lines(blocks[len(blocks)-1]) {
		run(t, line)
	}
}

// The quick start works, in an empty folder and with a smaller tree.
func TestReadmeQuickStart(t *testing.T) {
	quick := strings.Fields(readmeBlocks(t, "console")[1])
	if len(quick) != 2 || quick[0] != "sh" {
		t.Fatalf("quick start %q", quick)
	}
	script, err := filepath.Abs(quick[1])
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", script, filepath.Join(goRoot(t), "src", "fmt"))
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"route stream", "route base64", "both are what the sandbox has"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func goRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
