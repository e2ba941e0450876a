package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/tree"
)

// followLinks returns the snapshot that following every link of a sandbox's
// tree gives, as tar -h would. Links are resolved in the listing; those that
// lead out of it are not followed, since what is there was not listed.
func (r *runner) followLinks(src *tree.Snapshot) (*tree.Snapshot, error) {
	f := &follower{src: src.Entries, out: *src, most: r.opt.Limits.Entries}
	f.out.Entries = nil
	if err := f.directory("", "", []string{""}); err != nil {
		return nil, err
	}
	slices.SortFunc(f.out.Entries, func(a, b tree.Entry) int { return tree.ComparePaths(a.Path, b.Path) })
	return &f.out, nil
}

type follower struct {
	src  []tree.Entry
	out  tree.Snapshot
	most int
}

// find returns the position of a path, or of where it would be.
func (f *follower) find(p string) (int, bool) {
	return slices.BinarySearchFunc(f.src, p, func(e tree.Entry, p string) int { return tree.ComparePaths(e.Path, p) })
}

// directory adds what is in the directory real under the path shown. chain are
// the real directories that it is in.
func (f *follower) directory(real, shown string, chain []string) error {
	i := 0
	if real != "" {
		i, _ = f.find(real)
		i++
	}
	for ; i < len(f.src) && tree.Within(f.src[i].Path, real); i++ {
		e := f.src[i]
		if tree.Parent(e.Path) != real {
			continue
		}
		if err := f.entry(e, join(shown, tree.Base(e.Path)), chain); err != nil {
			return err
		}
	}
	return nil
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func (f *follower) entry(e tree.Entry, shown string, chain []string) error {
	real := e.Path
	if e.Type == tree.Symlink {
		target, err := f.resolve(tree.Parent(e.Path), e.Link)
		if err != nil {
			f.out.Problems = append(f.out.Problems, tree.Problem{Path: shown, Err: err})
			return nil
		}
		if real = target; real == "" {
			e = f.out.Root
		} else {
			i, _ := f.find(real)
			e = f.src[i]
		}
		if e.Type == tree.Dir && slices.Contains(chain, real) {
			f.out.Problems = append(f.out.Problems, tree.Problem{Path: shown, Err: tree.ErrCycle})
			return nil
		}
		e.Nlink = 1 // what it leads to comes again, as a file of its own
	}
	e.Path = shown
	if f.out.Entries = append(f.out.Entries, e); f.most > 0 && len(f.out.Entries) > f.most {
		return &provider.Error{Kind: provider.TooLarge, Err: fmt.Errorf("following links, the source has more than %d entries", f.most), Hint: "raise --limit-entries"}
	}
	if e.Type == tree.Dir {
		return f.directory(real, shown, append(chain[:len(chain):len(chain)], real))
	}
	return nil
}

// maxLinks is how many links one path may go through: Linux's MAXSYMLINKS.
const maxLinks = 40

var errTooManyLinks = errors.New("too many levels of links")

// resolve returns the path that a link in dir leads to, without links in it.
func (f *follower) resolve(dir, link string) (string, error) {
	rest := strings.Split(link, "/")
	if strings.HasPrefix(link, "/") {
		return "", fmt.Errorf("%w: %q", tree.ErrExternal, link)
	}
	at := dir
	for links := 0; len(rest) > 0; {
		elem := rest[0]
		rest = rest[1:]
		switch elem {
		case "", ".":
			continue
		case "..":
			if at == "" {
				return "", fmt.Errorf("%w: %q", tree.ErrExternal, link)
			}
			at = tree.Parent(at)
			continue
		}
		next := join(at, elem)
		i, ok := f.find(next)
		if !ok {
			return "", &fs.PathError{Op: "follow", Path: link, Err: fs.ErrNotExist}
		}
		e := f.src[i]
		if e.Type != tree.Symlink {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", errTooManyLinks
		}
		if strings.HasPrefix(e.Link, "/") {
			return "", fmt.Errorf("%w: %q", tree.ErrExternal, e.Link)
		}
		rest = append(strings.Split(e.Link, "/"), rest...)
	}
	return at, nil
}
