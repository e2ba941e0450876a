package confine

import (
	"errors"
	"runtime"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Limits of [CheckLinks].
const (
	// MaxLinks is how many links one path may lead through: Linux's limit
	// (path_resolution(7)). Other systems have 32 or 63, so a path that needs
	// more means something else from host to host.
	MaxLinks = 40
	// MaxTarget is the longest link target, in bytes: PATH_MAX on Linux less
	// the terminator.
	MaxTarget = 4095
	// maxSteps is how many elements one walk may take, so that hostile links
	// cost 0.1 ms each (measured: 28 ns a step) instead of 40 times
	// MaxTarget/2 steps.
	maxSteps = 4096
)

// LinkError is a symbolic link that is refused. It is of kind
// [provider.Confined].
type LinkError struct {
	Path   string // of the link, relative to the tree's root
	Target string
	Reason string
}

func (e *LinkError) Error() string {
	return "check link " + quote(e.Path) + " -> " + quote(e.Target) + ": " + e.Reason
}

// Unwrap returns the reason as a [*provider.Error] of kind Confined.
func (e *LinkError) Unwrap() error {
	return &provider.Error{Kind: provider.Confined, Err: errors.New(e.Reason)}
}

// CheckLinks says which links of a tree lead out of it, or could. links maps
// the path of every link of the final tree (what arrives and what stays) to its
// target text; check lists the paths to judge, in the order of the answer.
//
// Each target is resolved element by element, through the tree's other links,
// so links that are harmless one by one and escape together are found
// (CVE-2019-11251). Refused are targets that are absolute, empty, longer than
// [MaxTarget] or hold a NUL byte, that go above the root at any step, even if
// they come back, or that lead through more than [MaxLinks] links or thousands
// of names; and links below a path that is a link itself. Links that dangle inside the tree are
// fine, and so are links that lead round in a circle, for nothing is ever
// reached through them. A link at the root ("") always leads out.
//
// On macOS and Windows names that differ only in case or in Unicode normal form
// count as one, as they may be on disk.
func CheckLinks(links map[string]string, check []string) []*LinkError {
	return checkLinks(runtime.GOOS, links, check)
}

func checkLinks(goos string, links map[string]string, check []string) []*LinkError {
	w := linkWalk{root: &linkNode{}, windows: goos == "windows", folds: goos == "windows" || goos == "darwin"}
	for p, target := range links {
		w.add(p, target)
	}
	var refused []*LinkError
	for _, p := range check {
		target, ok := links[p]
		if !ok {
			continue
		}
		if reason := w.fault(p, target); reason != "" {
			refused = append(refused, &LinkError{Path: p, Target: target, Reason: reason})
		}
	}
	return refused
}

// linkNode is a name in the tree, if some link is there or below. A nil node
// stands for every place without one.
type linkNode struct {
	children map[string]*linkNode
	isLink   bool
	target   string
	active   bool // its target is being walked
}

func (n *linkNode) child(name string) *linkNode {
	if n == nil {
		return nil
	}
	return n.children[name]
}

// linkWalk walks link targets in a tree that exists only as text.
type linkWalk struct {
	root           *linkNode
	windows, folds bool

	at     []*linkNode // where the walk stands: the nodes below the root
	budget int         // links that may still be followed
	steps  int         // elements that may still be taken
}

// Ways in which a walk ends early.
var (
	errAbove  = errors.New("leads above the root of the tree")
	errAbs    = errors.New("absolute target")
	errEmpty  = errors.New("empty target")
	errNUL    = errors.New("NUL byte in target")
	errLong   = errors.New("target longer than 4095 bytes")
	errBudget = errors.New("leads through more than 40 links")
	errSteps  = errors.New("leads through more than 4096 names")
	errCircle = errors.New("leads round in a circle")
)

func (w *linkWalk) add(p, target string) {
	n := w.root
	for elem := range strings.SplitSeq(p, "/") {
		elem = w.fold(elem)
		next := n.child(elem)
		if next == nil {
			next = &linkNode{}
			if n.children == nil {
				n.children = make(map[string]*linkNode, 1)
			}
			n.children[elem] = next
		}
		n = next
	}
	n.isLink, n.target = true, target
}

// fault says why the link at p is refused, or "".
func (w *linkWalk) fault(p, target string) string {
	if p == "" {
		return "a link at the root leads out of the tree"
	}
	if reason := pathFault(p); reason != "" {
		return reason
	}
	w.at = w.at[:0]
	n := w.root
	for elem := range strings.SplitSeq(p, "/") {
		if n.isLink {
			return "lies below another link"
		}
		n = n.child(w.fold(elem))
		w.at = append(w.at, n)
	}
	w.at = w.at[:len(w.at)-1]
	w.budget, w.steps = MaxLinks-1, maxSteps
	n.active = true
	defer func() { n.active = false }()
	if err := w.walk(target); err != nil && err != errCircle {
		return err.Error()
	}
	return ""
}

// walk follows target from where the walk stands.
func (w *linkWalk) walk(target string) error {
	if w.windows {
		target = strings.ReplaceAll(target, `\`, "/")
	}
	switch {
	case target == "":
		return errEmpty
	case len(target) > MaxTarget:
		return errLong
	case strings.IndexByte(target, 0) >= 0:
		return errNUL
	case target[0] == '/':
		return errAbs
	}
	for elem := range strings.SplitSeq(target, "/") {
		if err := w.step(elem); err != nil {
			return err
		}
	}
	return nil
}

func (w *linkWalk) step(elem string) error {
	if w.steps--; w.steps < 0 {
		return errSteps
	}
	last := len(w.at) - 1
	switch {
	case elem == "", elem == ".":
		return nil
	case elem == ".." && last < 0:
		return errAbove
	case elem == "..":
		w.at = w.at[:last]
		return nil
	case w.windows && windowsFault(elem) != "":
		return errors.New(windowsFault(elem))
	}
	here := w.root
	if last >= 0 {
		here = w.at[last]
	}
	n := here.child(w.fold(elem))
	if n == nil || !n.isLink {
		w.at = append(w.at, n)
		return nil
	}
	if n.active {
		// To resolve this link one has to resolve it first.
		return errCircle
	}
	if w.budget--; w.budget < 0 {
		return errBudget
	}
	n.active = true
	defer func() { n.active = false }()
	return w.walk(n.target)
}

// fold maps all spellings of a name that may be one file on this host to one.
func (w *linkWalk) fold(name string) string {
	if !w.folds {
		return name
	}
	return strings.Map(func(c rune) rune {
		least := c
		for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, norm.NFD.String(name))
}
