package tarball

import (
	"errors"
	"fmt"
	"io"
)

// What a [FormatError] can be, for errors.Is. A cut archive is
// io.ErrUnexpectedEOF.
var (
	// ErrHostile is a refusal: the archive is readable and asks for something
	// that it must not get. Another attempt will not help.
	ErrHostile = errors.New("refused")
	// ErrCorrupt is damage: these are not bytes that a tar program wrote.
	ErrCorrupt = errors.New("corrupt archive")
	// ErrSpecial is an ErrHostile, too: a device or a FIFO. An honest tar sends
	// one if a file became that after it was asked for.
	ErrSpecial = errors.New("neither file, directory nor link")
	// ErrLimit is a limit of [ReaderOptions] that the archive exceeds.
	ErrLimit = errors.New("limit exceeded")
)

// FormatError is a fault of an archive that is being read.
type FormatError struct {
	Offset int64  // of the header or byte at fault, from the start of the stream
	Name   string // of the member, "" if not known
	Reason string
	// Err is ErrHostile, ErrCorrupt, ErrLimit or io.ErrUnexpectedEOF.
	Err error
	// Cause is the rule that refused a name, or ErrSpecial, or nil.
	Cause error
}

func (e *FormatError) Error() string {
	where := fmt.Sprintf("offset %d", e.Offset)
	if e.Name != "" {
		where = fmt.Sprintf("member %.300q at offset %d", e.Name, e.Offset) // a hostile one may be long
	}
	return fmt.Sprintf("read archive: %s: %s: %s", where, e.kind(), e.Reason)
}

func (e *FormatError) kind() string {
	if errors.Is(e.Err, io.ErrUnexpectedEOF) {
		return "archive is incomplete"
	}
	return e.Err.Error()
}

// Unwrap returns Err and Cause.
func (e *FormatError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Cause}
}
