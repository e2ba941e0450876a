package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/tree"
)

// pull carries one mapping from the sandbox to the host.
func (r *runner) pull(ctx context.Context, m Mapping) error {
	if m.Target != stdio && !r.opt.DryRun {
		if err := confine.Sweep(m.Target); err != nil {
			r.warn("leftovers of an earlier run: %v", err)
		}
	}
	r.phase("list")
	q := question{path: m.Source, roots: r.opt.SandboxRoots, list: true, resolve: true}
	f, err := connect(ctx, r.session, q)
	if err != nil {
		return classify(err)
	}
	if f.kind == '-' {
		return &provider.Error{Kind: provider.SourceMissing, Err: fmt.Errorf("no such file in the sandbox: %q", m.Source)}
	}
	if err := f.checkRoots(q); err != nil {
		return err
	}
	rules, err := r.sandboxRules(m)
	if err != nil {
		return err
	}
	g := &puller{runner: r, ctx: ctx, session: r.session, mapping: m, facts: f, dir: f.dir,
		failed: map[string]bool{}, changed: map[string]bool{}, states: map[string]string{}, arrived: map[string]tree.Entry{}, drift: map[string]int64{}}
	src, err := g.sandboxTree(rules)
	if err != nil {
		return err
	}
	if m.Target == stdio {
		return g.toStdout(src)
	}
	if m.into && src.Root.Type != tree.Dir {
		g.mapping.Target = filepath.Join(m.Target, path.Base(m.Source))
	}
	return g.pull(src, rules)
}

// puller carries one mapping's plan on a pull.
type puller struct {
	*runner
	ctx     context.Context
	session *script.Session
	mapping Mapping
	facts   *facts
	dir     string                                  // in the sandbox, to which paths are relative
	read    func(path string) ([]byte, bool, error) // ignore files of the source
	plan    *plan
	stage   *confine.Stage
	inside  bool             // the stage is in the destination, which has the tree's root
	drift   map[string]int64 // by how much files had grown since they were listed
	failed  map[string]bool
	changed map[string]bool       // files that changed while they were read
	states  map[string]string     // of large files, when the first piece was read
	arrived map[string]tree.Entry // files that had changed before they were read, as they came
	digests map[string]string     // of what was received, if digests are compared
	at      position
	bulk    *bulkPull // on the bulk route
}

func (g *puller) pull(src *tree.Snapshot, rules *tree.Rules) error {
	m := g.mapping
	if filepath.Dir(m.Target) == m.Target && src.Root.Type == tree.Dir {
		if err := refuseRoot(g.policy(m)); err != nil {
			return err
		}
	}
	dst, err := g.hostTree(src)
	if err != nil {
		return err
	}
	in := g.planInput(m, g.facts, src, dst, rules, g.read)
	in.unlisted = firstFault(dst.Problems)
	if in.same, err = g.compareContents(in); err != nil {
		return err
	}
	p, err := makePlan(in)
	if err != nil {
		return err
	}
	g.plan = p
	if err := g.checkNames(); err != nil {
		return err
	}
	if err := g.checkLinks(src, dst); err != nil {
		return err
	}
	g.planned(m, p, src)
	if g.opt.DryRun {
		return g.verdict()
	}
	if err := g.refuseProblems(m, src); err != nil {
		return err
	}
	if !p.empty() {
		g.attempt(p)
		if err := g.carry(dst); err != nil {
			return err
		}
	}
	g.carried(p, g.failed, sumDrift(g.drift, g.failed))
	return g.verdict()
}

// hostTree takes a snapshot of the destination. Where nothing excluded can be
// in the way, it leaves out what patterns exclude that ignore files can't
// change.
func (g *puller) hostTree(src *tree.Snapshot) (*tree.Snapshot, error) {
	target := g.mapping.Target
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return &tree.Snapshot{}, nil
	}
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := os.Stat(target)
		if err != nil || to.Mode().IsRegular() {
			return &tree.Snapshot{Root: tree.Entry{Type: tree.Symlink, Mode: 0o777}}, nil
		}
		info = to
	}
	if info.IsDir() && (src.Root.Type != tree.Dir || g.policy(g.mapping) == Replace && !g.opt.DryRun) {
		return &tree.Snapshot{Root: tree.Entry{Type: tree.Dir}}, nil
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return &tree.Snapshot{Root: tree.Entry{Type: tree.Special}}, nil
	}
	var rules *tree.Rules
	if !g.opt.DeleteExcluded && !g.opt.Force {
		o := g.ruleOptions(g.mapping)
		o.IgnoreFiles = nil
		if rules, err = newRules(o); err != nil {
			return nil, err
		}
	}
	dst, err := tree.Scan(g.ctx, target, tree.ScanOptions{Rules: rules, MaxEntries: int64(g.opt.Limits.Entries)})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// checkNames refuses names that the host cannot have, before anything moves.
func (g *puller) checkNames() error {
	for _, e := range g.plan.send {
		if err := confine.CheckHostName(e.Path); err != nil {
			return err
		}
	}
	return nil
}

// checkLinks refuses links that lead out of the destination, resolved in the
// tree as it will be.
func (g *puller) checkLinks(src, dst *tree.Snapshot) error {
	if g.opt.AllowExternalSymlinks {
		return nil
	}
	links := map[string]string{}
	if !g.plan.newRoot {
		for _, e := range dst.Entries {
			if e.Type == tree.Symlink {
				links[e.Path] = e.Link
			}
		}
	}
	var check []string
	for _, e := range src.Entries {
		delete(links, e.Path)
		if e.Type == tree.Symlink {
			links[e.Path] = e.Link
			check = append(check, e.Path)
		}
	}
	bad := confine.CheckLinks(links, check)
	if len(bad) == 0 {
		return nil
	}
	err := fmt.Errorf("%w", bad[0])
	if len(bad) > 1 {
		err = fmt.Errorf("%w, and %d more such links", bad[0], len(bad)-1)
	}
	return &provider.Error{Kind: provider.Confined, Err: err,
		Hint: "--symlinks skip leaves links out, --allow-external-symlinks takes them as they are"}
}
