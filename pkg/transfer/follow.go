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
// lead out of it are not followed, since what is there was not listed. The rules
// judge what is found under the path where it will be, as they do on a push.
func (r *runner) followLinks(src *tree.Snapshot, rules *tree.Rules, read func(string) ([]byte, bool, error)) (*tree.Snapshot, error) {
	f := &follower{src: src.Entries, out: *src, most: r.opt.Limits.Entries, read: read}
	f.out.Entries = nil
	if src.Root.Type != tree.Dir {
		return src, nil
	}
	if err := f.directory("", "", []string{""}, rules); err != nil {
		return nil, err
	}
	slices.SortFunc(f.out.Entries, func(a, b tree.Entry) int { return tree.ComparePaths(a.Path, b.Path) })
	return &f.out, nil
}

type follower struct {
	src  []tree.Entry
	out  tree.Snapshot
	most int
	read func(path string) ([]byte, bool, error)
	size int // of the paths in out
}

// find returns the position of a path, or of where it would be.
func (f *follower) find(p string) (int, bool) {
	return slices.BinarySearchFunc(f.src, p, func(e tree.Entry, p string) int { return tree.ComparePaths(e.Path, p) })
}

// directory adds what is in the directory real under the path shown. chain are
// the real directories that it is in, above the rules of the one that shows it.
func (f *follower) directory(real, shown string, chain []string, above *tree.Rules) error {
	rules, err := above.Enter(shown, func(name string) ([]byte, bool, error) { return f.read(join(real, name)) })
	if err != nil {
		return err
	}
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
		if err := f.entry(e, join(shown, tree.Base(e.Path)), chain, rules); err != nil {
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

func (f *follower) entry(e tree.Entry, shown string, chain []string, rules *tree.Rules) error {
	real, problem := e.Path, error(nil)
	if e.Type == tree.Symlink {
		var target string
		if target, problem = f.resolve(tree.Parent(e.Path), e.Link); problem == nil {
			if real = target; real == "" {
				e = f.out.Root
			} else {
				i, _ := f.find(real)
				e = f.src[i]
			}
			if e.Type == tree.Dir && slices.Contains(chain, real) {
				problem = tree.ErrCycle
			}
			e.Nlink = 1 // what it leads to comes again, as a file of its own
		}
	}
	if rules.Excluded(shown, e.Type == tree.Dir) {
		f.out.Excluded++
		return nil
	}
	if problem != nil {
		f.out.Problems = append(f.out.Problems, tree.Problem{Path: shown, Err: problem})
		return nil
	}
	e.Path = shown
	if f.out.Entries = append(f.out.Entries, e); f.most > 0 && len(f.out.Entries) > f.most {
		return &provider.Error{Kind: provider.TooLarge, Err: fmt.Errorf("following links, the source has more than %d entries", f.most), Hint: "raise --limit-entries"}
	}
	if f.size += len(shown); f.size > tree.MaxFollowed {
		return tree.TooMuchFollowed()
	}
	if e.Type == tree.Dir {
		return f.directory(real, shown, append(chain[:len(chain):len(chain)], real), rules)
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
