// Package confine keeps a sync inside the places that the user declared.
//
// It has two halves. The pure half judges text: [CheckPath] and
// [CheckHostName] for relative names, [Roots] for absolute paths,
// [CheckLinks] for symbolic links. The other half touches the host's disk and
// does so through directory handles ([os.Root]) alone: [Source] reads files
// for a push, [Stage] builds, publishes and rolls back what a pull brings.
//
// What a sandbox sends is hostile until checked. The root that the user names
// is the user's choice and may be reached through links; nothing below it is.
//
// Every refusal is an error of kind [provider.Confined].
package confine

import (
	"fmt"

	"github.com/sbsync/sbsync/pkg/provider"
)

// refuse returns an error of kind Confined.
func refuse(op, hint, format string, args ...any) *provider.Error {
	return &provider.Error{Kind: provider.Confined, Op: op, Err: fmt.Errorf(format, args...), Hint: hint}
}
