package confine

import (
	"io/fs"
	"os"
)

// openNonblock is nothing on Windows: its named pipes are not files of a tree.
const openNonblock = 0

// openFile opens a regular file in d, and nothing else. What stands there is
// looked at first, since merely opening a device can do something.
func openFile(d *dir, name, rel string) (*os.File, fs.FileInfo, error) {
	before, err := d.Lstat(name)
	if err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: rel, Err: cause(err)}
	}
	if !before.Mode().IsRegular() {
		return nil, nil, notRegular(rel, before.Mode())
	}
	f, info, err := openRegular(rel, func(flag int) (*os.File, error) { return d.OpenFile(name, flag, 0) })
	if err != nil {
		return nil, nil, err
	}
	// os.Root follows links that stay below it. If the name leads to the same
	// file now, without following, nothing was followed.
	if now, err := d.Lstat(name); err != nil || !os.SameFile(now, info) {
		f.Close()
		return nil, nil, &fs.PathError{Op: "open", Path: rel, Err: errReplaced}
	}
	return f, info, nil
}
