// Package pkg holds nothing. Its test keeps the packages in their layers.
package pkg

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sbsync/sbsync"

// layers says which packages of this module each package may import, tests
// aside. Data goes one way: cmd -> transfer -> provider, with script, tarball,
// confine and tree beneath. A package that is not here has no place yet.
func layers() map[string][]string {
	return map[string][]string{
		"":                {"cmd"},
		"completions/gen": {"cmd"},
		"cmd":             {"pkg/transfer", "pkg/tree", "pkg/provider"}, // and drivers, in one file
		"pkg/transfer":    {"pkg/script", "pkg/shell", "pkg/tarball", "pkg/confine", "pkg/tree", "pkg/provider"},
		"pkg/script":      {"pkg/provider"},
		"pkg/tarball":     {"pkg/confine", "pkg/tree"},
		"pkg/confine":     {"pkg/tree", "pkg/provider"},
		"pkg/tree":        {"pkg/provider"},
		"pkg/provider":    {},
		"pkg/shell":       {},
		driver:            {"pkg/provider", "pkg/provider/remote", "pkg/shell"},
		// What drivers have in common.
		"pkg/provider/remote": {"pkg/provider"},
		// The fake is the local sandbox, made worse.
		"pkg/provider/providertest": {"pkg/provider", "pkg/provider/local"},
	}
}

// driver stands for every package below pkg/provider that has no line of its
// own.
const driver = "pkg/provider/*"

// driversFile is the one file that names drivers.
const driversFile = "cmd/drivers.go"

// light says which modules packages below pkg may use. What is not here is for
// cmd and for drivers alone: whoever imports the engine gets no flags, no
// configuration and no progress bar with it.
func light() []string {
	return []string{"golang.org/x/", "github.com/klauspost/compress/", "go.uber.org/goleak"}
}

const noPlace = "the package has no place in the layers; give it one in this test"

// forTests says whether a package helps tests alone. It may import what it
// likes but cmd, and nothing that is no test may import it.
func forTests(pkg string) bool {
	top, _, _ := strings.Cut(pkg, "/")
	return top == "bench" || top == "e2e" || top == "internal"
}

// isDriver says whether a package is a driver.
func isDriver(pkg string) bool {
	_, named := layers()[pkg]
	return path.Dir(pkg) == "pkg/provider" && !named
}

// forbidden says why a file may not import a path, or "".
func forbidden(file, imported string) string {
	from := path.Dir(file)
	if from == "." {
		from = ""
	}
	to, ours := strings.CutPrefix(imported, module+"/")
	key := from
	if isDriver(from) {
		key = driver
	}
	may, known := layers()[key]
	switch {
	case forTests(from):
		if ours && to == "cmd" {
			return "it is not for tests"
		}
		return ""
	case !known:
		return noPlace
	case !ours:
		return tooHeavy(from, imported)
	case isDriver(to) && file == driversFile:
		return ""
	case isDriver(to) && from == "cmd":
		return "drivers are named in " + driversFile + " alone"
	case to == from || strings.HasPrefix(to, from+"/internal/"):
		return ""
	case !slices.Contains(may, to):
		return "it is not beneath"
	}
	return ""
}

func tooHeavy(from, imported string) string {
	first, _, _ := strings.Cut(imported, "/")
	standard := !strings.Contains(first, ".")
	if standard || !strings.HasPrefix(from, "pkg/") || isDriver(from) {
		return ""
	}
	for _, prefix := range light() {
		if strings.HasPrefix(imported, prefix) {
			return ""
		}
	}
	return "packages below pkg stay light"
}

func TestLayers(t *testing.T) {
	files := 0
	walkGoFiles(t, func(name string, imports []string) {
		files++
		for _, imported := range imports {
			why := forbidden(name, imported)
			if why != "" {
				t.Errorf("%s may not import %q: %s", name, imported, why)
			}
			if why == noPlace {
				break
			}
		}
	})
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
}

// walkGoFiles calls do with each Go file of the module that is no test, for
// every operating system, and what it imports.
func walkGoFiles(t *testing.T, do func(name string, imports []string)) {
	t.Helper()
	const root = ".."
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != root && skipDir(p, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		var imports []string
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, imported)
		}
		rel, err := filepath.Rel(root, p)
		do(filepath.ToSlash(rel), imports)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// skipDir leaves out what the go command does, and modules of their own.
func skipDir(p, name string) bool {
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(p, "go.mod"))
	return err == nil
}

func TestForbidden(t *testing.T) {
	const other = "example.org/other"
	tests := []struct {
		file, imported string
		ok             bool
	}{
		{"main.go", module + "/cmd", true},
		{"main.go", module + "/pkg/transfer", false},
		{"cmd/push.go", module + "/pkg/transfer", true},
		{"cmd/push.go", "github.com/spf13/cobra", true},
		{driversFile, module + "/pkg/provider/docker", true},
		{"cmd/push.go", module + "/pkg/provider/docker", false},
		{"cmd/push.go", module + "/pkg/provider/providertest", false},
		{"pkg/transfer/run.go", module + "/pkg/provider", true},
		{"pkg/transfer/run.go", module + "/pkg/provider/local", false},
		{"pkg/transfer/run.go", module + "/cmd", false},
		{"pkg/transfer/run.go", other, false},
		{"pkg/tree/scan.go", module + "/pkg/transfer", false},
		{"pkg/confine/stage.go", module + "/pkg/tarball", false},
		{"pkg/confine/stage.go", "golang.org/x/text/unicode/norm", true},
		{"pkg/provider/retry.go", module + "/pkg/tree", false},
		{"pkg/provider/docker/exec.go", module + "/pkg/provider", true},
		{"pkg/provider/docker/exec.go", other, true},
		{"pkg/provider/docker/exec.go", module + "/pkg/provider/docker/internal/frames", true},
		{"pkg/provider/docker/exec.go", module + "/pkg/provider/ssh", false},
		{"pkg/provider/docker/exec.go", module + "/pkg/provider/local", false},
		{"pkg/provider/docker/exec.go", module + "/pkg/transfer", false},
		{"pkg/provider/providertest/fake.go", module + "/pkg/provider/local", true},
		{"pkg/novel/novel.go", "fmt", false},
		{"internal/trees/make.go", module + "/pkg/provider/local", true},
		{"internal/trees/make.go", module + "/cmd", false},
		{"pkg/tree/scan.go", module + "/internal/trees", false},
	}
	for _, test := range tests {
		if why := forbidden(test.file, test.imported); (why == "") != test.ok {
			t.Errorf("%s imports %q: allowed %v (%s), want %v", test.file, test.imported, why == "", why, test.ok)
		}
	}
}
