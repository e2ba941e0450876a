// Command gen writes the completion scripts into completions/. Run it with
// "go generate ./..." from the top of the repository; a test in package cmd
// fails when the scripts are stale.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sbsync/sbsync/cmd"
)

func main() {
	for shell, name := range cmd.CompletionFiles() {
		var script bytes.Buffer
		err := cmd.WriteCompletion(&script, shell)
		if err == nil {
			err = os.WriteFile(filepath.Join("completions", name), script.Bytes(), 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}
