package daytona

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/daytonaio/daytona/libs/sdk-go/pkg/daytona"

	"github.com/sbsync/sbsync/pkg/provider"
)

// bufferSize is how much is read and written at a time on a connection.
const bufferSize = 256 << 10

// sandbox is a Daytona sandbox through its toolbox.
type sandbox struct {
	base    string // the toolbox's URL, without a final slash
	header  map[string]string
	http    *http.Client
	secrets secrets
}

// newSandbox takes address and authentication from the SDK, and nothing else.
func newSandbox(found *sdk.Sandbox, hide secrets) *sandbox {
	cfg := found.ToolboxClient.GetConfig()
	return &sandbox{base: strings.TrimSuffix(cfg.Servers[0].URL, "/"), header: cfg.DefaultHeader, secrets: hide,
		http: &http.Client{Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: provider.DialTimeout, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:   provider.DialTimeout,
			ExpectContinueTimeout: time.Second,
			MaxIdleConnsPerHost:   maxConcurrent,
			IdleConnTimeout:       90 * time.Second,
			WriteBufferSize:       bufferSize,
			ReadBufferSize:        bufferSize,
			DisableCompression:    true,
			ForceAttemptHTTP2:     true,
		}}}
}

// Limits of the toolbox.
const (
	maxConcurrent = 4
	// maxArgs bounds a command. Daemons from 0.156 on have a shell read it from
	// a pipe, at 0.5 MB/s (measured with 0.190).
	maxArgs = 512 << 10
	// maxStdout bounds an answer, which costs the daemon 7.5 times its size in
	// memory (measured with 0.190).
	maxStdout = 2 << 20
)

// Capabilities says what the toolbox's commands lack: they have no input, and
// their output comes when they have ended, as text, both streams in one.
func (s *sandbox) Capabilities() provider.Capabilities {
	return provider.Capabilities{MergedOutput: true, TextOutput: true, MaxArgs: maxArgs, MaxStdout: maxStdout, MaxConcurrent: maxConcurrent, Files: true,
		Notes: []string{"stream: commands of the toolbox have no standard input, and their output comes at the end"}}
}

// Close frees connections. The sandbox goes on.
func (s *sandbox) Close() error {
	s.http.CloseIdleConnections()
	return nil
}

// request makes a request to the toolbox.
func (s *sandbox) request(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Request, error) {
	address := s.base + path
	if query != nil {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	for name, value := range s.header {
		req.Header.Set(name, value)
	}
	return req, nil
}

// do sends a request. An answer of another status than want is an error, and its
// body is closed.
func (s *sandbox) do(req *http.Request, op string, want ...int) (*http.Response, error) {
	res, err := s.http.Do(req)
	if err != nil {
		return nil, s.lost(req.Context(), op, err)
	}
	for _, status := range want {
		if res.StatusCode == status {
			return res, nil
		}
	}
	defer res.Body.Close()
	e := statusError(res.StatusCode, res.Header, s.answer(res))
	e.Op = op
	return nil, e
}

// answer is what a person may see of an answer's body.
func (s *sandbox) answer(res *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	return s.secrets.redact(messageOf(text))
}

// lost is the error of a connection that could not be made, or broke.
func (s *sandbox) lost(ctx context.Context, op string, err error) error {
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	var typed *provider.Error
	if errors.As(err, &typed) {
		return err
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the address, which holds paths and the sandbox's ID
	}
	return &provider.Error{Kind: provider.Unreachable, Op: op, Err: &redacted{s.secrets.redact(err.Error()), err}, Hint: unreachableHint}
}

// redacted is an error whose text may be shown.
type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Unwrap() error { return r.err }

var errNoStdin = &provider.Error{Kind: provider.NotImplemented, Op: "exec", Err: fmt.Errorf("commands of the toolbox have no standard input")}
