// Package transfer is the engine: it turns operations into a plan, carries the
// plan by a route that the sandbox offers, verifies it, and publishes it.
//
// Every transfer goes the same way: snapshot the source, look at the target,
// plan (a pure function), confine, carry into a private staging directory on
// the target's file system, verify, publish by rename, clean up. Push and pull
// differ only in which side is which.
package transfer

import (
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Direction says which side is the source.
type Direction string

// The two directions.
const (
	Push Direction = "push" // host to sandbox
	Pull Direction = "pull" // sandbox to host
)

// Policy says what becomes of things that are in the target only.
type Policy string

// Policies.
const (
	// Update adds and changes; it deletes nothing.
	Update Policy = "update"
	// Mirror also deletes what the source does not have, but for what is
	// excluded.
	Mirror Policy = "mirror"
	// Replace builds the tree beside the old one and swaps them.
	Replace Policy = "replace"
)

// Symlinks says what becomes of symbolic links in the source.
type Symlinks string

// Ways to treat symbolic links.
const (
	Preserve Symlinks = "preserve" // links stay links, dangling ones too
	Follow   Symlinks = "follow"   // each becomes its target's content, like tar -h
	Skip     Symlinks = "skip"     // left out, and counted
	Reject   Symlinks = "reject"   // any link is an error
)

// Route names a way to carry a change set.
type Route string

// Routes, best first. Auto takes the first that the sandbox can do.
const (
	Auto   Route = "auto"
	Sync   Route = "sync"   // the provider does whole operations itself
	Stream Route = "stream" // one archive over live stdin and stdout
	Bulk   Route = "bulk"   // an archive or files through the provider's bulk API
	Base64 Route = "base64" // text over exec; works everywhere
)

// Routes lists the routes in the order in which they are tried.
var Routes = [...]Route{Sync, Stream, Bulk, Base64}

// Kind says what a mapping moves.
type Kind string

// Kinds of mappings. AnyKind takes whatever the source is.
const (
	AnyKind       Kind = ""
	FileKind      Kind = "file"
	DirectoryKind Kind = "directory"
)

// Mapping is one source and its target. On a push Source is a host path and
// Target an absolute POSIX path in the sandbox; on a pull the reverse. A
// trailing slash on the target of a single file means "into this directory".
type Mapping struct {
	Source, Target string
	Kind           Kind
	// Mode, if set, is given to every file that is sent (07777).
	Mode *uint32
	// Exclude are tar-style patterns (see docs/contract.md), on top of the
	// Options' excludes.
	Exclude []string
	// Symlinks overrides the Options; empty takes them.
	Symlinks Symlinks
	// Policy overrides the Options; empty takes them.
	Policy Policy

	into bool // Target is a directory to put a single file into
}

// Operation is an ordered set of mappings and the commands to run after their
// files landed. The ID is opaque and only ever shown.
type Operation struct {
	ID       string
	Files    []Mapping
	Commands []PostCommand
}

// PostCommand is a shell command run verbatim in the sandbox after a push.
type PostCommand struct {
	Command string
	// Dir is absolute and equals or lies below a target of its operation;
	// empty means the first target (its parent, for a file).
	Dir     string
	Timeout time.Duration // 0: none but the context's
}

// Limits fail closed: exceeding one is an error before bytes move. Zero means
// no limit.
type Limits struct {
	Entries   int   // entries of one tree
	Total     int64 // bytes of one transfer
	File      int64 // bytes of one file
	PathBytes int   // length of one relative path
}

// DefaultLimits are what the command line starts from. 4,095 is Linux's
// PATH_MAX without its NUL.
var DefaultLimits = Limits{Entries: 5_000_000, PathBytes: 4095}

// Options are the settings of a run. The zero value of most fields is a good
// default; [NewOptions] fills in the rest.
type Options struct {
	Policy   Policy
	Symlinks Symlinks
	Route    Route

	// HostRoots and SandboxRoots are the declared roots that every mapping is
	// confined to. Empty means: each mapping is its own root.
	HostRoots, SandboxRoots []string

	Exclude   []string // gitignore syntax
	Gitignore bool     // send what git would: tracked and not ignored
	NoIgnore  bool     // do not read .sbsyncignore files
	Checksum  bool     // compare by content
	Verify    bool     // compare digests after the transfer, before publishing
	DryRun    bool     // plan only
	Force     bool     // let a file replace a directory and the reverse; pass the deletion guards
	SetID     bool     // keep set-uid, set-gid and sticky bits
	// AllowExternalSymlinks lets links lead out of the tree: followed on a
	// push with Follow, created on a pull.
	AllowExternalSymlinks bool

	DeleteExcluded bool
	// MaxDelete stops a Mirror that would delete more entries; negative means
	// no limit.
	MaxDelete int

	Mode    *uint32 // for every file that is sent
	Limits  Limits
	Retries int // further attempts after temporary errors
	// IdleTimeout ends a provider call in which nothing moves for so long.
	IdleTimeout time.Duration
	// ChunkBytes is the raw size of one chunk on the base64 route; 0 lets the
	// engine choose.
	ChunkBytes int64

	Observer Observer // nil: nobody watches
}

// NewOptions returns the defaults of the command line.
func NewOptions() Options {
	return Options{Policy: Update, Symlinks: Preserve, Route: Auto, Limits: DefaultLimits,
		MaxDelete: -1, Retries: 3, IdleTimeout: 2 * time.Minute}
}

// Target is an open sandbox with the name under which messages show it.
type Target struct {
	Sandbox provider.Sandbox
	Name    string // for example "docker:web"
}
