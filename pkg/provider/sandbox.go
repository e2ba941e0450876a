// Package provider is the seam between sbsync and the places it syncs with.
//
// A driver turns a [Target] into a [Sandbox]. Every sandbox can run a command
// ([Sandbox.Exec]); that alone carries a sync, as base64 text over exec. A
// sandbox that can do more says so as data ([Capabilities]) and offers the
// matching optional verb: [Streamer], [Filer] or [Syncer]. Wrappers ([Retry],
// [Limit], [Log], [Meter], [Narrow]) compose around any sandbox; the accessors
// [StreamerOf], [FilerOf] and [SyncerOf] look through them.
//
// A sandbox is safe for concurrent use.
package provider

import (
	"context"
	"io"
	"time"
)

// Sandbox is one reachable sandbox.
type Sandbox interface {
	// Exec runs a command and waits for it to end.
	//
	// A command that ran and failed is no error: its exit code is in the
	// Result. An error means that nothing is known of the command's fate; it
	// may have run. [IsTemporary] tells whether another attempt makes sense,
	// which is the caller's decision, since only the caller knows whether the
	// command may run twice ([Command.Idempotent]).
	//
	// When ctx ends, Exec ends the remote command if the provider can, and
	// returns the context's error.
	Exec(ctx context.Context, cmd Command) (Result, error)

	// Capabilities never changes during the life of a sandbox.
	Capabilities() Capabilities

	// Close frees connections. It leaves the sandbox itself alone.
	Close() error
}

// Command is one process to run in a sandbox.
type Command struct {
	// Args is the argument vector, Args[0] the program, looked up in the
	// sandbox's PATH. Drivers whose transport takes one shell string quote
	// each word.
	Args []string
	// Stdin is fed to the command and then closed. Nil means no input: the
	// command reads end-of-file at once, or, where the transport cannot say
	// so, never reads.
	Stdin io.Reader
	// Stdout receives the standard output as it arrives. If nil, the output
	// is collected in Result.Stdout, up to MaxOutput bytes.
	Stdout io.Writer
	// Dir is an absolute directory in the sandbox, or empty for the default.
	Dir string
	// Env is added to the sandbox's environment.
	Env map[string]string
	// MaxOutput limits Result.Stdout; 0 means DefaultMaxOutput. More output
	// than that is an error of kind [TooLarge], never silently cut.
	MaxOutput int64
	// Idempotent says that running the command twice does no harm, which
	// lets [Retry] repeat it after a temporary error. A Stdin that is set
	// must then be an io.Seeker, or nothing is repeated.
	Idempotent bool
	// Label names the command in logs and errors: "inspect", "chunk 3".
	Label string
}

// Limits on what is held of a command's output.
const (
	// DefaultMaxOutput bounds a collected standard output.
	DefaultMaxOutput = 64 << 20
	// StderrTail is how much of a command's standard error is kept: its end.
	// 32 KiB is mutagen's figure and the contract's.
	StderrTail = 32 << 10
)

// Result is how a command ended.
type Result struct {
	ExitCode int
	Stdout   []byte // empty if Command.Stdout was set
	Stderr   []byte // at most the last StderrTail bytes
}

// Capabilities describes a sandbox as data. The zero value is the weakest
// transport there is: commands without stdin, over arguments alone.
type Capabilities struct {
	// Stdin says that Exec delivers Command.Stdin.
	Stdin bool
	// HalfClose says that the end of Stdin reaches the command as
	// end-of-file. Without it a reader must know how many bytes to expect.
	HalfClose bool
	// MaxStdin is the most bytes of stdin that one Exec should carry; 0 means
	// no limit. A driver that has to hold stdin in memory sets it.
	MaxStdin int64
	// MaxStdout is the most bytes of standard output that one Exec delivers;
	// 0 means no limit is known.
	MaxStdout int64
	// MergedOutput says that standard error arrives mixed into standard
	// output.
	MergedOutput bool
	// EarlyExit says that the end of a command's output is lost if the command
	// exits before the output was read (containerd; kubernetes/kubernetes#124571).
	// Commands then have to wait before they exit, best for an acknowledgement
	// on standard input.
	EarlyExit bool
	// TextOutput says that output is carried as text, so that bytes that are
	// not UTF-8 are lost.
	TextOutput bool
	// MaxArg is the longest single argument, in bytes; 0 means Linux's
	// MAX_ARG_STRLEN, 131,071 (measured: 131,072 fails).
	MaxArg int
	// MaxArgs is the most bytes that all arguments of a command may have
	// together; 0 means 1 MiB, half of Linux's usual ARG_MAX.
	MaxArgs int
	// MaxConcurrent is how many commands may run at once; 0 means 4.
	MaxConcurrent int

	// Stream, Files and Sync say which optional verbs are available.
	Stream, Files, Sync bool

	// Notes tells a person, in one line each, why something is not available.
	Notes []string
}

