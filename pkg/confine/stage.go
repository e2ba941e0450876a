package confine

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/tree"
)

// Place says where a stage is made.
type Place int

const (
	// Inside makes the stage in the destination, a directory that exists and
	// is to be updated.
	Inside Place = iota
	// Beside makes the stage in the directory that holds the destination, for
	// a destination that is published as a whole. If the destination is a link
	// to something that exists, what it leads to is the destination.
	Beside
	// BesideLink is Beside for a destination that is itself a link or becomes
	// one: its last element is not followed.
	BesideLink
)

// Names in a stage's directory.
const (
	ownerFile   = "owner"   // see [Owner]
	draftFile   = "draft"   // the owner file until it is whole
	forFile     = "for"     // the destination's name, or "." for a stage inside it
	doneFile    = "done"    // forFile after Commit: nothing is to be put back
	stagedName  = "new"     // the staged tree
	retiredName = "retired" // retired/N/PATH: what Retire took
	oldName     = "old"     // the old root, between two renames
)

// heartbeat is how often a living stage shows that it is alive; see
// [OwnerDead].
const heartbeat = 10 * time.Minute

// ErrInPlace says that the destination cannot be replaced as a whole: it is a
// mount point, or its parent may not be written. A stage [Inside] it works.
var ErrInPlace = errors.New("can only be replaced in place")

// Stage is private scratch space on the destination's file system. A tree is
// built there, then published by renames; until then the destination is
// untouched.
//
//	OpenStage -> Create, Mkdir, ... -> FinishFile, FinishDir
//	          -> Retire, PublishNew, ... or PublishRoot, or SwapRoot
//	          -> Commit, or Rollback
//	          -> Discard, in any case
//
// Paths are relative, slash-separated and checked with [CheckPath] and
// [CheckHostName]; "" is the root of the tree. No link is followed below the
// root, neither in the stage nor in the destination.
//
// Everything in the stage belongs to the user alone until it is published. All
// methods are safe for concurrent use.
//
// Errors are of kind NoSpace (with the free bytes), ReadOnly (for which
// errors.Is with fs.ErrPermission holds where that is the cause), Confined, or
// wrap what the system said, so that errors.Is finds fs.ErrExist and
// fs.ErrNotExist.
type Stage struct {
	dest  string // as the user named it, for error texts
	place Place
	base  string // the destination's name in outer, "" with Inside
	name  string // the stage's name in outer

	outer *dirCache // what holds the stage: the destination, or its parent
	inner *dirCache // the stage
	made  []string  // parents that OpenStage made, outermost first
	pulse *time.Timer

	mu         sync.Mutex // serializes publishing; guards what follows
	undo       []undo
	generation int             // of retired
	retired    map[string]bool // paths retired in this generation
	committed  bool
	discarded  bool
}

// OpenStage makes a stage for the destination dest. Parents of dest that are
// missing are made, like mkdir -p does. dest and its parents may be reached
// through links.
//
// The error wraps [ErrInPlace] if place is Beside and dest is a directory that
// cannot be swapped; nothing was changed then.
func OpenStage(dest string, place Place) (*Stage, error) {
	s := &Stage{dest: dest, place: place, name: scratchName(), retired: map[string]bool{}}
	if err := s.open(); err != nil {
		s.close()
		removeMade(s.made)
		return nil, s.fault("stage", "", err)
	}
	return s, nil
}

func (s *Stage) open() error {
	at, err := locate(s.dest, s.place)
	if err != nil {
		return err
	}
	s.base = at.base
	if s.made, err = makeParents(at.dir); err != nil {
		return err
	}
	if s.base == "" {
		return s.openIn(at.dir)
	}
	info, err := os.Lstat(filepath.Join(at.dir, at.base))
	switch {
	case err != nil || !info.IsDir():
		return s.openIn(at.dir)
	case isMount(filepath.Join(at.dir, at.base), info):
		return fmt.Errorf("%w: it is a mount point", ErrInPlace)
	}
	return orInPlace(s.openIn(at.dir))
}

// openIn makes the stage in a directory that exists.
func (s *Stage) openIn(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	if s.outer, err = newDirCache(root, true); err != nil {
		return err
	}
	return s.make()
}

// makeAttempts is how often a stage is made anew that another run's Sweep took
// for a leftover before there was anything in it.
const makeAttempts = 3

