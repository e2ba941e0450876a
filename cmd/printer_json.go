package cmd

import (
	"encoding/json"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
	"github.com/sbsync/sbsync/pkg/tree"
)

// progressEvery is the time between two progress events.
const progressEvery = time.Second

// jsonPrinter prints one JSON object a line. docs/json.md describes them, and
// is tested against the event types below.
type jsonPrinter struct {
	verbose bool

	mu    sync.Mutex
	out   io.Writer
	start runStart
	begin time.Time
	last  time.Time // of a progress event
	moved progress
}

func newJSONPrinter(out io.Writer, verbose bool) *jsonPrinter {
	return &jsonPrinter{out: out, verbose: verbose}
}

// Paths need not be UTF-8, and JSON can't hold other bytes. Such a path goes
// into the field's twin, in base64; one of the two fields is always missing.

type startEvent struct {
	Event        string  `json:"event"` // "start"
	Format       int     `json:"format"`
	Command      string  `json:"command"`
	Direction    string  `json:"direction"`
	Source       *string `json:"source,omitempty"`
	SourceBase64 []byte  `json:"sourceBase64,omitempty"`
	Target       *string `json:"target,omitempty"`
	TargetBase64 []byte  `json:"targetBase64,omitempty"`
	DryRun       bool    `json:"dryRun"`
}

type phaseEvent struct {
	Event string `json:"event"` // "phase"
	Phase string `json:"phase"`
}

type planEvent struct {
	Event        string  `json:"event"` // "plan"
	Source       *string `json:"source,omitempty"`
	SourceBase64 []byte  `json:"sourceBase64,omitempty"`
	Target       *string `json:"target,omitempty"`
	TargetBase64 []byte  `json:"targetBase64,omitempty"`
	Entries      int     `json:"entries"`
	Files        int     `json:"files"`
	Bytes        int64   `json:"bytes"`
}

type entryEvent struct {
	Event      string  `json:"event"` // "entry"
	Action     string  `json:"action"`
	Path       *string `json:"path,omitempty"`
	PathBase64 []byte  `json:"pathBase64,omitempty"`
	Type       string  `json:"type"`
	Size       *int64  `json:"size,omitempty"`
}

type routeEvent struct {
	Event        string  `json:"event"` // "route"
	Source       *string `json:"source,omitempty"`
	SourceBase64 []byte  `json:"sourceBase64,omitempty"`
	Target       *string `json:"target,omitempty"`
	TargetBase64 []byte  `json:"targetBase64,omitempty"`
	Route        string  `json:"route"`
	Why          string  `json:"why"`
}

type progressEvent struct {
	Event string `json:"event"` // "progress"
	progress
	ElapsedMs int64 `json:"elapsedMs"`
}

type warningEvent struct {
	Event      string  `json:"event"` // "warning"
	Path       *string `json:"path,omitempty"`
	PathBase64 []byte  `json:"pathBase64,omitempty"`
	Message    string  `json:"message"`
	Skipped    bool    `json:"skipped"`
}

type logEvent struct {
	Event   string `json:"event"` // "log"
	Message string `json:"message"`
}

type summaryEvent struct {
	Event       string           `json:"event"` // "summary"
	Command     string           `json:"command"`
	Direction   string           `json:"direction"`
	OK          bool             `json:"ok"`
	DryRun      bool             `json:"dryRun"`
	Route       string           `json:"route"`
	Why         string           `json:"why"`
	Files       int              `json:"files"`
	Bytes       int64            `json:"bytes"`
	Links       int              `json:"links"`
	Directories int              `json:"directories"`
	Attributes  int              `json:"attributes"`
	Unchanged   int              `json:"unchanged"`
	Deleted     int              `json:"deleted"`
	Excluded    int              `json:"excluded"`
	Skipped     int              `json:"skipped"`
	WireBytes   int64            `json:"wireBytes"`
	Calls       int              `json:"calls"`
	ElapsedMs   int64            `json:"elapsedMs"`
	MBPerSecond float64          `json:"mbPerSecond"`
	Atomic      bool             `json:"atomic"`
	Digests     bool             `json:"digests"`
	Problems    int              `json:"problems"`
	Warnings    []string         `json:"warnings"`
	Operations  []operationEvent `json:"operations"`
}

type operationEvent struct {
	ID               string `json:"operationId"`
	FilesTransferred int    `json:"filesTransferred"`
	BytesTransferred int64  `json:"bytesTransferred"`
}

