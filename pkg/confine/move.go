package confine

import (
	"errors"
	"io/fs"
)

// renameMode says what a rename does with what is at the new name.
type renameMode int

const (
	replace   renameMode = iota // as rename(2)
	noReplace                   // fs.ErrExist
	exchange                    // it gets the old name; errors.ErrUnsupported where that cannot be
)

// move renames a name of one open directory to one of another. Both are on one
// file system or the error says so.
//
// A directory without write permission for its owner can only be renamed within
// its parent, and nothing can be moved into it or out of it; where it is ours,
// the permission is lent for the moment of the rename.
func move(from *dir, oldname string, to *dir, newname string, mode renameMode) error {
	rename := func() error { return rename(from, oldname, to, newname, mode) }
	err := withWrite(rename, from, to)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	oldMode, oldLent := lendWrite(from, oldname)
	var newMode fs.FileMode
	newLent := false
	if mode == exchange {
		newMode, newLent = lendWrite(to, newname)
	}
	if !oldLent && !newLent {
		return err
	}
	err = withWrite(rename, from, to)
	if err == nil {
		from, oldname, to, newname = to, newname, from, oldname
	}
	if oldLent {
		err = errors.Join(err, from.Chmod(oldname, oldMode))
	}
	if newLent {
		err = errors.Join(err, to.Chmod(newname, newMode))
	}
	return err
}

// rename does what its mode says, if need be with a look before the rename.
func rename(from *dir, oldname string, to *dir, newname string, mode renameMode) error {
	err := renameAt(from, oldname, to, newname, mode)
	if mode != noReplace || !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if _, err := to.Lstat(newname); err == nil {
		return fs.ErrExist
	}
	return renameAt(from, oldname, to, newname, replace)
}

// writable is what the owner of a directory needs to change what is in it.
const writable fs.FileMode = 0o300

// lendWrite makes a directory that its owner may not change changeable, and
// returns the mode to put back.
func lendWrite(d *dir, name string) (mode fs.FileMode, lent bool) {
	info, err := d.Lstat(name)
	if err != nil || !info.IsDir() || info.Mode()&writable == writable {
		return 0, false
	}
	const all = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	mode = info.Mode() & all
	return mode, d.Chmod(name, mode|writable) == nil
}

// withWrite calls do; if that is not permitted and one of dirs may not be
// changed by its owner, that is allowed for a second try.
func withWrite(do func() error, dirs ...*dir) error {
	err := do()
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	retry := false
	for _, d := range dirs {
		if mode, lent := lendWrite(d, "."); lent {
			retry = true
			defer d.Chmod(".", mode)
		}
	}
	if retry {
		return do()
	}
	return err
}

// removeScratch removes name in d with all that is below, including what is in
// directories that may not be changed or read as they are.
func removeScratch(d *dir, name string) error {
	err := d.RemoveAll(name)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	unlock(d, name, name)
	return d.RemoveAll(name)
}

// removeStage removes the stage called name in d: first what is in it, and last
// what says whose it is and what for. So Sweep knows what a run that was killed
// meanwhile has left of it.
func removeStage(d *dir, name string) error {
	err := emptyStage(d, name)
	if err == nil {
		err = removeScratch(d, name)
	}
	return err
}

// emptyStage leaves a stage's owner alone in it.
func emptyStage(d *dir, name string) error {
	info, err := d.Lstat(name)
	if err != nil {
		return orGone(err)
	}
	stage, err := openDir(d, name, name, info)
	if err != nil {
		return err
	}
	defer stage.Close()
	list, err := stage.Open(".")
	if err != nil {
		return err
	}
	names, err := list.Readdirnames(-1)
	list.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == ownerFile || n == forFile || n == doneFile {
			continue
		}
		if err := removeScratch(stage, n); err != nil {
			return err
		}
	}
	return errors.Join(orGone(stage.Remove(forFile)), orGone(stage.Remove(doneFile)))
}

// orGone takes it as done if what is to be removed is not there.
func orGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unlock gives the user access to all directories at name and below, as far as
// they belong to the user.
func unlock(d *dir, name, path string) {
	info, err := d.Lstat(name)
	if err != nil || !info.IsDir() {
		return
	}
	if d.Chmod(name, 0o700) != nil {
		return
	}
	sub, err := openDir(d, name, path, info)
	if err != nil {
		return
	}
	defer sub.Close()
	list, err := sub.Open(".")
	if err != nil {
		return
	}
	defer list.Close()
	for {
		entries, err := list.ReadDir(1000)
		for _, e := range entries {
			if e.IsDir() {
				unlock(sub, e.Name(), path+"/"+e.Name())
			}
		}
		if err != nil {
			return
		}
	}
}