// make makes the stage's directory and what is in it from the start.
func (s *Stage) make() error {
	top := s.outer.top
	for attempt := 1; ; attempt++ {
		if err := withWrite(func() error { return top.Mkdir(s.name, 0o700) }, top); err != nil {
			return err
		}
		err := s.furnish()
		if err == nil {
			break
		}
		removeScratch(top, s.name)
		if !errors.Is(err, fs.ErrNotExist) || attempt == makeAttempts {
			return err
		}
		if s.inner != nil {
			s.inner.close()
			s.inner = nil
		}
		s.name = scratchName()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulse = time.AfterFunc(heartbeat, s.beat)
	return nil
}

func (s *Stage) furnish() error {
	info, err := s.outer.top.Lstat(s.name)
	if err != nil {
		return err
	}
	d, err := openDir(s.outer.top, s.name, s.name, info)
	if err != nil {
		return err
	}
	if s.inner, err = newDirCache(d.Root, false); err != nil {
		return err
	}
	s.inner.prefix, s.inner.within = s.name, s.outer.top
	if err := d.WriteFile(draftFile, []byte(Owner()+"\n"), 0o600); err != nil {
		return err
	}
	if err := d.Rename(draftFile, ownerFile); err != nil {
		return err
	}
	name := s.base
	if s.place == Inside {
		name = "."
	}
	if err := d.WriteFile(forFile, []byte(name), 0o600); err != nil {
		return err
	}
	if s.place == Inside {
		return d.Mkdir(stagedName, 0o700)
	}
	return nil
}

// beat shows to others that the stage is in use.
func (s *Stage) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.inner.top.Chtimes(ownerFile, now, now) == nil {
		s.pulse.Reset(heartbeat)
	}
}

// close frees the handles.
func (s *Stage) close() {
	if s.pulse != nil {
		s.pulse.Stop()
	}
	if s.inner != nil {
		s.inner.close()
	}
	if s.outer != nil {
		s.outer.close()
	}
}

// Path returns where the staged tree is on the host, to look at it. It must not
// be written to.
func (s *Stage) Path() string {
	return filepath.Join(s.outer.top.Name(), s.name, stagedName)
}

// location is where a destination is: a name in a directory, or, if base is
// empty, the directory itself.
type location struct{ dir, base string }

// locate finds the directory in which a stage for dest is made.
func locate(dest string, place Place) (location, error) {
	abs, err := filepath.Abs(dest)
	if err != nil {
		return location{}, err
	}
	if place == Inside {
		info, err := os.Stat(abs)
		if err == nil && !info.IsDir() {
			err = errNotDir
		}
		return location{dir: abs}, err
	}
	if place == Beside {
		// A link that leads nowhere is taken for the destination itself.
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			abs = real
		} else if !errors.Is(err, fs.ErrNotExist) {
			return location{}, err
		}
	}
	dir, base := filepath.Dir(abs), filepath.Base(abs)
	if dir == abs {
		return location{}, fmt.Errorf("%w: it is the root of the file system", ErrInPlace)
	}
	return location{dir, base}, nil
}

// makeParents makes dir and its parents as far as they are missing and returns
// what it made, outermost first.
func makeParents(dir string) (made []string, err error) {
	var missing []string
	for p := dir; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); err == nil || !errors.Is(err, fs.ErrNotExist) || p == filepath.Dir(p) {
			break
		}
		missing = append(missing, p)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		err := os.Mkdir(missing[i], 0o777)
		if errors.Is(err, fs.ErrExist) {
			continue // another process was faster
		}
		if err != nil {
			removeMade(made)
			return nil, err
		}
		made = append(made, missing[i])
	}
	return made, nil
}

// removeMade removes directories that makeParents made, unless others use them.
func removeMade(made []string) {
	for i := len(made) - 1; i >= 0; i-- {
		if os.Remove(made[i]) != nil {
			return
		}
	}
}

// scratchName returns a fresh name for which tree.IsScratch holds.
func scratchName() string {
	var random [10]byte
	rand.Read(random[:]) // never fails
	return tree.ScratchPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(random[:]))
}

// checkRel checks a path for use in the stage or the destination.
func checkRel(rel string) error {
	if err := CheckHostName(rel); err != nil {
		return err
	}
	for elem := range strings.SplitSeq(rel, "/") {
		if strings.HasPrefix(elem, tree.ScratchPrefix) && tree.IsScratch(elem) {
			return refusePath(rel, "the name of a scratch directory of sbsync")
		}
	}
	return nil
}

// usage is the error of a method that does not fit the stage's place.
func (s *Stage) usage(op, text string) error {
	return &provider.Error{Kind: provider.Usage, Op: op, Err: errors.New(text)}
}
