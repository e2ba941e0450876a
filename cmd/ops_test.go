package cmd

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// hostAbs makes an absolute path of this machine out of a POSIX one.
func hostAbs(path string) string {
	if runtime.GOOS == "windows" {
		return `C:` + filepath.FromSlash(path)
	}
	return path
}

func mode(bits uint32) *uint32 { return &bits }

func TestParseOps(t *testing.T) {
	want := []transfer.Operation{{
		ID: "assets",
		Files: []transfer.Mapping{
			{Source: hostAbs("/src/site"), Target: "/srv/site", Kind: transfer.DirectoryKind, Mode: mode(0o644),
				Exclude: []string{"*.log", "tmp"}, Symlinks: transfer.Follow, Policy: transfer.Replace},
			{Source: hostAbs("/src/key"), Target: "/srv/key", Kind: transfer.FileKind, Mode: mode(0o600)},
			{Source: hostAbs("/src/dir"), Target: "/srv/dir", Kind: transfer.DirectoryKind, Symlinks: transfer.Preserve, Policy: transfer.Replace},
		},
		Commands: []transfer.PostCommand{{Command: "make\n", Dir: "/srv/site", Timeout: 1500 * time.Millisecond}, {Command: "true"}},
	}, {ID: "2", Files: []transfer.Mapping{{Source: hostAbs("/src/x"), Target: "/srv/x", Kind: transfer.FileKind}}}}
	for name, text := range map[string]string{
		"json": `{"operations": [
			{"operationId": "assets",
			 "files": [
				{"sourcePath": %[1]q, "targetPath": "/srv/site", "kind": "directory", "mode": 420, "exclude": ["*.log", "tmp"], "followSymlinks": true},
				{"sourcePath": %[2]q, "targetPath": "/srv/key", "kind": "file", "mode": "0600", "access": "ro", "followSymlinks": false, "exclude": []},
				{"sourcePath": %[3]q, "targetPath": "\/srv\/dir", "kind": "directory", "writablePath": null}],
			 "postUploadCommands": [{"command": "make\n", "cwd": "/srv/site", "timeoutMs": 1500}, {"command": "true"}]},
			{"operationId": "2", "files": [{"sourcePath": %[4]q, "targetPath": "/srv/x", "kind": "file"}]}]}`,
		"yaml": `
- operationId: assets
  files:
  - {sourcePath: %[1]q, targetPath: /srv/site, kind: directory, mode: "0644", exclude: ["*.log", tmp], followSymlinks: true}
  - {sourcePath: %[2]q, targetPath: /srv/key, kind: file, mode: 0600}
  - sourcePath: %[3]q
    targetPath: /srv/dir
    kind: directory
  postUploadCommands:
  - command: |
      make
    cwd: /srv/site
    timeoutMs: 1500
  - command: "true"
- operationId: "2"
  files: [{sourcePath: %[4]q, targetPath: /srv/x, kind: file}]
`,
	} {
		text = fmt.Sprintf(text, hostAbs("/src/site"), hostAbs("/src/key"), hostAbs("/src/dir"), hostAbs("/src/x"))
		got, err := parseOps("ops", []byte(text), transfer.Push)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, got, want)
		}
	}
}

// The field names are those of the seam: what it writes can be read.
func TestParseOpsReadsTheSeam(t *testing.T) {
	bits := uint32(0o640)
	data, err := json.Marshal([]provider.SyncOperation{{ID: "a", Files: []provider.SyncMapping{{SourcePath: hostAbs("/s"), TargetPath: "/t",
		Kind: "directory", Mode: &bits, Exclude: []string{"x"}, FollowSymlinks: true}},
		Commands: []provider.SyncCommand{{Command: "true", Cwd: "/t", TimeoutMs: 5}}}})
	if err != nil {
		t.Fatal(err)
	}
	ops, err := parseOps("ops", data, transfer.Push)
	if err != nil {
		t.Fatal(err)
	}
	m, c := ops[0].Files[0], ops[0].Commands[0]
	if ops[0].ID != "a" || m.Source != hostAbs("/s") || m.Target != "/t" || *m.Mode != bits || m.Symlinks != transfer.Follow ||
		len(m.Exclude) != 1 || c.Command != "true" || c.Dir != "/t" || c.Timeout != 5*time.Millisecond {
		t.Errorf("got %+v", ops)
	}
}