type errorEvent struct {
	Event    string `json:"event"` // "error"
	Kind     string `json:"kind"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
	ExitCode int    `json:"exitCode"`
}

// utf8OrBytes returns s for a field and its base64 twin: one of them is nil.
func utf8OrBytes(s string) (*string, []byte) {
	if utf8.ValidString(s) {
		return &s, nil
	}
	return nil, []byte(s)
}

// printJSON prints v on a line of its own.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func printErrorEvent(w io.Writer, err error, code int) {
	printJSON(w, errorEvent{Event: "error", Kind: kindOf(err).String(), Message: err.Error(),
		Hint: provider.HintOf(err), ExitCode: code})
}

func (p *jsonPrinter) print(v any) {
	printJSON(p.out, v)
}

func (p *jsonPrinter) began(start runStart) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start, p.begin = start, time.Now()
	e := startEvent{Event: "start", Format: 1, Command: start.verb, Direction: string(start.direction), DryRun: start.listPlan}
	e.Source, e.SourceBase64 = utf8OrBytes(start.source)
	e.Target, e.TargetBase64 = utf8OrBytes(start.target)
	p.print(e)
}

func (p *jsonPrinter) Routed(m transfer.Mapping, route transfer.Route, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := routeEvent{Event: "route", Route: string(route), Why: why}
	e.Source, e.SourceBase64 = utf8OrBytes(m.Source)
	e.Target, e.TargetBase64 = utf8OrBytes(m.Target)
	p.print(e)
}

func (p *jsonPrinter) Planned(m transfer.Mapping, plan []transfer.PlannedEntry, files int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved.planned(files, bytes)
	e := planEvent{Event: "plan", Entries: len(plan), Files: files, Bytes: bytes}
	e.Source, e.SourceBase64 = utf8OrBytes(m.Source)
	e.Target, e.TargetBase64 = utf8OrBytes(m.Target)
	p.print(e)
	if p.start.listPlan || p.verbose {
		for _, entry := range plan {
			p.print(newEntryEvent(entry))
		}
	}
}

func newEntryEvent(entry transfer.PlannedEntry) entryEvent {
	e := entryEvent{Event: "entry", Action: string(entry.Action), Type: typeName(entry.Type)}
	e.Path, e.PathBase64 = utf8OrBytes(entry.Path)
	if entry.Type == tree.File {
		e.Size = &entry.Size
	}
	return e
}

func typeName(t tree.Type) string {
	switch t {
	case tree.File:
		return "file"
	case tree.Dir:
		return "directory"
	case tree.Symlink:
		return "symlink"
	}
	return "special"
}

func (p *jsonPrinter) Progress(files int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved.Files += files
	p.moved.Bytes += bytes
	if now := time.Now(); now.Sub(p.last) >= progressEvery {
		p.last = now
		p.print(progressEvent{"progress", p.moved, now.Sub(p.begin).Milliseconds()})
	}
}

func (p *jsonPrinter) Phase(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(phaseEvent{Event: "phase", Phase: name})
}

func (p *jsonPrinter) Warn(problem tree.Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.printWarning(problem.Path, problem.Err.Error(), problem.Skip)
}

func (p *jsonPrinter) printWarning(path, message string, skipped bool) {
	e := warningEvent{Event: "warning", Message: message, Skipped: skipped}
	e.Path, e.PathBase64 = utf8OrBytes(path)
	p.print(e)
}

func (p *jsonPrinter) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(logEvent{Event: "log", Message: text})
}

func (p *jsonPrinter) Log(text string) {
	if !p.verbose {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(logEvent{Event: "log", Message: text})
}

func (p *jsonPrinter) ended(r *transfer.Report, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !failed && nothingLeft(r) {
		p.printWarning("", "nothing was sent, since everything was excluded", false)
	}
	s := summaryEvent{Event: "summary", Command: p.start.verb, Direction: string(p.start.direction), OK: !failed,
		DryRun: r.DryRun, Route: string(r.Route), Why: r.Why, Files: r.Files, Bytes: r.Bytes, Links: r.Links,
		Directories: r.Dirs, Attributes: r.Changed, Unchanged: r.Unchanged, Deleted: r.Deleted, Excluded: r.Excluded,
		Skipped: r.Skipped, WireBytes: r.Wire, Calls: r.Calls, ElapsedMs: r.Elapsed.Milliseconds(),
		MBPerSecond: rate(r.Bytes, r.Elapsed), Atomic: r.Atomic, Digests: r.Digests, Problems: len(r.Problems),
		Warnings: append([]string{}, r.Warnings...), Operations: []operationEvent{}}
	for _, op := range r.Operations {
		s.Operations = append(s.Operations, operationEvent(op))
	}
	p.print(s)
}
