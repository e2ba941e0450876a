package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/sbsync/sbsync/pkg/provider"
)

// The streams are read here and not by client-go's remotecommand, which takes a
// connection that was lost before the exit code arrived for a success: its
// watchErrorStream makes no error of an empty status.

// streams are those of one exec.
type streams struct {
	stdin                  io.WriteCloser // nil if there is no input; Close is a half-close
	stdout, stderr, status io.Reader
	close                  func()
}

// open starts args in the container.
func (s *sandbox) open(ctx context.Context, protocol string, args []string, stdin bool) (*streams, error) {
	where := s.execURL(args, stdin)
	if protocol == protocolWebSocket {
		return openWebSocket(ctx, s.client.config, where, stdin)
	}
	return openSPDY(ctx, s.client.config, where, stdin)
}

func (s *sandbox) execURL(args []string, stdin bool) *url.URL {
	return s.client.pods.Post().
		Resource("pods").Namespace(s.where.namespace).Name(s.where.pod).SubResource("exec").
		VersionedParams(&core.PodExecOptions{
			Container: s.where.container, Command: args, Stdin: stdin, Stdout: true, Stderr: true,
		}, parameters).URL()
}

// Versions 4 and 5 send the exit code as an object.
var spdyVersions = []string{"v5.channel.k8s.io", "v4.channel.k8s.io"}

func openSPDY(ctx context.Context, config *rest.Config, where *url.URL, stdin bool) (*streams, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, where.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header[httpstream.HeaderProtocolVersion] = spdyVersions
	resp, err := requestSPDY(transport, req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	conn, err := upgrader.NewConnection(resp)
	if err != nil {
		return nil, &upgradeError{err}
	}
	version := resp.Header.Get(httpstream.HeaderProtocolVersion)
	if version != spdyVersions[0] && version != spdyVersions[1] {
		_ = conn.Close()
		return nil, &provider.Error{Kind: provider.NotImplemented, Op: "exec", Err: fmt.Errorf("the cluster speaks the exec protocol %q", version),
			Hint: "sbsync needs Kubernetes 1.8 or newer"}
	}
	var once sync.Once
	out := &streams{close: func() { once.Do(func() { _ = conn.Close() }) }}
	create := func(kind string) io.ReadWriteCloser {
		if err != nil {
			return nil
		}
		headers := http.Header{}
		headers.Set(core.StreamType, kind)
		stream, cause := conn.CreateStream(headers)
		err = cause
		return stream
	}
	status := create(core.StreamTypeError)
	var input io.WriteCloser
	if stdin {
		input = create(core.StreamTypeStdin)
	}
	stdout, stderr := create(core.StreamTypeStdout), create(core.StreamTypeStderr)
	if err != nil {
		out.close()
		return nil, err
	}
	// What is not written to is half-closed at once, as kubectl does.
	for _, stream := range []io.Closer{status, stdout, stderr} {
		_ = stream.Close()
	}
	if stdin {
		out.stdin = input
	}
	out.stdout, out.stderr, out.status = stdout, stderr, status
	return out, nil
}

// requestSPDY asks for the upgrade as spdy.Negotiate does, and keeps what the
// server says if it refuses, which that makes a text of.
func requestSPDY(transport http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // a proxy that hangs up
		return nil, &upgradeError{err}
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		return nil, refusal(resp)
	}
	return resp, nil
}

// refusal is the API server's answer, or an upgradeError if something on the way
// does not know the protocol.
func refusal(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var status meta.Status
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" && status.Status == meta.StatusFailure && !notUpgraded(status) {
		return &apierrors.StatusError{ErrStatus: status}
	}
	return &upgradeError{fmt.Errorf("%s: %.200q", resp.Status, text)}
}

// notUpgraded knows an API server that was asked without the headers that ask
// for another protocol, because a proxy has dropped them: "Upgrade request
// required".
func notUpgraded(status meta.Status) bool {
	return status.Reason == meta.StatusReasonBadRequest && strings.Contains(status.Message, "Upgrade request required")
}

// upgradeError says that the way to the kubelet does not carry a protocol. The
// command has not run.
type upgradeError struct{ err error }

func (e *upgradeError) Error() string { return e.err.Error() }
func (e *upgradeError) Unwrap() error { return e.err }
