package confine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/tree"
)

// Sweep removes what killed runs left beside and inside the destination dest,
// and puts back what they had taken away and not replaced: the whole old tree
// if the run was killed between two renames, or single entries that were
// retired. Stages of runs that are alive, or may be (see [OwnerDead]), and
// directories of other users are left alone.
//
// It is called before a run and may be called at any time. Errors come joined;
// each leaves a leftover where it is.
func Sweep(dest string) error {
	abs, err := filepath.Abs(dest)
	if err != nil {
		return err
	}
	// Beside the destination: beside the link, if it is one, and beside what
	// it leads to.
	places := []string{abs}
	if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
		places = append(places, real)
	}
	var errs []error
	for _, p := range places {
		if dir := filepath.Dir(p); dir != p {
			errs = append(errs, sweepDir(dir, filepath.Base(p)))
		}
	}
	if info, err := os.Stat(abs); err == nil && info.IsDir() {
		errs = append(errs, sweepDir(abs, ""))
	}
	return errors.Join(errs...)
}

// sweepDir sweeps the leftovers in a directory: those of destinations called
// base, or all if base is empty.
func sweepDir(path, base string) error {
	root, err := os.OpenRoot(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil // then no stage of ours can be there
	case err != nil:
		return fmt.Errorf("sweep %s: %w", quote(path), cause(err))
	}
	outer, err := newDirCache(root, true)
	if err != nil {
		return fmt.Errorf("sweep %s: %w", quote(path), cause(err))
	}
	defer outer.close()
	names, err := scratchNames(root)
	if err != nil {
		return fmt.Errorf("sweep %s: %w", quote(path), cause(err))
	}
	var errs []error
	for _, name := range names {
		if err := sweepOne(outer, name, base); err != nil {
			errs = append(errs, fmt.Errorf("sweep leftover %s: %w", quote(filepath.Join(path, name)), err))
		}
	}
	return errors.Join(errs...)
}

// scratchNames lists the names in a directory that may be stages.
func scratchNames(root *os.Root) (names []string, err error) {
	list, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer list.Close()
	for {
		batch, err := list.Readdirnames(1000)
		for _, name := range batch {
			if tree.IsScratch(name) {
				names = append(names, name)
			}
		}
		if err == io.EOF {
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// sweepOne restores from and removes one leftover, if it is a dead one for base.
func sweepOne(outer *dirCache, name, base string) error {
	info, err := outer.top.Lstat(name)
	if err != nil || !info.IsDir() || !isOurs(info) {
		return nil
	}
	d, err := openDir(outer.top, name, name, info)
	if err != nil {
		return err
	}
	inner, err := newDirCache(d.Root, false)
	if err != nil {
		return err
	}
	defer inner.close()
	inner.prefix, inner.within = name, outer.top
	if names, err := namesIn(inner, ""); err == nil && (len(names) == 0 || len(names) == 1 && names[0] == draftFile) {
		return sweepEmpty(outer, inner, name)
	}
	if !isDead(inner.top, info) {
		return nil
	}
	dest, backup := readSmall(inner.top, forFile), true
	if dest == "" {
		dest, backup = readSmall(inner.top, doneFile), false
	}
	if dest == "" && !isBare(inner) || dest != "" && base != "" && dest != base {
		return nil
	}
	if backup {
		if err := restore(outer, inner, dest); err != nil {
			return err
		}
	}
	inner.close()
	return withWrite(func() error { return removeStage(outer.top, name) }, outer.top)
}

// sweepEmpty removes a stage in which nothing is, not even a whole owner: its run was
// killed right after making it, or right before the end of removing it. If the
// run lives, it has made something by now, or will make another stage.
func sweepEmpty(outer, inner *dirCache, name string) error {
	if err := inner.top.Remove(draftFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	inner.close()
	err := withWrite(func() error { return rmdir(outer.top, name) }, outer.top)
	if errors.Is(err, fs.ErrExist) { // not empty any more
		return nil
	}
	return orGone(err)
}

// isDead says whether the run that made the stage has ended.
func isDead(stage *dir, info fs.FileInfo) bool {
	sign := info.ModTime()
	if owner, err := stage.Lstat(ownerFile); err == nil && owner.ModTime().After(sign) {
		sign = owner.ModTime()
	}
	return OwnerDead(readSmall(stage, ownerFile), time.Since(sign))
}

// isBare says whether the stage is one whose run ended before it wrote down
// for which destination: then nothing is in it.
func isBare(inner *dirCache) bool {
	names, err := namesIn(inner, "")
	return err == nil && !slices.ContainsFunc(names, func(name string) bool {
		return name != ownerFile && name != forFile
	})
}

// readSmall returns what is in a small file of the stage, or "".
func readSmall(stage *dir, name string) string {
	f, _, err := openFile(stage, name, name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return ""
	}
	return string(text)
}

// restore puts back what the stage in inner took from the destination, which
// is a name in outer or, if it is ".", outer itself.
func restore(outer, inner *dirCache, dest string) error {
	if dest == "." {
		return restoreRetired(outer, inner)
	}
	if CheckPath(dest) != nil || strings.Contains(dest, "/") {
		return nil
	}
	if _, err := inner.top.Lstat(oldName); err != nil {
		return nil
	}
	err := move(inner.top, oldName, outer.top, dest, noReplace)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// restoreRetired puts back retired entries, the last generation first.
func restoreRetired(outer, inner *dirCache) error {
	for n := generations(inner) - 1; n >= 0; n-- {
		from := retiredName + "/" + strconv.Itoa(n)
		if err := restoreBelow(outer, inner, from, ""); err != nil {
			return err
		}
	}
	return nil
}

// generations counts the directories in which Retire kept things.
func generations(inner *dirCache) int {
	for n := 0; ; n++ {
		if _, err := inner.top.Lstat(retiredName + "/" + strconv.Itoa(n)); err != nil {
			return n
		}
	}
}

// restoreBelow puts back what is in from/rel, entry by entry: into a directory
// that is still there, and never over anything.
func restoreBelow(outer, inner *dirCache, from, rel string) error {
	names, err := namesIn(inner, join(from, rel))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := restoreEntry(outer, inner, from, join(rel, name)); err != nil {
			return err
		}
	}
	return nil
}

func restoreEntry(outer, inner *dirCache, from, rel string) error {
	to, err := outer.open(tree.Parent(rel), false)
	if err != nil {
		return err
	}
	defer to.release()
	src, err := inner.open(tree.Parent(join(from, rel)), false)
	if err != nil {
		return err
	}
	defer src.release()
	name := tree.Base(rel)
	kept, err := src.Lstat(name)
	if err != nil {
		return err
	}
	there, err := to.Lstat(name)
	switch {
	case err == nil && there.IsDir() && kept.IsDir():
		return restoreBelow(outer, inner, from, rel)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	inner.drop(join(from, rel))
	if err := move(src, name, to, name, noReplace); err != nil && !errors.Is(err, fs.ErrExist) {
		return &provider.Error{Kind: provider.KindOf(err), Op: "put back " + quote(rel), Err: cause(err)}
	}
	return nil
}

// namesIn lists a directory of the stage.
func namesIn(inner *dirCache, path string) ([]string, error) {
	d, err := inner.open(path, false)
	if err != nil {
		return nil, err
	}
	defer d.release()
	list, err := d.Open(".")
	if err != nil {
		return nil, err
	}
	defer list.Close()
	return list.Readdirnames(-1)
}

func join(dir, name string) string {
	if dir == "" || name == "" {
		return dir + name
	}
	return dir + "/" + name
}
