package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Options of a local sandbox. The zero value is this machine as it is.
type Options struct {
	// Path is the PATH of commands; empty means the environment's.
	Path string
	// ExecOnly takes the Streamer verb away.
	ExecOnly bool
	// Adjust, if set, is called with each process right before it starts. The
	// hostile fake of the tests changes the user with it.
	Adjust func(*exec.Cmd)
	// OutputClosed, if set, is called when the command and all its children
	// have closed their standard output, if that is a pipe.
	OutputClosed func()
}

// Sandbox runs commands on this machine. It is safe for concurrent use.
type Sandbox struct{ opts Options }

// New returns a local sandbox.
func New(opts Options) *Sandbox { return &Sandbox{opts: opts} }

// Capabilities says that all of Exec and Stream works.
func (s *Sandbox) Capabilities() provider.Capabilities {
	caps := provider.Capabilities{
		Stdin:     true,
		HalfClose: true,
		Stream:    !s.opts.ExecOnly,
		MaxArg:    maxArg,
		MaxArgs:   maxArgs,
	}
	if s.opts.ExecOnly {
		caps.Notes = []string{"stream: switched off by exec_only"}
	}
	return caps
}

// Close does nothing.
func (s *Sandbox) Close() error { return nil }

// Exec runs a command in a process group of its own. A program that is not
// found or can't be run gives exit code 127 or 126, as from a shell; an end by
// signal n gives 128+n.
//
// Exec returns when the command has ended and its standard output and error
// are closed, by background children too, as over ssh and docker. When ctx
// ends first, the group gets SIGTERM, and SIGKILL two seconds later; no member
// of it is left. A Stdin whose Read blocks does not delay the return, but then
// that Read is still under way.
func (s *Sandbox) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	return s.run(ctx, cmd)
}

// Stream is Exec, which is live and binary-safe already.
func (s *Sandbox) Stream(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	if s.opts.ExecOnly {
		return provider.Result{}, provider.ErrNotImplemented
	}
	if cmd.Stdout == nil {
		return provider.Result{}, provider.New(provider.Usage, "stream: no stdout given", "")
	}
	return s.run(ctx, cmd)
}

func (s *Sandbox) run(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	if err := ctx.Err(); err != nil {
		return provider.Result{}, err
	}
	c, err := s.command(cmd)
	if err != nil {
		return notStarted(cmd, err)
	}
	p, err := start(c, cmd, s.opts)
	if err != nil {
		return notStarted(cmd, err)
	}
	return p.run(ctx)
}

// command makes the process to start, with nothing of it started yet.
func (s *Sandbox) command(cmd provider.Command) (*exec.Cmd, error) {
	if len(cmd.Args) == 0 {
		return nil, provider.New(provider.Usage, "exec: no command given", "")
	}
	for _, arg := range cmd.Args {
		if strings.IndexByte(arg, 0) >= 0 {
			return nil, provider.New(provider.Usage, fmt.Sprintf("exec: argument %.40q has a NUL byte", arg), "")
		}
	}
	env := s.environ(cmd.Env)
	dir := hostDir(cmd.Dir)
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	file, err := lookPath(cmd.Args[0], dir, env)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: file, Args: cmd.Args, Env: env, Dir: dir, SysProcAttr: groupAttr()}, nil
}

// environ returns the environment of a command; of two values for a name the
// later one counts.
func (s *Sandbox) environ(extra map[string]string) []string {
	env := os.Environ()
	if s.opts.Path != "" {
		env = append(env, "PATH="+s.opts.Path)
	}
	for name, value := range extra {
		env = append(env, name+"="+value)
	}
	return env
}

func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	if !filepath.IsAbs(dir) {
		return &provider.Error{Kind: provider.Usage, Op: "exec", Err: fmt.Errorf("directory %q is not absolute", dir)}
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &provider.Error{Kind: provider.NotFound, Op: "exec", Err: fmt.Errorf("directory %q: %w", dir, fs.ErrNotExist)}
	case err != nil:
		return &provider.Error{Kind: provider.Other, Op: "exec", Err: err}
	case !info.IsDir():
		return &provider.Error{Kind: provider.NotFound, Op: "exec", Err: fmt.Errorf("directory %q: %w", dir, syscall.ENOTDIR)}
	}
	return nil
}

// lookPath finds a program in the PATH of env. Elements of PATH that are not
// absolute are passed over.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) && dir != "" {
			name = filepath.Join(dir, name)
		}
		return findExecutable(name)
	}
	denied := error(nil)
	for _, at := range filepath.SplitList(valueOf(env, "PATH")) {
		if !filepath.IsAbs(at) || name == "" {
			continue
		}
		file, err := findExecutable(filepath.Join(at, name))
		if err == nil {
			return file, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", exec.ErrNotFound
}

// valueOf returns the last value that env has for name.
func valueOf(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if key, value, ok := strings.Cut(entry, "="); ok && sameVariable(key, name) {
			return value
		}
	}
	return ""
}

// notStarted tells a command that a shell would answer with 127 or 126 from an
// error.
func notStarted(cmd provider.Command, err error) (provider.Result, error) {
	var typed *provider.Error
	switch {
	case errors.As(err, &typed):
		return provider.Result{}, err
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return provider.Result{ExitCode: 127, Stderr: []byte(cmd.Args[0] + ": not found\n")}, nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EISDIR):
		return provider.Result{ExitCode: 126, Stderr: []byte(cmd.Args[0] + ": cannot execute: " + err.Error() + "\n")}, nil
	case errors.Is(err, syscall.E2BIG):
		return provider.Result{}, &provider.Error{Kind: provider.TooLarge, Op: "exec", Err: err}
	}
	return provider.Result{}, &provider.Error{Kind: provider.Other, Op: "exec", Err: err}
}
