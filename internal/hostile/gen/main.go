// Command gen writes the hostile archives that are small enough into a
// directory, one file each, and a list of all of them.
//
//	go run ./internal/hostile/gen testdata/hostile
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbsync/sbsync/internal/hostile"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: gen DIR")
	}
	if err := generate(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// generate writes the archives and removes those that are no more.
func generate(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	var list strings.Builder
	list.WriteString("Made by internal/hostile/gen; go generate makes them anew.\n" +
		"Those without a file are too large for one, and made when they are pulled.\n\n")
	for _, a := range hostile.Archives(hostile.Outside) {
		fmt.Fprintf(&list, "%-22s %s\n", a.Name, a.About)
		if !a.Kept() {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, a.Name+".tar"), a.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "README"), []byte(list.String()), 0o644)
}
