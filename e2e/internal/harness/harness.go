// Package harness runs the real sbsync for the suites below e2e/ and finds out
// what it has left behind: files, scratch directories, processes.
package harness

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sbsync/sbsync/pkg/tree"
)

// build builds sbsync, in a directory that the caller removes.
func build(dir string) (program string, err error) {
	program = filepath.Join(dir, "sbsync")
	cmd := exec.Command("go", "build", "-o", program, "github.com/sbsync/sbsync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
}

// Place is a directory of its own for one scene, whose processes can be told
// from all others.
type Place struct {
	Dir  string
	mark string // a variable in the environment of all of its processes
}

// NewPlace makes what a run needs in dir: a home and a place for temporary
// files.
func NewPlace(dir string) (*Place, error) {
	p := &Place{Dir: dir, mark: "E2E_PLACE=" + dir}
	for _, d := range []string{p.home(), p.temp()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Place) home() string { return filepath.Join(p.Dir, ".home") }
func (p *Place) temp() string { return filepath.Join(p.Dir, ".temp") }

// Path names something in the place.
func (p *Place) Path(elem ...string) string {
	return filepath.Join(append([]string{p.Dir}, elem...)...)
}

// Command is sbsync with arguments, ready to start.
func (p *Place) Command(args ...string) *exec.Cmd { return p.other(Program, args...) }

// Limited is Command with at most so many open files.
func (p *Place) Limited(files int, args ...string) *exec.Cmd {
	words := append([]string{"-c", fmt.Sprintf("ulimit -n %d && exec \"$@\"", files), "sh", Program}, args...)
	return p.other("sh", words...)
}

func (p *Place) other(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = p.Dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home(), "TMPDIR=" + p.temp(), p.mark}
	return cmd
}

// Gone waits until no process of the place is left, and returns what is still
// there after the time is up.
func (p *Place) Gone(patience time.Duration) []string {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		left := p.processes()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

// processes are the command lines of the place's processes.
func (p *Place) processes() []string {
	var found []string
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		environ, err := os.ReadFile(name)
		if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), p.mark) {
			continue // ended, or not of this place
		}
		found = append(found, process(filepath.Dir(name)))
	}
	return found
}

// process describes one in a line: its state and parent, and the end of its
// command line, which tells most of a script.
func process(dir string) string {
	stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
	line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	line = bytes.TrimSpace(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
	return fmt.Sprintf("%.40s ... %q", stat, line[max(0, len(line)-300):])
}

// Rubbish returns what sbsync has left in the place, and in other directories:
// scratch and temporary files.
func (p *Place) Rubbish(dirs ...string) ([]string, error) {
	var found []string
	for _, dir := range append([]string{p.Dir}, dirs...) {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if strings.HasPrefix(d.Name(), tree.ScratchPrefix) || filepath.Dir(name) == p.temp() {
				found = append(found, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// State is what is at a path: one line for each entry, by relative path. The
// path itself is "."; if nothing is there, the state is empty.
type State map[string]string

// Look takes a State. Scratch directories are not part of it, and times are
// not.
func Look(root string) (State, error) {
	s := State{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case name == root && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case tree.IsScratch(d.Name()):
			return fs.SkipDir
		}
		rel, err := filepath.Rel(root, name)
		if err == nil {
			s[rel], err = describe(name)
		}
		return err
	})
	return s, err
}

func describe(name string) (string, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return "", err
	}
	switch mode := info.Mode(); mode.Type() {
	case fs.ModeSymlink:
		text, err := os.Readlink(name)
		return fmt.Sprintf("link to %q", text), err
	case fs.ModeDir:
		return fmt.Sprintf("directory %v", mode.Perm()), nil
	case 0:
		content, err := os.ReadFile(name)
		return fmt.Sprintf("file %v, %d bytes, %.8x", mode.Perm(), len(content), sha256.Sum256(content)), err
	default:
		return mode.String(), nil
	}
}

// Different says what the first differences between s and want are, or "".
func (s State) Different(want State) string { return s.differences(want, want) }

// Between says which entries are neither as in one state nor as in another, or
// "".
func (s State) Between(one, two State) string { return s.differences(one, two) }

func (s State) differences(one, two State) string {
	paths := map[string]bool{}
	for _, state := range []State{s, one, two} {
		for p := range state {
			paths[p] = true
		}
	}
	var lines []string
	for p := range paths {
		if s[p] == one[p] || s[p] == two[p] {
			continue
		}
		line := fmt.Sprintf("%q is %s, not %s", p, orNothing(s[p]), orNothing(one[p]))
		if one[p] != two[p] {
			line += ", nor " + orNothing(two[p])
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	if most := 5; len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("and %d more", len(lines)-most))
	}
	return strings.Join(lines, "\n")
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
