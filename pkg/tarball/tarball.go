// Package tarball writes and reads the archives that carry trees to and from a
// sandbox.
//
// A [Writer] feeds the sandbox's own tar. It writes what GNU tar and BusyBox
// tar both read without loss: ustar headers, GNU long-name records for names
// that do not fit them, PAX records for times and sizes that do not. The same
// members give the same bytes. Owners are always 0, without names.
//
// A [Reader] takes what the sandbox's tar sends and treats it as hostile: only
// files, directories, symbolic and hard links, only names that stay below the
// root, explicit limits. It holds one header and one buffer, however large the
// archive.
//
// An archive that was cut between two members looks whole to every tar there
// is. Here it does not: reading has succeeded only once [Reader.Next] has
// returned io.EOF, which it does after the end blocks of every archive and,
// where one was asked for, a trailer line.
package tarball

import "github.com/sbsync/sbsync/pkg/tree"

// Type is what a member is. Its values are the type flags of POSIX ustar.
type Type byte

// Types of members. There are no others: devices, FIFOs and the like are
// neither written nor accepted.
const (
	RegularFile  Type = '0'
	HardLink     Type = '1'
	SymbolicLink Type = '2'
	Directory    Type = '5'
)

// String returns the type's name for messages.
func (t Type) String() string {
	switch t {
	case RegularFile:
		return "file"
	case HardLink:
		return "hard link"
	case SymbolicLink:
		return "symbolic link"
	case Directory:
		return "directory"
	}
	return "unknown type"
}

// Header describes a member.
type Header struct {
	// Name is the path of the member below the root: slash-separated,
	// relative, without "." or ".." elements, not necessarily UTF-8.
	Name string
	Type Type
	Mode uint32    // 07777
	Size int64     // bytes; 0 unless a RegularFile
	Time tree.Time // last modification
	// Link is the target text of a SymbolicLink, or the Name of the earlier
	// member that a HardLink is another name of.
	Link string
}
