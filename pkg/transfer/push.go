package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tree"
)

// push carries one mapping from the host to the sandbox.
func (r *runner) push(ctx context.Context, m Mapping) error {
	src, err := confine.OpenSource(m.Source)
	if errors.Is(err, fs.ErrNotExist) {
		return sourceMissing(m.Source)
	}
	if err != nil {
		return err
	}
	defer src.Close()
	src.AllowExternal = r.opt.AllowExternalSymlinks
	rules, err := r.hostRules(m)
	if err != nil {
		return err
	}
	q, err := r.pushQuestion(m)
	if err != nil {
		return err
	}
	if q.path == "/" && !q.file {
		if err := refuseRoot(r.policy(m)); err != nil { // before all of it is listed
			return err
		}
	}
	snapshot, f, err := r.look(ctx, m, q, rules)
	if err != nil {
		return err
	}
	if q.misses(snapshot) {
		q.only = nil // something came to the source's top meanwhile
		if f, err = inspect(ctx, r.session, q); err != nil {
			return classify(err)
		}
	}
	if f, err = r.restoreOld(ctx, q, f); err != nil {
		return err
	}
	if err := checkTarget(q, f); err != nil {
		return err
	}
	if f.dir == "/" && f.kind == 'd' {
		if err := refuseRoot(r.policy(m)); err != nil {
			return err
		}
	}
	in := r.planInput(m, f, snapshot, f.snapshot(), rules, hostFile(src))
	if l := f.listing; l != nil && l.Incomplete {
		in.unlisted = firstFault(unreadable(l.Trouble))
	}
	c := newCarrier(ctx, r, m, f, src)
	if in.same, err = c.compareContents(in); err != nil {
		return err
	}
	p, err := makePlan(in)
	if err != nil {
		return err
	}
	r.planned(m, p, snapshot)
	if r.opt.DryRun {
		return r.verdict()
	}
	if err := r.refuseProblems(m, snapshot); err != nil {
		return err
	}
	if err := c.carry(q, p); err != nil {
		return err
	}
	failed, drift := c.sender.outcome()
	r.carried(p, failed, drift)
	return r.verdict()
}

// refuseRoot refuses what would take a whole file system away.
func refuseRoot(policy Policy) error {
	if policy == Update {
		return nil
	}
	return &provider.Error{Kind: provider.Refused, Err: errors.New("the target is the root of the file system, of which everything else would be removed"),
		Hint: "name a directory below it, or leave --delete and --replace out"}
}

func sourceMissing(p string) error {
	hint := ""
	if strings.ContainsAny(p, "*?[") {
		hint = "sbsync expands no patterns; let the shell do it, or name the directory and use --exclude"
	}
	return &provider.Error{Kind: provider.SourceMissing, Err: fmt.Errorf("no such file: %q", p), Hint: hint}
}

// look scans the source and inspects the target at the same time.
func (r *runner) look(ctx context.Context, m Mapping, q question, rules *tree.Rules) (*tree.Snapshot, *facts, error) {
	r.phase("scan")
	type scanned struct {
		snapshot *tree.Snapshot
		err      error
	}
	done := make(chan scanned, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		s, err := r.scan(ctx, m, rules)
		if err != nil {
			cancel()
		}
		done <- scanned{s, err}
	}()
	f, err := connect(ctx, r.session, q)
	cause := classify(err)
	if err != nil && ctx.Err() == nil {
		cancel()
		<-done
		return nil, nil, cause
	}
	s := <-done
	if s.err != nil {
		return nil, nil, s.err
	}
	return s.snapshot, f, cause
}

// maxScope bounds the names by which the listing of a target is narrowed.
const maxScope = 32 << 10

// pushQuestion decides what to find out about the target. For an update only
// what the source has at its top matters, not what else is there.
func (r *runner) pushQuestion(m Mapping) (question, error) {
	q := question{path: m.Target, roots: r.opt.SandboxRoots}
	info, err := os.Stat(m.Source)
	if err != nil {
		return q, sourceMissing(m.Source)
	}
	policy := r.policy(m)
	if q.list = true; !info.IsDir() {
		q.file = true
		return q, nil
	}
	switch policy {
	case Replace:
		q.list = r.opt.DryRun // to show what goes
	case Update:
		q.only = topNames(m.Source, min(maxScope, r.session.MaxBody()/4))
	}
	return q, nil
}

// misses says whether the source has entries that the target was not asked for.
func (q question) misses(src *tree.Snapshot) bool {
	if q.only == nil {
		return false
	}
	asked := make(map[string]bool, len(q.only))
	for _, name := range q.only {
		asked[name] = true
	}
	for _, e := range src.Entries {
		if tree.Parent(e.Path) == "" && !asked[e.Path] {
			return true
		}
	}
	return false
}

// topNames returns the names in a directory, or nil if as words of a script
// they are longer than most.
func topNames(dir string, most int) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // the scan will report it
	}
	names, size := make([]string, 0, len(entries)), 0
	for _, e := range entries {
		names = append(names, e.Name())
		if size += shell.QuotedLen(e.Name()) + 3; size > most {
			return nil
		}
	}
	return names
}

