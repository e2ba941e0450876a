// Package daytona is the driver for Daytona sandboxes. Targets have the form
// daytona:ID-or-name:/path; docs/daytona.md says how it is configured.
//
// The SDK finds sandboxes and starts them. Files and commands go through an
// HTTP client of our own to the sandbox's toolbox, with the SDK's address and
// authentication: the SDK's client ends every call after 60 s and holds whole
// files in memory (measured with v0.145.0: 848 MiB for a file of 256 MiB).
package daytona

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apiclient "github.com/daytonaio/daytona/libs/api-client-go"
	sdk "github.com/daytonaio/daytona/libs/sdk-go/pkg/daytona"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Driver opens targets of the form daytona:ID-or-name:/path.
type Driver struct{}

// Name is "daytona".
func (Driver) Name() string { return "daytona" }

// Aliases has none.
func (Driver) Aliases() []string { return nil }

// Summary is one line.
func (Driver) Summary() string { return "Daytona sandboxes, by ID or name" }

// HasRef is true: a target names a sandbox.
func (Driver) HasRef() bool { return true }

// Open finds the sandbox and checks that it runs. Errors are of kind
// [provider.Usage] for configuration, [provider.Unauthorized] for credentials,
// [provider.NotFound] if there is no such sandbox, and [provider.Unreachable]
// if it is at rest.
func (Driver) Open(ctx context.Context, ref string, cfg provider.Config) (provider.Sandbox, error) {
	c, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, provider.DialTimeout)
	defer cancel()
	found, err := c.get(ctx, "open", ref)
	if err != nil {
		return nil, err
	}
	if found.State != apiclient.SANDBOXSTATE_STARTED {
		return nil, atRest(ref, string(found.State))
	}
	return newSandbox(found, c.secrets), nil
}

// control is a connection to the control plane.
type control struct {
	client  *sdk.Client
	secrets secrets
}

func connect(cfg provider.Config) (*control, error) {
	s, err := readSettings(cfg)
	if err != nil {
		return nil, err
	}
	client, err := sdk.NewClientWithConfig(&s.DaytonaConfig)
	if err != nil {
		return nil, &provider.Error{Kind: provider.Unauthorized, Op: "open", Err: errors.New(s.secrets().redact(err.Error())), Hint: credentialsHint}
	}
	return &control{client: client, secrets: s.secrets()}, nil
}

func (c *control) close() { c.client.Close(context.Background()) }

// get finds a sandbox, again after temporary errors: a gateway was seen to
// answer 502 for a sandbox that was just made (daytonaio/daytona#4142).
func (c *control) get(ctx context.Context, op, ref string) (found *sdk.Sandbox, err error) {
	err = provider.RetryPolicy{}.Do(ctx, op, func(ctx context.Context) (err error) {
		found, err = c.client.Get(ctx, ref)
		return c.fail(ctx, op, ref, err)
	})
	return found, err
}

// fail gives an error of the SDK its kind.
func (c *control) fail(ctx context.Context, op, ref string, err error) error {
	if err == nil {
		return nil
	}
	if cause := ctx.Err(); cause != nil {
		return cause // the SDK makes a text of it
	}
	if state := unknownState(err); state != "" {
		return atRest(ref, state)
	}
	e := sdkError(err, c.secrets)
	e.Op = op
	if e.Kind == provider.NotFound {
		e.Err = fmt.Errorf("no sandbox %q: %w", ref, e.Err)
		e.Hint = "\"daytona list\" shows the sandboxes; check the name, the organization and the target region"
	}
	return e
}

// unknownState is a sandbox's state that the SDK does not know, and fails for
// (paused, snapshotting, forking and others came after v0.145.0). The SDK then
// has the whole answer for a message.
func unknownState(err error) string {
	base := sdkBase(err)
	var answer struct {
		State string `json:"state"`
	}
	if base.StatusCode != http.StatusOK || json.Unmarshal([]byte(base.Message), &answer) != nil || answer.State == string(apiclient.SANDBOXSTATE_STARTED) {
		return ""
	}
	return answer.State
}

