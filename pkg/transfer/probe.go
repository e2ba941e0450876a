package transfer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
)

// ProbeReport is what a sandbox has and how it would be synced with.
type ProbeReport struct {
	Tar          string   // "gnu", "busybox", "other", or "" if there is none
	Tools        []string // that sbsync can make use of
	Missing      []string // that it could, if they were there
	UID          string   // of the sandbox's user
	Target       string   // "directory", "file", "nothing", ... at the target's path
	Stdin        string   // "arrives", "is lost", "is not offered"
	Capabilities provider.Capabilities
	Routes       []RouteVerdict
}

// RouteVerdict says whether a route can be taken, and why or why not. Chosen
// marks the one that would be.
type RouteVerdict struct {
	Route  Route
	OK     bool
	Chosen bool
	Why    string
}

// Check checks all mappings of all operations, as [Run] does before its first
// provider call.
func Check(dir Direction, ops []Operation, opt Options) error {
	_, err := (&runner{dir: dir, opt: opt}).confine(ops)
	return err
}

// Probe looks into a sandbox, with one or two commands, and changes nothing.
func Probe(ctx context.Context, target Target, path string, opt Options) (*ProbeReport, error) {
	r := newRunner(Push, target, opt)
	if err := r.open(); err != nil {
		return nil, err
	}
	caps := r.sandbox.Capabilities()
	p := &ProbeReport{Capabilities: caps, Stdin: "is not offered"}
	q := question{path: path, roots: opt.SandboxRoots}
	var f *facts
	err := r.again(ctx, "probe", func(ctx context.Context) (err error) {
		f, err = connect(ctx, r.session, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	switch {
	case r.session.Streams() || f.stdin == "ok":
		p.Stdin = "arrives"
	case f.stdin == "lost":
		p.Stdin = "is lost"
	}
	p.Tar, p.UID = f.tar, f.uid
	p.Target = map[byte]string{'d': "directory", 'f': "file", 'l': "link", 's': "special file", '-': "nothing"}[f.kind]
	for name := range strings.FieldsSeq(toolNames) {
		if f.tools[name] {
			p.Tools = append(p.Tools, name)
		} else {
			p.Missing = append(p.Missing, name)
		}
	}
	p.Routes = verdicts(r, f)
	return p, nil
}

// verdicts judges every route.
func verdicts(r *runner, f *facts) []RouteVerdict {
	caps := r.sandbox.Capabilities()
	list := []RouteVerdict{
		{Route: Sync, Why: "the provider does not do whole operations"},
		{Route: Stream, OK: caps.Stream && caps.HalfClose && hasTar(f), Why: streamVerdict(caps, f)},
		{Route: Bulk, OK: caps.Files && hasTar(f), Why: bulkVerdict(caps, f)},
		{Route: Base64, OK: f.tools["base64"], Why: "works over exec alone"},
	}
	if !f.tools["base64"] {
		list[3].Why = "the sandbox has no base64"
	}
	if i := slices.IndexFunc(list, func(v RouteVerdict) bool {
		return v.OK && (r.opt.Route == Auto || r.opt.Route == "" || v.Route == r.opt.Route)
	}); i >= 0 {
		list[i].Chosen = true
	}
	return list
}

func hasTar(f *facts) bool { return f.tar == "gnu" || f.tar == "busybox" }

// untar sets UNTAR to the command that unpacks standard input. GNU tar would
// read 10 KiB at a time.
func (f *facts) untar() string {
	if f.tar == "gnu" {
		return "UNTAR='tar -b 128 -xpof -'\n"
	}
	return "UNTAR='tar -xpof -'\n"
}

func streamVerdict(caps provider.Capabilities, f *facts) string {
	switch {
	case !caps.Stream:
		return "the provider offers no live streams" + note(caps)
	case !caps.HalfClose:
		return "the provider cannot end a command's input"
	case !hasTar(f):
		return "the sandbox has no GNU or BusyBox tar"
	}
	return fmt.Sprintf("the sandbox streams and has %s tar", f.tar)
}

func bulkVerdict(caps provider.Capabilities, f *facts) string {
	switch {
	case !caps.Files:
		return "the provider has no bulk API"
	case !hasTar(f):
		return "the sandbox has no GNU or BusyBox tar"
	}
	return bulkReason(f)
}

func note(caps provider.Capabilities) string {
	if len(caps.Notes) == 0 {
		return ""
	}
	return " (" + strings.Join(caps.Notes, "; ") + ")"
}
