package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/tree"
)

// carrier carries one mapping's plan on a push.
type carrier struct {
	*runner
	ctx     context.Context
	session *script.Session
	facts   *facts
	place   place
	plan    *plan
	mapping Mapping
	src     *confine.Source
	sender  *sender    // nil until something is sent
	stale   []leftover // leftovers to remove on the way
}

func newCarrier(ctx context.Context, r *runner, m Mapping, f *facts, src *confine.Source) *carrier {
	return &carrier{runner: r, ctx: ctx, session: r.session, mapping: m, facts: f, src: src}
}

// prepare decides where things go.
func (c *carrier) prepare(q question, p *plan) {
	c.plan, c.place = p, newPlace(q, c.facts, p)
	for _, l := range c.facts.leftovers {
		if l.dead() {
			c.stale = append(c.stale, l)
		}
	}
}

func (c *carrier) newSender() *sender {
	c.sender = &sender{src: c.src, follow: c.symlinks(c.mapping) == Follow, plan: c.plan, problem: c.problem, progress: c.progress,
		failed: map[string]bool{}, changed: map[string]bool{}, drift: map[string]int64{}}
	return c.sender
}

// refuseFailures decides whether what could be read is worth publishing.
func (c *carrier) refuseFailures(s *sender) error {
	return c.refuse(c.mapping, c.plan, s.failed, s.changed)
}

// refuse decides whether a tree in which some files could not be read, and some
// changed meanwhile, is worth publishing: in an update the others are, and the
// old tree is worth more than a new one that never was.
func (r *runner) refuse(m Mapping, p *plan, failed, changed map[string]bool) error {
	replace := r.policy(m) == Replace
	if len(failed) == 0 && (len(changed) == 0 || !replace) {
		return nil
	}
	if p.root.Type != tree.Dir {
		return partialError(errors.New("the file could not be read whole, or changed while it was; the target is as it was"))
	}
	if !replace {
		return nil
	}
	var paths []string
	for _, e := range p.send {
		if failed[e.Path] || changed[e.Path] {
			paths = append(paths, e.Path)
		}
	}
	return partialError(fmt.Errorf("%s could not be read whole, or changed while being read; the target is as it was", describe(paths)))
}

func partialError(err error) error { return &provider.Error{Kind: provider.Partial, Err: err} }

// published takes note of what the publishing script replied.
func (c *carrier) published(reply []byte) {
	if strings.Contains(string(reply), "atomic no\n") {
		c.report.Atomic = false
	}
}

// cleanupTime is how long the removal of a staging directory may take after
// everything else has ended.
const cleanupTime = 15 * time.Second

// cleanup removes the staging directory after a failure, also when ctx has
// ended. The script that used it may still be ending itself.
func (c *carrier) cleanup() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), cleanupTime)
	defer cancel()
	body := prepareScript(c.place, hasher{trim: "cat"}) + `n=0
until [ ! -d "$S" ] || mkdir "$S/claim" 2>/dev/null; do
	q=; [ ! -f "$S/claim/pid" ] || read -r q <"$S/claim/pid"
	[ -z "$q" ] || kill -0 "$q" 2>/dev/null || break
	[ $n -lt 10 ] || die 86 "$S is still in use"
	sleep 1; n=$((n+1))
done
n=0
while [ -d "$S" ] && [ $n -lt 5 ]; do
	unstage 2>/dev/null || sleep 1
	n=$((n+1))
done
[ ! -d "$S" ] || die 86 "$S cannot be removed"
`
	if _, err := c.session.Run(ctx, script.Script{Label: "clean up", Body: body, Idempotent: true}); err != nil {
		c.report.Warnings = append(c.report.Warnings, fmt.Sprintf("%s may be left in the sandbox: %v", c.place.stage(), err))
	}
}

// classify gives errors of scripts their kinds.
func classify(err error) error {
	var exit *script.ExitError
	if err == nil || !errors.As(err, &exit) {
		return err
	}
	e := &provider.Error{Err: err}
	text := exit.Stderr
	switch {
	case strings.Contains(text, "No space left on device"), strings.Contains(text, "Disk quota exceeded"):
		e.Kind, e.Hint = provider.NoSpace, "free some space in the sandbox, or exclude what is not needed"
	case strings.Contains(text, "Read-only file system"):
		e.Kind, e.Hint = provider.ReadOnly, "choose a target on a file system that can be written"
	case strings.Contains(text, "Permission denied") && exit.Code == script.ExitNotStaged:
		e.Kind, e.Hint = provider.ReadOnly, "the sandbox's user may not write there; choose another target or fix its permissions"
	default:
		switch exit.Code {
		case script.ExitShort, script.ExitDigest:
			e.Kind = provider.Integrity
		case script.ExitConflict:
			e.Kind, e.Hint = provider.Refused, "another run may have been under way; run it again"
		case script.ExitPublish, script.ExitTool:
			if strings.Contains(text, "Permission denied") || strings.Contains(text, "Operation not permitted") {
				e.Kind, e.Hint = provider.ReadOnly, "the sandbox's user may not change that; choose another target or fix its permissions"
			}
		case script.ExitNotStaged:
			e.Kind = provider.ReadOnly
		case script.ExitNoBase64, tree.ExitNoList:
			e.Kind = provider.Missing
			e.Hint = "install it in the sandbox (BusyBox has it)"
		}
	}
	return e
}

func integrityError(text string) error {
	return &provider.Error{Kind: provider.Integrity, Err: errors.New(text)}
}
