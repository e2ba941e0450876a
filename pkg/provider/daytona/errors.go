package daytona

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	sdkerrors "github.com/daytonaio/daytona/libs/sdk-go/pkg/errors"

	"github.com/sbsync/sbsync/pkg/provider"
)

// maxErrorText bounds what is shown of a server's answer.
const maxErrorText = 300

// sdkBase is what all errors of the SDK have in them. Its types have no Unwrap.
func sdkBase(err error) *sdkerrors.DaytonaError {
	var base *sdkerrors.DaytonaError
	var notFound *sdkerrors.DaytonaNotFoundError
	var limited *sdkerrors.DaytonaRateLimitError
	switch {
	case errors.As(err, &notFound):
		base = notFound.DaytonaError
	case errors.As(err, &limited):
		base = limited.DaytonaError
	case !errors.As(err, &base):
		base = sdkerrors.NewDaytonaError(err.Error(), 0, nil)
	}
	return base
}

// sdkError gives an error of the SDK its kind.
func sdkError(err error, hide secrets) *provider.Error {
	base := sdkBase(err)
	if base.StatusCode == 0 { // no answer came
		return &provider.Error{Kind: provider.Unreachable, Err: errors.New(hide.redact(shorten(base.Message))), Hint: unreachableHint}
	}
	if base.StatusCode < 400 { // what came is not what the SDK expects
		return &provider.Error{Kind: provider.Integrity, Final: true, Err: fmt.Errorf("the answer of the control plane is not understood: %.100q", hide.redact(base.Message)),
			Hint: "check DAYTONA_API_URL"}
	}
	return statusError(base.StatusCode, base.Headers, hide.redact(base.Message))
}

const unreachableHint = "check the network, DAYTONA_API_URL and DAYTONA_TARGET"

// statusError gives an HTTP answer its kind.
func statusError(status int, header http.Header, text string) *provider.Error {
	text = strings.TrimSpace(shorten(text))
	if text == "" {
		text = strings.ToLower(http.StatusText(status))
	}
	e := &provider.Error{Err: fmt.Errorf("HTTP %d: %s", status, text), RetryAfter: retryAfter(header)}
	switch {
	case status == http.StatusUnauthorized:
		e.Kind, e.Hint = provider.Unauthorized, "the key is wrong or has expired; "+credentialsHint
	case status == http.StatusForbidden:
		e.Kind, e.Hint = provider.Unauthorized, "the key lacks the right to do that; check its permissions and the organization"
	case status == http.StatusNotFound && notRunning(text), status == http.StatusBadRequest && notRunning(text):
		e.Kind, e.Hint = provider.Unreachable, "the sandbox may be starting or stopped; --start starts it"
	case status == http.StatusNotFound:
		e.Kind = provider.NotFound
	case status == http.StatusRequestTimeout:
		e.Kind = provider.Timeout
	case status == http.StatusConflict:
		e.Kind, e.Hint = provider.Refused, "the sandbox is being changed by somebody else; try again when that is done"
	case status == http.StatusRequestEntityTooLarge:
		e.Kind, e.Hint = provider.TooLarge, "a proxy on the way limits the size of requests; send less at a time"
	case status == http.StatusTooManyRequests:
		e.Kind, e.Hint = provider.RateLimited, "the organization's rate limit is reached; wait, or do less at once"
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		e.Kind, e.Hint = provider.Unreachable, "the sandbox or a gateway before it does not answer"
	case status >= 500:
		e.Kind, e.Hint = provider.Other, "the service failed; if it goes on, see status.app.daytona.io"
	}
	return named(e, text)
}

// notRunning tells answers about the sandbox from those about a file
// (daytonaio/daytona#4142, PR 2694).
func notRunning(text string) bool {
	return strings.Contains(text, "sandbox container not found") || strings.Contains(text, "failed to resolve container IP")
}

// named gives an error the kind that a text of the operating system says.
func named(e *provider.Error, text string) *provider.Error {
	if e.Kind != provider.Other {
		return e
	}
	switch {
	case strings.Contains(text, "no space left on device"), strings.Contains(text, "disk quota exceeded"):
		e.Kind, e.Hint = provider.NoSpace, "free some space in the sandbox, or exclude what is not needed"
	case strings.Contains(text, "read-only file system"), strings.Contains(text, "permission denied"):
		e.Kind, e.Hint = provider.ReadOnly, "the sandbox's user may not write there"
	case strings.Contains(text, "no such file or directory"), strings.Contains(text, "file not found"):
		e.Kind = provider.NotFound
	}
	return e
}

// retryAfter reads Retry-After, or the longest Retry-After-THROTTLER, in seconds
// or as a date.
func retryAfter(header http.Header) time.Duration {
	var longest time.Duration
	for name, values := range header {
		if name != "Retry-After" && !strings.HasPrefix(name, "Retry-After-") || len(values) == 0 {
			continue
		}
		var d time.Duration
		if n, err := strconv.ParseFloat(values[0], 64); err == nil && n < 1e6 {
			d = time.Duration(n * float64(time.Second))
		} else if at, err := http.ParseTime(values[0]); err == nil {
			d = time.Until(at)
		}
		longest = max(longest, d)
	}
	return longest
}

// shorten leaves out the middle of a long text: the cause is at its end.
func shorten(text string) string {
	if len(text) <= maxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorText*2/3], "") + "..." + strings.ToValidUTF8(text[len(text)-maxErrorText/3:], "")
}