// atRest is the error for a sandbox that does not run.
func atRest(ref, state string) error {
	e := &provider.Error{Kind: provider.Unreachable, Final: true, Op: "open",
		Err:  fmt.Errorf("sandbox %q does not run: its state is %q", ref, state),
		Hint: "wait until it runs"}
	switch apiclient.SandboxState(state) {
	case apiclient.SANDBOXSTATE_STOPPED, apiclient.SANDBOXSTATE_ARCHIVED, "paused":
		e.Hint = "start it with --start"
	case apiclient.SANDBOXSTATE_ERROR, apiclient.SANDBOXSTATE_BUILD_FAILED, apiclient.SANDBOXSTATE_DESTROYED, apiclient.SANDBOXSTATE_DESTROYING:
		e.Hint = "it cannot be used any more; make a new one"
	}
	return e
}

// startTime is how long a sandbox may take to start. One that is archived is
// fetched from an object store first.
const startTime = 10 * time.Minute

// startPoll is how often its state is looked at.
var startPoll = time.Second

// Start starts a sandbox that is stopped or archived, and waits for it. One
// that is about to start is waited for, too.
func (Driver) Start(ctx context.Context, ref string, cfg provider.Config, progress func(string)) error {
	c, err := connect(cfg)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	asked, last := false, ""
	for began := time.Now(); ; {
		found, err := c.get(ctx, "start", ref)
		if err != nil {
			return err
		}
		state := string(found.State)
		switch found.State {
		case apiclient.SANDBOXSTATE_STARTED:
			if asked || last != "" {
				progress(fmt.Sprintf("sandbox %s runs, after %v", ref, time.Since(began).Round(time.Second)))
			}
			return nil
		case apiclient.SANDBOXSTATE_STOPPED, apiclient.SANDBOXSTATE_ARCHIVED:
			if !asked {
				progress(fmt.Sprintf("sandbox %s is %s; starting it", ref, state))
				if err := c.start(ctx, ref, found); err != nil {
					return err
				}
				asked = true
			}
		case apiclient.SANDBOXSTATE_STARTING, apiclient.SANDBOXSTATE_RESTORING, apiclient.SANDBOXSTATE_CREATING, apiclient.SANDBOXSTATE_STOPPING,
			apiclient.SANDBOXSTATE_ARCHIVING, apiclient.SANDBOXSTATE_PULLING_SNAPSHOT, apiclient.SANDBOXSTATE_PENDING_BUILD,
			apiclient.SANDBOXSTATE_BUILDING_SNAPSHOT, apiclient.SANDBOXSTATE_RESIZING, apiclient.SANDBOXSTATE_UNKNOWN:
			if state != last {
				progress(fmt.Sprintf("sandbox %s is %s; waiting", ref, state))
			}
		default:
			return atRest(ref, state)
		}
		last = state
		select {
		case <-time.After(startPoll):
		case <-ctx.Done():
			return startFailed(ref, last, ctx.Err())
		}
	}
}

// start asks the control plane to start a sandbox. The SDK then waits by
// itself, silently; a deadline bounds that, and the caller waits on with lines
// of progress.
func (c *control) start(ctx context.Context, ref string, found *sdk.Sandbox) error {
	return provider.RetryPolicy{}.Do(ctx, "start", func(ctx context.Context) error {
		err := found.StartWithTimeout(ctx, provider.DialTimeout)
		if err != nil && strings.Contains(err.Error(), "did not start within") {
			return nil // it was asked to; the caller waits on
		}
		return c.fail(ctx, "start", ref, err)
	})
}

func startFailed(ref, state string, cause error) error {
	if !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return &provider.Error{Kind: provider.Timeout, Final: true, Op: "start",
		Err: fmt.Errorf("sandbox %q is %q and has not started after %v", ref, state, startTime)}
}

var _ provider.Starter = Driver{}
