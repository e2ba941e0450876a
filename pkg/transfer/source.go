package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/tree"
)

// ignoreFile is read in every directory of a source, unless NoIgnore is set.
const ignoreFile = ".sbsyncignore"

// ruleOptions are the excludes of a mapping.
func (r *runner) ruleOptions(m Mapping) tree.RuleOptions {
	o := tree.RuleOptions{Exclude: r.opt.Exclude, TarExclude: m.Exclude}
	if !r.opt.NoIgnore {
		o.IgnoreFiles = []string{ignoreFile}
	}
	return o
}

// hostRules are the excludes of a push.
func (r *runner) hostRules(m Mapping) (*tree.Rules, error) {
	o := r.ruleOptions(m)
	if info, err := os.Stat(m.Source); err == nil && info.IsDir() {
		o.Git, o.Root = r.opt.Gitignore, m.Source
	}
	rules, err := tree.NewRules(o)
	if err != nil {
		return nil, &provider.Error{Kind: provider.Usage, Err: err}
	}
	return rules, nil
}

// symlinks is how a mapping treats symbolic links.
func (r *runner) symlinks(m Mapping) Symlinks {
	if m.Symlinks != "" {
		return m.Symlinks
	}
	return r.opt.Symlinks
}

func (r *runner) policy(m Mapping) Policy {
	if m.Policy != "" {
		return m.Policy
	}
	return r.opt.Policy
}

// scan takes a snapshot of a push's source.
func (r *runner) scan(ctx context.Context, m Mapping, rules *tree.Rules) (*tree.Snapshot, error) {
	s, err := tree.Scan(ctx, m.Source, tree.ScanOptions{
		Rules: rules, Follow: r.symlinks(m) == Follow, AllowExternal: r.opt.AllowExternalSymlinks,
		MaxEntries: int64(r.opt.Limits.Entries), MaxPath: r.opt.Limits.PathBytes,
		MaxFileSize: r.opt.Limits.File, MaxTotal: r.opt.Limits.Total,
	})
	if err != nil {
		return nil, err
	}
	return s, r.treatLinks(m, s)
}

// Problems of entries that are left out.
var errLinkSkipped = errors.New("a symbolic link, left out (--symlinks skip)")

// treatLinks applies Skip and Reject to a snapshot.
func (r *runner) treatLinks(m Mapping, s *tree.Snapshot) error {
	way := r.symlinks(m)
	if way != Skip && way != Reject {
		return nil
	}
	kept := s.Entries[:0]
	var links []string
	for _, e := range s.Entries {
		if e.Type != tree.Symlink {
			kept = append(kept, e)
			continue
		}
		links = append(links, e.Path)
		s.Problems = append(s.Problems, tree.Problem{Path: e.Path, Err: errLinkSkipped, Skip: true})
	}
	s.Entries = kept
	if way == Reject && len(links) > 0 {
		return &provider.Error{Kind: provider.Refused, Err: fmt.Errorf("the source has symbolic links: %s", describe(links)),
			Hint: "choose --symlinks preserve, follow or skip"}
	}
	return nil
}

// planInput brings together what a plan depends on. read reads files of the
// source.
func (r *runner) planInput(m Mapping, f *facts, src, dst *tree.Snapshot, rules *tree.Rules, read func(string) ([]byte, bool, error)) planInput {
	mode := m.Mode
	if mode == nil {
		mode = r.opt.Mode
	}
	return planInput{
		src: src, dst: dst, policy: r.policy(m), force: r.opt.Force, setID: r.opt.SetID, mode: mode,
		checksum: r.opt.Checksum, wholeSeconds: !f.touchNs(), maxDelete: r.opt.MaxDelete,
		protected: r.protected(rules, read),
	}
}

// protected says of entries that only the target has whether they are excluded
// and so stay.
func (r *runner) protected(rules *tree.Rules, read func(string) ([]byte, bool, error)) func(path string, isDir bool) bool {
	if r.opt.DeleteExcluded {
		return func(string, bool) bool { return false }
	}
	return newExcludes(rules, read).excluded
}