func TestParseOpsErrors(t *testing.T) {
	operation := func(mapping string) string {
		return "- operationId: a\n  files:\n  - {sourcePath: '" + hostAbs("/s") + "', targetPath: /t, kind: file" + mapping + "}\n"
	}
	for _, test := range []struct {
		name, text, want, hint string
		kind                   provider.Kind
	}{
		{"empty", "", "no operations", "", provider.Usage},
		{"empty object", "{}", "no operations", "", provider.Usage},
		{"not a list", "operations: 3\n", "must be a list", "", provider.Usage},
		{"unknown outer key", "operation: []\n", `unknown key "operation"`, `"operations"`, provider.Usage},
		{"unknown field", operation(", followSymlink: true"), `ops:3: unknown key "followSymlink" in a mapping`, `"followSymlinks"`, provider.Usage},
		{"field of another case", operation(", Mode: 1"), `unknown key "Mode"`, `"mode"`, provider.Usage},
		{"no id", "- files: []\n", "no operationId", "", provider.Usage},
		{"number as id", "- operationId: 1.10\n  files: []\n", "operationId must be a string", "quotes", provider.Usage},
		{"no files", "- operationId: a\n", `operation "a" has no files`, "", provider.Usage},
		{"no kind", "- operationId: a\n  files: [{sourcePath: '" + hostAbs("/s") + "', targetPath: /t}]\n", "no kind", "", provider.Usage},
		{"wrong kind", operation("")[:len(operation(""))-6] + "dir}\n", `kind "dir": not one of`, "", provider.Usage},
		{"relative source", "- operationId: a\n  files: [{sourcePath: s, targetPath: /t, kind: file}]\n", `sourcePath "s" is not absolute`, "", provider.Confined},
		{"standard input", "- operationId: a\n  files: [{sourcePath: '-', targetPath: /t, kind: file}]\n", `sourcePath "-" is not absolute`, "", provider.Confined},
		{"relative target", "- operationId: a\n  files: [{sourcePath: '" + hostAbs("/s") + "', targetPath: t, kind: file}]\n", `targetPath "t" is not absolute`, "", provider.Confined},
		{"octal without quotes", operation(", mode: 600"), "mode 600: as a number this is octal 1130", `"0600"`, provider.Usage},
		{"mode too large", operation(", mode: 65536"), "not a mode", "", provider.Usage},
		{"mode no octal", operation(", mode: '0888'"), `mode "0888": not a mode`, "octal", provider.Usage},
		{"mode null", operation(", mode: null"), "mode must be a single value", "", provider.Usage},
		{"exclude of a file", operation(", exclude: [x]"), "exclude is for directory mappings only", "", provider.Usage},
		{"exclude not a list", operation(", exclude: x"), "exclude must be a list", "", provider.Usage},
		{"follow a file", operation(", followSymlinks: true"), "for directory mappings only", "", provider.Usage},
		{"follow no bool", operation(", followSymlinks: 1"), "must be true or false", "", provider.Usage},
		{"empty command", operation("") + "  postUploadCommands: [{cwd: /t}]\n", "has no command", "", provider.Usage},
		{"relative cwd", operation("") + "  postUploadCommands: [{command: x, cwd: t}]\n", `cwd "t" is not absolute`, "", provider.Confined},
		{"negative timeout", operation("") + "  postUploadCommands: [{command: x, timeoutMs: -1}]\n", "timeoutMs must be", "", provider.Usage},
		{"fraction of a timeout", operation("") + "  postUploadCommands: [{command: x, timeoutMs: 1.5}]\n", "timeoutMs must be", "", provider.Usage},
		{"cut JSON", `[{"operationId": "a", `, "ops:1: unexpected EOF", "", provider.Usage},
		{"JSON line", "[\n\n{\"operationId\": 7}]", "ops:3: operationId must be a string", "", provider.Usage},
		{"JSON twice", "[{\"operationId\": \"a\",\n\"operationId\": \"b\"}]", `ops:2: "operationId" is given twice`, "", provider.Usage},
		{"JSON more", "[] []", "data after the end", "", provider.Usage},
		{"JSON deep", strings.Repeat("[", 5000), "nested too deeply", "", provider.Usage},
		{"JSON syntax", "[\n{,}]", "ops:2: invalid character", "", provider.Usage},
	} {
		_, err := parseOps("ops", []byte(test.text), transfer.Push)
		if err == nil || !strings.Contains(err.Error(), test.want) || provider.KindOf(err) != test.kind {
			t.Errorf("%s: error %v of kind %v, want %q of kind %v", test.name, err, provider.KindOf(err), test.want, test.kind)
		} else if !strings.Contains(provider.HintOf(err), test.hint) {
			t.Errorf("%s: hint %q, want %q in it", test.name, provider.HintOf(err), test.hint)
		}
	}
}

func TestParseOpsPull(t *testing.T) {
	const text = `[{"operationId": "a", "files": [{"sourcePath": "/s", "targetPath": %q, "kind": "file"}]%s}]`
	if _, err := parseOps("ops", fmt.Appendf(nil, text, hostAbs("/t"), ""), transfer.Pull); err != nil {
		t.Error(err)
	}
	_, err := parseOps("ops", fmt.Appendf(nil, text, hostAbs("/t"), `, "postUploadCommands": [{"command": "x"}]`), transfer.Pull)
	if provider.KindOf(err) != provider.Usage {
		t.Errorf("commands after a pull: %v", err)
	}
}

func FuzzParseOps(f *testing.F) {
	f.Add([]byte(`{"operations": [{"operationId": "a", "files": [{"sourcePath": "/s", "targetPath": "/t", "kind": "file", "mode": "0600"}]}]}`))
	f.Add([]byte("- operationId: a\n  files:\n  - {sourcePath: /s, targetPath: /t, kind: directory, mode: 0644, exclude: [x], followSymlinks: true}\n" +
		"  postUploadCommands: [{command: x, cwd: /t, timeoutMs: 1}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ops, err := parseOps("fuzz", data, transfer.Push)
		if err != nil {
			if kind := provider.KindOf(err); kind != provider.Usage && kind != provider.Confined {
				t.Errorf("error of kind %v: %v", kind, err)
			}
			return
		}
		for _, op := range ops {
			for _, m := range op.Files {
				if !filepath.IsAbs(m.Source) || !strings.HasPrefix(m.Target, "/") || m.Kind == transfer.AnyKind {
					t.Errorf("mapping %+v passed", m)
				}
			}
		}
	})
}
