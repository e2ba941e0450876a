// Package docker reaches containers through the Docker Engine's API, and
// through that of Podman, which is compatible.
//
// Targets are docker:CONTAINER:/path, with a container's name or id. The daemon
// is the one that the docker command talks to: DOCKER_HOST, DOCKER_CONTEXT, the
// current context of ~/.docker/config.json, or the default socket.
//
// A command is an exec in the container, with standard streams on a connection
// of its own. The container must be running and have a POSIX sh.
package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Driver opens containers. The zero value is ready.
type Driver struct{}

func (Driver) Name() string      { return "docker" }
func (Driver) Aliases() []string { return nil }
func (Driver) Summary() string   { return "a container of Docker or Podman" }
func (Driver) HasRef() bool      { return true }

var (
	_ provider.Completer = Driver{}
	_ provider.Starter   = Driver{}
)

// Open finds the container and runs nothing in it. The keys of cfg are in
// docs/docker.md. Errors are of kind [provider.Unreachable] if no daemon answers
// or the container does not run, [provider.Unauthorized] if the daemon does not
// let us in, and [provider.NotFound] if there is no such container.
func (Driver) Open(ctx context.Context, ref string, cfg provider.Config) (provider.Sandbox, error) {
	set, err := readSettings(cfg)
	if err != nil {
		return nil, err
	}
	d, found, err := find(ctx, ref, set)
	if err != nil {
		return nil, err
	}
	if err := checkState(ref, found); err != nil {
		d.Close()
		return nil, err
	}
	return newSandbox(d, found.ID, ref, set.user), nil
}

// Start starts a container that is stopped, and wakes one that is paused.
func (Driver) Start(ctx context.Context, ref string, cfg provider.Config, progress func(line string)) error {
	set, err := readSettings(cfg)
	if err != nil {
		return err
	}
	d, found, err := find(ctx, ref, set)
	if err != nil {
		return err
	}
	defer d.Close()
	state := found.State
	switch {
	case state == nil || state.Running && !state.Paused:
		return nil
	case state.Paused:
		progress(fmt.Sprintf("container %q is paused, waking it", ref))
		_, err = d.ContainerUnpause(ctx, found.ID, client.ContainerUnpauseOptions{})
	default:
		progress(fmt.Sprintf("container %q is %s, starting it", ref, state.Status))
		_, err = d.ContainerStart(ctx, found.ID, client.ContainerStartOptions{})
	}
	return d.explain("start "+ref, err)
}

// Complete returns the names of running containers that begin with prefix.
func (Driver) Complete(ctx context.Context, prefix string) ([]string, error) {
	d, err := connect(settings{}, readEnvironment())
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.names(ctx, false)
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) }), err
}

// reference is what the daemon takes for a name, or an id (moby's
// daemon/names/names.go). Anything else could lead to another path of the API.
var reference = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// find connects and looks for the container.
func find(ctx context.Context, ref string, set settings) (*daemon, container.InspectResponse, error) {
	var none container.InspectResponse
	if !reference.MatchString(ref) {
		return nil, none, provider.New(provider.Usage, fmt.Sprintf("open docker: %q is no name or id of a container", ref),
			"targets are docker:CONTAINER:/path; names have letters, digits, _, . and -")
	}
	d, err := connect(set, readEnvironment())
	if err != nil {
		return nil, none, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, provider.DialTimeout,
		&provider.Error{Kind: provider.Unreachable, Op: "docker at " + d.host, Err: fmt.Errorf("no answer within %v", provider.DialTimeout)})
	defer cancel()
	found, err := d.ContainerInspect(ctx, ref, client.ContainerInspectOptions{})
	if err == nil && found.Container.ID == "" {
		err = &provider.Error{Kind: provider.Unreachable, Op: "docker at " + d.host, Final: true, Err: errors.New("what answers is no Docker Engine")}
	}
	if err != nil {
		err = d.notFound(ctx, ref, err)
		d.Close()
		return nil, none, err
	}
	return d, found.Container, nil
}

// notFound explains why there is no such container.
func (d *daemon) notFound(ctx context.Context, ref string, err error) error {
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		return cause
	}
	switch {
	case strings.Contains(strings.ToLower(err.Error()), "multiple ids found"):
		return &provider.Error{Kind: provider.Usage, Op: "open docker", Err: fmt.Errorf("several containers have ids that begin with %q", ref),
			Hint: "give more of the id, or the name; docker ps -a shows them"}
	case !cerrdefs.IsNotFound(err):
		return d.explain("open docker", err)
	}
	e := &provider.Error{Kind: provider.NotFound, Op: "open docker", Err: fmt.Errorf("no container %q at %s", ref, d.host)}
	names, _ := d.names(ctx, true) // without them the hint says less
	if near := provider.Suggest(ref, names); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	} else if len(names) > 0 {
		more := ""
		if most := 8; len(names) > most {
			names, more = names[:most], ", ..."
		}
		e.Hint = "there are " + strings.Join(names, ", ") + more
	} else {
		e.Hint = "it has no containers; DOCKER_HOST and `docker context` say which daemon is asked"
	}
	return e
}

// names are those of the daemon's containers, in order.
func (d *daemon) names(ctx context.Context, stoppedToo bool) ([]string, error) {
	list, err := d.ContainerList(ctx, client.ContainerListOptions{All: stoppedToo})
	if err != nil {
		return nil, d.explain("list containers", err)
	}
	var names []string
	for _, c := range list.Items {
		for _, name := range c.Names {
			// A second slash is in names of links, which are not for us.
			if name = strings.TrimPrefix(name, "/"); !strings.Contains(name, "/") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// checkState refuses a container in which nothing can be run now.
func checkState(ref string, c container.InspectResponse) error {
	e := &provider.Error{Kind: provider.Unreachable, Op: "open docker", Final: true}
	switch {
	case c.State == nil, c.State.Running && !c.State.Paused && !c.State.Restarting:
		return nil
	case c.State.Paused:
		e.Err, e.Hint = fmt.Errorf("container %q is paused", ref), "--start wakes it, as does docker unpause "+ref
	case c.State.Restarting:
		e.Err, e.Hint = fmt.Errorf("container %q keeps being restarted", ref), "docker logs "+ref+" may say why it ends"
	default:
		e.Err, e.Hint = fmt.Errorf("container %q is not running, it is %s", ref, c.State.Status), "--start starts it, as does docker start "+ref
	}
	return e
}

// settings are the provider's keys in sbsync's configuration.
type settings struct{ host, context, user string }

func readSettings(cfg provider.Config) (settings, error) {
	var s settings
	keys := map[string]*string{"host": &s.host, "context": &s.context, "user": &s.user}
	known := slices.Sorted(maps.Keys(keys))
	for key, value := range cfg {
		to, ok := keys[key]
		if !ok {
			hint := "its keys are " + strings.Join(known, ", ")
			if near := provider.Suggest(key, known); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return s, provider.New(provider.Usage, fmt.Sprintf("open docker: unknown key %q", key), hint)
		}
		switch value := value.(type) {
		case string:
			*to = value
		case int: // of user
			*to = fmt.Sprint(value)
		default:
			return s, provider.New(provider.Usage, fmt.Sprintf("open docker: key %q has the value %v", key, value), "it must be a string")
		}
	}
	if s.host != "" && s.context != "" {
		return s, provider.New(provider.Usage, "open docker: both host and context are set", "leave one of them out")
	}
	return s, nil
}
