package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/sbsync/sbsync/pkg/provider"
)

// maxErrorText bounds what is shown of a daemon's answer.
const maxErrorText = 300

// explain gives an error of the client its kind.
func (d *daemon) explain(op string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := &provider.Error{Op: op, Err: shorten(err)}
	text := err.Error()
	switch {
	// The client's error of this kind wraps nothing.
	case strings.Contains(text, "permission denied while trying to connect"), strings.Contains(text, "connect: permission denied"):
		e.Kind, e.Err, e.Hint = provider.Unauthorized, fmt.Errorf("permission denied at %s", d.host), socketHint(d.host)
	case strings.Contains(text, "is not running"), strings.Contains(text, "is paused"), strings.Contains(text, "is restarting"):
		e.Kind, e.Final = provider.Unreachable, true
		e.Hint = "the container must be running; --start starts it"
	case strings.Contains(text, "client authentication"), strings.Contains(text, "x509:"), strings.Contains(text, "tls:"):
		e.Kind, e.Hint = provider.Unauthorized, "check DOCKER_TLS_VERIFY, and the certificates in DOCKER_CERT_PATH or the context"
	case strings.Contains(text, "Client sent an HTTP request to an HTTPS server"):
		e.Kind, e.Hint = provider.Unauthorized, "the daemon wants TLS: set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH"
	case client.IsErrConnectionFailed(err), lost(text):
		e.Kind, e.Err = provider.Unreachable, fmt.Errorf("no connection to the Docker daemon at %s: %w", d.host, shorten(err))
		e.Hint = "is it running? DOCKER_HOST and `docker context` say which daemon is asked"
	case cerrdefs.IsNotFound(err):
		e.Kind = provider.NotFound
	case cerrdefs.IsUnauthorized(err), cerrdefs.IsPermissionDenied(err):
		e.Kind = provider.Unauthorized
	case cerrdefs.IsUnavailable(err):
		e.Kind = provider.Unreachable
	case strings.Contains(text, "unable to find user"), strings.Contains(text, "no matching entries in passwd"):
		e.Kind, e.Hint = provider.Usage, userHint
	}
	return e
}

const userHint = "the setting user must name a user of the container, or be a number"

// lost says whether the text is about a connection that broke or never was.
func lost(text string) bool {
	for _, part := range []string{"connection reset", "broken pipe", "EOF", "connection refused", "cannot connect to the Docker daemon", "use of closed network connection"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func shorten(err error) error {
	if text := strings.TrimSpace(err.Error()); len(text) > maxErrorText {
		return errors.New(text[:maxErrorText] + "...")
	}
	return err
}
