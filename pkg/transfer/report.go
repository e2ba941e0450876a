package transfer

import (
	"time"

	"github.com/sbsync/sbsync/pkg/tree"
)

// Report is what a run did. It is complete also when the run failed: it then
// holds what had happened by then.
type Report struct {
	Direction Direction
	DryRun    bool
	Route     Route  // of the last mapping that moved anything
	Why       string // why this route was taken

	Files     int   // files that were sent, hard links included
	Links     int   // symbolic links that were made
	Dirs      int   // directories that were made
	Bytes     int64 // content of the files that were sent
	Changed   int   // entries of which only mode or time were changed
	Deleted   int
	Unchanged int // entries that were as they should be
	Excluded  int
	Skipped   int // specials, and links with Skip

	Wire     int64 // bytes handed to and taken from the provider
	Calls    int   // provider calls
	Elapsed  time.Duration
	Atomic   bool // every target was replaced by a single rename each
	Digests  bool // contents were verified by digest
	Problems []tree.Problem
	Warnings []string

	Operations []OperationReport
}

// OperationReport is the contract's result of one operation.
type OperationReport struct {
	ID               string
	FilesTransferred int
	BytesTransferred int64
}

// Action is what happens to one entry.
type Action string

// Actions of a plan.
const (
	Create  Action = "create"  // new in the target
	Change  Action = "update"  // replaced by other content or type
	Attrs   Action = "attrs"   // only mode or time
	Delete  Action = "delete"  // removed from the target
	Convert Action = "convert" // a directory in place of something else, or the reverse
)

// PlannedEntry is one line of a plan.
type PlannedEntry struct {
	Action Action
	Path   string // relative to the mapping's target; "" is the target itself
	Type   tree.Type
	Size   int64
}

// Observer watches a run. Calls may come from several goroutines at once and
// must not block. A mapping that is tried again is routed and planned anew.
type Observer interface {
	// Routed is called for each mapping before its bytes move.
	Routed(m Mapping, route Route, why string)
	// Planned is called for each mapping with everything that will be
	// done, in order, and its totals.
	Planned(m Mapping, plan []PlannedEntry, files int, bytes int64)
	// Progress reports what moved since the last call.
	Progress(files int, bytes int64)
	// Phase names what is going on: "scan", "list", "send", "verify", "publish".
	Phase(name string)
	// Warn reports a problem that does not stop the run.
	Warn(p tree.Problem)
	// Log is for -v: what the engine decides and retries.
	Log(text string)
}