// snapshot is the target's tree as far as it was listed.
func (f *facts) snapshot() *tree.Snapshot {
	s := &tree.Snapshot{}
	if f.listing != nil {
		*s = f.listing.Snapshot
	}
	switch f.kind {
	case '-':
		return &tree.Snapshot{}
	case 'd':
		s.Root.Type = tree.Dir
	case 's':
		return &tree.Snapshot{Root: tree.Entry{Type: tree.Special}}
	default:
		// list_tree was asked for the one entry in its directory.
		if len(s.Entries) == 1 {
			s.Root, s.Entries = s.Entries[0], nil
			s.Root.Path = ""
		} else {
			*s = tree.Snapshot{Root: tree.Entry{Type: tree.Special}}
		}
	}
	return s
}

// checkTarget refuses targets that cannot be one.
func checkTarget(q question, f *facts) error {
	if f.blocked != "" {
		return &provider.Error{Kind: provider.Refused,
			Err:  fmt.Errorf("%q: %q is not a directory", q.path, f.blocked),
			Hint: "choose another target, or remove the file there"}
	}
	return f.checkRoots(q)
}

// restoreOld puts back what a run that was killed had moved away and not
// replaced, and then looks again.
func (r *runner) restoreOld(ctx context.Context, q question, f *facts) (*facts, error) {
	var dead []leftover
	for _, l := range f.leftovers {
		if l.holds && l.dead() {
			r.log("putting back what a run that was killed had moved to %q", l.path)
			dead = append(dead, l)
		}
	}
	if len(dead) == 0 || r.opt.DryRun {
		return f, nil
	}
	if _, err := r.session.Run(ctx, script.Script{Label: "restore", Body: receiveFunctions + removeScript(dead)}); err != nil {
		return nil, classify(err)
	}
	f, err := inspect(ctx, r.session, q)
	return f, classify(err)
}

// carry takes the plan into the sandbox.
func (c *carrier) carry(q question, p *plan) error {
	c.prepare(q, p)
	if p.empty() {
		if len(c.stale) > 0 {
			_, err := c.session.Run(c.ctx, script.Script{Label: "clean up", Body: prepareScript(c.place, hasher{trim: "cat"}) + removeScript(c.stale)})
			return classify(err)
		}
		return nil
	}
	push, route, why, err := c.route()
	if err == nil {
		err = c.requireTools(route)
	}
	if err == nil {
		err = c.plan.checkPaths()
	}
	if err != nil {
		return err
	}
	c.routed(c.mapping, route, why)
	c.attempt(p)
	c.phase("send")
	if err := classify(push(c.ctx)); err != nil {
		c.cleanup()
		return c.explain(err)
	}
	return nil
}

// route picks the way: an archive over a live stream if both sides can.
func (c *carrier) route() (push func(context.Context) error, route Route, why string, err error) {
	switch {
	case c.session.Streams() && hasTar(c.facts):
		c.report.Digests = c.report.Digests || c.opt.Verify
		return c.pushStream, Stream, "the sandbox streams and has " + c.facts.tar + " tar", nil
	case c.opt.Route == Stream:
		return nil, "", "", routeError(Stream, "the sandbox has no GNU or BusyBox tar")
	case c.takesBulk(c.facts):
		c.report.Digests = c.report.Digests || c.opt.Verify
		return c.pushBulk, Bulk, bulkReason(c.facts), nil
	case c.opt.Route == Bulk:
		return nil, "", "", routeError(Bulk, "the sandbox has no GNU or BusyBox tar")
	case c.session.Streams():
		c.session = script.NewSession(c.sandbox, true)
		why = "the sandbox has no GNU or BusyBox tar"
	case c.opt.Route == Base64:
		why = "asked for"
	default:
		why = c.onlyExec()
	}
	c.report.Digests = true
	return c.pushBase64, Base64, why, nil
}

func (c *carrier) requireTools(route Route) error {
	switch {
	case route == Base64:
		return c.facts.require("base64 route", "base64", "cmp", "dd", "mv", "rm", "touch", "xargs")
	case c.opt.Verify:
		return c.facts.require("verify", "cmp", "mv", "rm", "xargs")
	}
	return c.facts.require("stream route", "mv", "rm")
}

// explain completes an error with what only the sandbox knows.
func (c *carrier) explain(err error) error {
	if provider.KindOf(err) != provider.NoSpace {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), cleanupTime)
	defer cancel()
	reply, derr := c.session.Run(ctx, script.Script{Label: "df", Body: "df -Pk -- " + shell.Quote(c.place.base) + " 2>/dev/null || df -Pk " + shell.Quote(c.place.base)})
	free := freeBytes(reply)
	if derr != nil || free < 0 {
		return err
	}
	return &provider.Error{Kind: provider.NoSpace, Hint: provider.HintOf(err),
		Err: fmt.Errorf("no space left on the target %q: %d bytes are free and up to %d are needed: %w", c.place.target, free, c.plan.bytes, err)}
}

// freeBytes reads the output of `df -Pk`; -1 if it can't.
func freeBytes(df []byte) int64 {
	lines := strings.Split(strings.TrimSpace(string(df)), "\n")
	f := strings.Fields(lines[len(lines)-1])
	var kib int64
	if len(f) < 6 {
		return -1
	}
	if _, err := fmt.Sscan(f[3], &kib); err != nil {
		return -1
	}
	return kib << 10
}
