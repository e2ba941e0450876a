package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sbsync/sbsync/pkg/provider"
)

// exitError is how a command ended that ran, with a code that is not 0.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func isExit(err error) bool {
	var exit *exitError
	return errors.As(err, &exit)
}

// noShell is how runc (quotes) and crun (backquotes) say that sh is not there.
var noShell = regexp.MustCompile("[\"'`]sh[\"'`].{0,40}not found")

// statusError reads what the server says in the end: an exit code, or why there
// is none.
func statusError(op string, text []byte) error {
	var status meta.Status
	if err := json.Unmarshal(text, &status); err != nil {
		return lost(op, fmt.Errorf("unreadable status %.200q", text))
	}
	if status.Status == meta.StatusSuccess {
		return nil
	}
	if status.Reason == "NonZeroExitCode" && status.Details != nil {
		for _, cause := range status.Details.Causes {
			if code, err := strconv.Atoi(cause.Message); cause.Type == "ExitCode" && err == nil {
				return &exitError{code}
			}
		}
	}
	if noShell.MatchString(status.Message) {
		return &provider.Error{Kind: provider.Missing, Op: op, Err: errors.New("the container has no sh"),
			Hint: "sbsync needs a POSIX shell in the container; mount the volume in one that has a shell, and name that"}
	}
	return lost(op, fmt.Errorf("%.500s", status.Message))
}