// Streamer runs a command with live, binary-safe standard streams.
type Streamer interface {
	// Stream runs cmd like Exec, but Stdin is delivered while it is being
	// written, Stdout while the command writes it, and bytes arrive as they
	// were sent. cmd.Stdout must be set. If cmd.Stdin is not nil the command
	// sees end-of-file when Stdin ends, given the HalfClose capability.
	//
	// The command's exit code decides; output that ended early with exit code
	// 0 has been seen on real clusters (kubernetes/kubernetes#124571), so
	// callers must not take the end of the stream for completeness.
	Stream(ctx context.Context, cmd Command) (Result, error)
}

// Filer moves whole files through a bulk API.
type Filer interface {
	// PutFiles writes files at absolute paths, in as few requests as it can.
	// Parents are made. Modes and times are whatever the API makes of them.
	// Errors of single files come joined, each a *[FileError]. A file is opened
	// when those before it have been read, so that it may depend on them.
	PutFiles(ctx context.Context, files []PutFile) error
	// GetFile writes the file's bytes from offset on to w. It fails if fewer
	// bytes arrive than the provider promised.
	GetFile(ctx context.Context, path string, offset int64, w io.Writer) error
}

// PutFile is a file for [Filer.PutFiles].
type PutFile struct {
	Path string
	Size int64 // in bytes; -1: not known before it was read
	// Open is called once per attempt.
	Open func() (io.ReadCloser, error)
}

// FileError is the failure of one file of a bulk call.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return quotePath(e.Path) + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Syncer takes over whole operations (see docs/contract.md). Its two verbs
// count as a pair: one without the other is not used.
type Syncer interface {
	SyncIn(ctx context.Context, ops []SyncOperation) ([]SyncResult, error)
	SyncOut(ctx context.Context, ops []SyncOperation) ([]SyncResult, error)
}

// SyncOperation is an operation of the sync contract, paths already confined.
type SyncOperation struct {
	ID       string        `json:"operationId"`
	Files    []SyncMapping `json:"files"`
	Commands []SyncCommand `json:"postUploadCommands,omitempty"`
}

// SyncMapping is one mapping of a [SyncOperation].
type SyncMapping struct {
	SourcePath     string   `json:"sourcePath"`
	TargetPath     string   `json:"targetPath"`
	Kind           string   `json:"kind"` // "file" or "directory"
	Mode           *uint32  `json:"mode,omitempty"`
	Exclude        []string `json:"exclude,omitempty"`
	FollowSymlinks bool     `json:"followSymlinks,omitempty"`
}

// SyncCommand is a command to run after an operation's files landed.
type SyncCommand struct {
	Command string `json:"command"`
	Cwd     string `json:"cwd,omitempty"`
	// TimeoutMs is in milliseconds; 0 inherits the run's deadline.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
}

// SyncResult is what a provider says it did; it is checked, not believed.
type SyncResult struct {
	ID               string `json:"operationId"`
	FilesTransferred int64  `json:"filesTransferred"`
	BytesTransferred int64  `json:"bytesTransferred"`
}

// Driver opens targets of one kind. Drivers register with a [Registry].
type Driver interface {
	// Name is the word before the first colon of a target.
	Name() string
	// Aliases are other words for it.
	Aliases() []string
	// Summary is one line for `sbsync providers`.
	Summary() string
	// HasRef says whether targets name a sandbox (PROVIDER:REF:/path) or not
	// (local:/path).
	HasRef() bool
	// Open resolves a reference and connects. It makes no change.
	Open(ctx context.Context, ref string, cfg Config) (Sandbox, error)
}

// Config is what a driver may read of the configuration: the provider's own
// section, with values of a named target laid over it. Keys a driver does not
// know are an error of kind [Usage].
type Config map[string]any

// DialTimeout is how long a driver may take to connect before it says that the
// target is unreachable.
const DialTimeout = 30 * time.Second
