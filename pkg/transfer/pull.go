package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

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

// sandboxRules are the excludes of a pull.
func (r *runner) sandboxRules(m Mapping) (*tree.Rules, error) {
	o := r.ruleOptions(m)
	if r.opt.Gitignore {
		// What is tracked is not known here; .git is left out as on a push.
		o.IgnoreFiles = append([]string{".gitignore"}, o.IgnoreFiles...)
		o.Exclude = append([]string{".git"}, o.Exclude...)
	}
	return newRules(o)
}

// newRules is tree.NewRules for what a user wrote.
func newRules(o tree.RuleOptions) (*tree.Rules, error) {
	rules, err := tree.NewRules(o)
	if err != nil {
		return nil, &provider.Error{Kind: provider.Usage, Err: err}
	}
	return rules, nil
}

// sandboxTree turns the listing into the snapshot of what a pull carries.
func (g *puller) sandboxTree(rules *tree.Rules) (*tree.Snapshot, error) {
	m, src := g.mapping, g.facts.snapshot()
	switch {
	case src.Root.Type == tree.Special:
		return nil, provider.New(provider.Usage, fmt.Sprintf("%q is neither a file nor a directory", m.Source), "")
	case src.Root.Type == tree.Dir && m.Kind == FileKind:
		return nil, provider.New(provider.Usage, fmt.Sprintf("%q is a directory, not a file", m.Source), "")
	case src.Root.Type != tree.Dir && m.Kind == DirectoryKind:
		return nil, provider.New(provider.Usage, fmt.Sprintf("%q is not a directory", m.Source), "")
	}
	if l := g.facts.listing; l != nil && l.Incomplete {
		src.Problems = append(src.Problems, unreadable(l.Trouble)...)
		for i := range src.Entries {
			// As a scan does of those that it cannot read.
			if e := &src.Entries[i]; e.Type == tree.Dir && e.Mode&0o500 != 0o500 {
				e.Mode |= 0o700
			}
		}
	}
	src.Leftovers = 0
	g.read = g.ignoreFiles(src, rules)
	var err error
	if g.symlinks(m) == Follow {
		src, err = g.followLinks(src, rules, g.read)
	} else {
		src, err = tree.Filter(src, rules, g.read)
	}
	if err != nil {
		return nil, err
	}
	if err := g.treatLinks(m, src); err != nil {
		return nil, err
	}
	for _, e := range src.Entries {
		if e.Type == tree.Special {
			src.Problems = append(src.Problems, tree.Problem{Path: e.Path, Err: fmt.Errorf("a %s, left out", e.Special), Skip: true})
		}
	}
	return src, g.checkLimits(src)
}

// unreadable makes problems of what find and stat complained about. What is
// gone since is none.
func unreadable(text string) []tree.Problem {
	if text == "" {
		return []tree.Problem{{Err: errors.New("the sandbox's listing is not complete, and it does not say why")}}
	}
	var problems []tree.Problem
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.Contains(line, "No such file or directory") {
			problems = append(problems, tree.Problem{Err: errors.New(line)})
		}
	}
	return problems
}

// ignoreFiles fetches the ignore files of a listing in one go, when the first
// is asked for.
func (g *puller) ignoreFiles(src *tree.Snapshot, rules *tree.Rules) func(string) ([]byte, bool, error) {
	var contents map[string][]byte
	return func(p string) ([]byte, bool, error) {
		if contents == nil {
			var err error
			if contents, err = g.readSmall(tree.IgnoreFilesIn(src, rules)); err != nil {
				return nil, false, err
			}
		}
		b, ok := contents[p]
		return b, ok, nil
	}
}

// maxIgnoreFile bounds what is read of an ignore file.
const maxIgnoreFile = 1 << 20