// planned reports a plan, and what the snapshot left out.
func (r *runner) planned(m Mapping, p *plan, src *tree.Snapshot) {
	r.report.Excluded += src.Excluded
	r.report.Unchanged += p.unchanged
	for _, problem := range src.Problems {
		if problem.Skip {
			r.report.Skipped++
		}
		r.problem(problem)
	}
	if src.Excluded > 0 && len(src.Entries) == 0 && src.Root.Type == tree.Dir {
		r.warn("%q: everything in it is excluded", m.Source)
	}
	if r.opt.Observer != nil {
		r.opt.Observer.Planned(m, p.entries, p.files, p.bytes)
	}
	r.credit(p)
	if r.opt.DryRun {
		r.carried(p, nil, 0)
	}
}

// credit counts what an earlier attempt had done when its answer got lost: what
// it planned, and what now turns out not to be needed any more.
func (r *runner) credit(p *plan) {
	if len(r.tried) == 0 {
		return
	}
	now := make(map[string]bool, len(p.entries))
	for _, e := range p.entries {
		now[e.Path] = true
	}
	for path, e := range r.tried {
		if now[path] {
			continue
		}
		r.count(e.PlannedEntry, e.linked)
		if e.Action != Delete && e.Type != tree.Dir {
			r.report.Unchanged--
		}
	}
}

// triedEntry is an entry that an attempt was to carry.
type triedEntry struct {
	PlannedEntry
	linked bool // as a hard link, without bytes of its own
}

// count adds an entry that was carried to the report.
func (r *runner) count(e PlannedEntry, linked bool) {
	switch {
	case e.Action == Attrs:
		r.report.Changed++
	case e.Action == Delete:
		r.report.Deleted++
	case e.Type == tree.Dir:
		if e.Path != "" { // the root is what was named, not what is in it
			r.report.Dirs++
		}
	case e.Type == tree.Symlink:
		r.report.Links++
	case e.Type == tree.File:
		r.report.Files++
		if !linked {
			r.report.Bytes += e.Size
		}
	}
}

// attempt remembers a plan before it is carried out, in case it is carried out
// and nobody hears of it.
func (r *runner) attempt(p *plan) {
	if r.opt.Retries == 0 {
		return
	}
	if r.tried == nil {
		r.tried = make(map[string]triedEntry, len(p.entries))
	}
	for _, e := range p.entries {
		_, linked := p.hard[e.Path]
		r.tried[e.Path] = triedEntry{e, linked}
	}
}

// carried adds a plan that was carried out to the report, but for the files
// that failed. drift is by how much the files had grown since they were listed.
func (r *runner) carried(p *plan, failed map[string]bool, drift int64) {
	for _, e := range p.entries {
		if _, linked := p.hard[e.Path]; !failed[e.Path] {
			r.count(e, linked)
		}
	}
	r.report.Bytes += drift
}

// warn adds a warning to the report, once.
func (r *runner) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.report.Warnings, text) {
		r.report.Warnings = append(r.report.Warnings, text)
	}
}

// refuseProblems stops a Replace before anything is sent if the source could
// not be read whole: its old tree is worth more than half of a new one.
func (r *runner) refuseProblems(m Mapping, src *tree.Snapshot) error {
	if r.policy(m) != Replace {
		return nil
	}
	for _, p := range src.Problems {
		if !p.Skip {
			return partialError(fmt.Errorf("the source could not be read whole, and nothing was changed: %q: %w", p.Path, p.Err))
		}
	}
	return nil
}

// firstFault is the first problem that is more than something left out.
func firstFault(problems []tree.Problem) error {
	for _, p := range problems {
		if !p.Skip {
			return fmt.Errorf("%q: %w", p.Path, p.Err)
		}
	}
	return nil
}

// verdict is the error at the end of a mapping of which all that could be
// carried was.
func (r *runner) verdict() error {
	n := 0
	for _, p := range r.report.Problems[r.seen:] {
		if !p.Skip {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	what := "1 entry"
	if n > 1 {
		what = fmt.Sprintf("%d entries", n)
	}
	return partialError(fmt.Errorf("%s could not be read or changed while being read; everything else is in place", what))
}
