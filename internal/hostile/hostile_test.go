package hostile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/internal/hostile"
)

const kept = "../../testdata/hostile"

// The kept archives are what the program makes.
func TestKeptArchivesAreFresh(t *testing.T) {
	want := map[string]bool{}
	list, err := os.ReadFile(filepath.Join(kept, "README"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range hostile.Archives(hostile.Outside) {
		if !strings.Contains(string(list), "\n"+a.Name+" ") {
			t.Errorf("README lacks %s; run go generate ./...", a.Name)
		}
		if !a.Kept() {
			continue
		}
		name := a.Name + ".tar"
		want[name] = true
		got, err := os.ReadFile(filepath.Join(kept, name))
		if err != nil || !bytes.Equal(got, a.Bytes()) {
			t.Errorf("%s is not what the program makes (%v); run go generate ./...", name, err)
		}
	}
	files, err := os.ReadDir(kept)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !want[f.Name()] && f.Name() != "README" {
			t.Errorf("%s is of no use; run go generate ./...", f.Name())
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range hostile.Archives("/x") {
		if seen[a.Name] || strings.ContainsAny(a.Name, " /") || a.About == "" {
			t.Errorf("%q, %q", a.Name, a.About)
		}
		seen[a.Name] = true
	}
}
