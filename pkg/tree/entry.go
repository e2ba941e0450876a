// Package tree holds snapshots of file trees: scanning the host, listing a
// sandbox, excluding, and comparing two snapshots.
//
// Paths in a snapshot are relative to its root, slash-separated, without "."
// or ".." elements; the root itself is "". They are byte strings, not
// necessarily UTF-8.
package tree

import "strings"

// Type is what an entry is.
type Type byte

// Types of entries. Special stands for everything that is never copied:
// FIFOs, sockets, devices.
const (
	File    Type = 'f'
	Dir     Type = 'd'
	Symlink Type = 'l'
	Special Type = 's'
)

// Mode bits as POSIX has them.
const (
	ModePerm    = 0o777
	ModeSpecial = 0o7000 // set-uid, set-gid, sticky
)

// Time is a point in time as file systems keep it: seconds since 1970, which
// may be negative, and nanoseconds 0 to 999,999,999.
type Time struct {
	Sec  int64
	Nsec int32
}

// Entry is one file, directory or link of a tree.
type Entry struct {
	Path string
	Type Type
	Mode uint32 // 07777
	Size int64  // of a File
	Time Time   // last modification
	// Changed is when the entry took its present state, in seconds of its own
	// side's clock; 0 if that is not known.
	Changed int64
	Link    string // target text of a Symlink
	// Dev and Ino identify the inode, to find hard links and loops. Both are
	// 0 where the platform has no such numbers.
	Dev, Ino uint64
	Nlink    uint32
	Special  string // for Special: "fifo", "socket", "device"
}

// ComparePaths orders paths so that a directory comes right before what is in
// it: element by element, bytewise.
func ComparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := 0; i < n; i++ {
		if a[i] != b[i] {
			switch {
			case a[i] == '/':
				return -1
			case b[i] == '/':
				return 1
			case a[i] < b[i]:
				return -1
			}
			return 1
		}
	}
	return len(a) - len(b)
}

// Parent returns the path of the directory that p is in, "" for the root's
// children.
func Parent(p string) string {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i]
	}
	return ""
}

// Base returns the last element of p.
func Base(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }

// Within says whether p is dir or lies below it. Every path is within "".
func Within(p, dir string) bool {
	return dir == "" || p == dir || len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}

// Snapshot is a tree as it was seen.
type Snapshot struct {
	// Root is the entry at the root; its Type is 0 if nothing is there.
	Root Entry
	// Entries are all entries below the root in ComparePaths order. The
	// parents of an entry are always in the snapshot, before it.
	Entries []Entry
	// Excluded counts entries that were left out by excludes; what is below
	// an excluded directory is not looked at and not counted.
	Excluded int
	// Leftovers counts scratch entries of earlier runs that were skipped.
	Leftovers int
	// Problems are entries that could not be read, in path order.
	Problems []Problem
}

// Problem is an entry of a tree that is not carried, and why.
type Problem struct {
	Path string
	Err  error
	// Skip marks what is left out by rule (a FIFO, say), not by failure.
	Skip bool
}

// ScratchPrefix begins the name of everything that sbsync makes for the time
// of a transfer, on either side.
const ScratchPrefix = ".sbsync-"

// IsScratch says whether name is one that sbsync makes: ScratchPrefix and 16
// characters of a to z and 2 to 7. Other names with the prefix belong to the
// user.
func IsScratch(name string) bool {
	rest, ok := strings.CutPrefix(name, ScratchPrefix)
	if !ok || len(rest) != 16 {
		return false
	}
	for i := range len(rest) {
		if c := rest[i]; !(c >= 'a' && c <= 'z' || c >= '2' && c <= '7') {
			return false
		}
	}
	return true
}