// readSmall reads small files of the sandbox.
func (g *puller) readSmall(names []string) (map[string][]byte, error) {
	contents := map[string][]byte{}
	for len(names) > 0 {
		n, size := 0, 0
		var b strings.Builder
		fmt.Fprintf(&b, "cd -P -- %s || die 81 'the directory is gone'\n", script.Quote(g.dir))
		b.WriteString("give() { c=$(head -c " + fmt.Sprint(maxIgnoreFile) + " \"$1\" 2>/dev/null; echo .) || return 0; printf '%s\\000%s\\000' \"$1\" \"${c%.}\"; }\n")
		for n < len(names) && size < min(48<<10, g.session.MaxBody()/2) {
			word := script.Quote("./" + names[n])
			fmt.Fprintf(&b, "give %s\n", word)
			size += len(word) + 6
			n++
		}
		var text []byte
		err := g.again(g.ctx, "ignore files", func(ctx context.Context) (err error) {
			text, err = g.session.Report(ctx, script.Script{Label: "ignore files", Body: b.String()})
			return err
		})
		if err != nil {
			return nil, err
		}
		parts := strings.Split(string(text), "\x00")
		for i := 0; i+1 < len(parts); i += 2 {
			contents[strings.TrimPrefix(parts[i], "./")] = []byte(parts[i+1])
		}
		names = names[n:]
	}
	return contents, nil
}

// maxTotal is more than any sandbox holds. Sizes are the sandbox's word, and up
// to here they can be added up and cut into pieces.
const maxTotal = 1 << 60

// checkLimits applies the limits that a scan of the host applies while it goes.
func (r *runner) checkLimits(s *tree.Snapshot) error {
	l := r.opt.Limits
	exceeded := func(flag, format string, args ...any) error {
		return &provider.Error{Kind: provider.TooLarge, Err: fmt.Errorf(format, args...), Hint: "raise " + flag + ", or exclude it"}
	}
	if l.Entries > 0 && len(s.Entries) > l.Entries {
		return exceeded("--limit-entries", "the source has %d entries, more than %d", len(s.Entries), l.Entries)
	}
	var total int64
	for _, e := range append([]tree.Entry{s.Root}, s.Entries...) {
		if l.PathBytes > 0 && len(e.Path) > l.PathBytes {
			return exceeded("--limit-path", "a path of %d bytes is longer than %d: %.80q", len(e.Path), l.PathBytes, e.Path)
		}
		if l.File > 0 && e.Size > l.File {
			return exceeded("--limit-file", "%q has %d bytes, more than %d", e.Path, e.Size, l.File)
		}
		if e.Size > maxTotal-total {
			return &provider.Error{Kind: provider.TooLarge, Err: fmt.Errorf("the sandbox lists files of more than %d bytes together", int64(maxTotal))}
		}
		if total += e.Size; l.Total > 0 && total > l.Total {
			return exceeded("--limit-total", "the files have more than %d bytes together", l.Total)
		}
	}
	return nil
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

// compareContents finds the files whose contents the host already has, among
// those that only their contents can tell.
func (g *puller) compareContents(in planInput) (map[string]bool, error) {
	names := candidates(in)
	if len(names) == 0 {
		return nil, nil
	}
	h, err := g.facts.hasher(0)
	if err != nil {
		return nil, in.needed(err)
	}
	g.phase("compare")
	remote := names
	if in.src.Root.Type == tree.File {
		remote = []string{path.Base(g.facts.path)}
	}
	sums, err := g.remoteDigests(g.ctx, g.session, h, g.dir, remote)
	if err != nil {
		return nil, err
	}
	local, err := confine.OpenSource(g.mapping.Target)
	if err != nil {
		return nil, err
	}
	defer local.Close()
	same := map[string]bool{}
	for i, n := range names {
		if sums[i] == "" {
			continue
		}
		f, _, err := local.Open(n, false)
		if err != nil {
			continue
		}
		sum, err := fileDigest(h, f)
		f.Close()
		same[n] = err == nil && sum == sums[i]
	}
	return same, nil
}
