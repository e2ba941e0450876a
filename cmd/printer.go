package cmd

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// printer shows a run to its user while it happens and when it is over. Text
// and NDJSON are its two forms. All methods are safe for concurrent use.
type printer interface {
	transfer.Observer
	// began is called once, before anything else.
	began(start runStart)
	// note tells what a person waits for before the run.
	note(text string)
	// ended shows the report of a run that began. The error that ended it, if
	// any, is shown later by showError.
	ended(r *transfer.Report, failed bool)
}

// runStart says what a run is about.
type runStart struct {
	verb           string // push, pull, diff
	direction      transfer.Direction
	source, target string // as the user wrote them
	listPlan       bool   // the plan is what was asked for: print all of it
}

// progress is what has moved of what is to move.
type progress struct {
	Files      int   `json:"files"`
	TotalFiles int   `json:"totalFiles"`
	Bytes      int64 `json:"bytes"`
	TotalBytes int64 `json:"totalBytes"`
}

// planned adds a plan to the totals. Mappings come one after another, and one
// that starts again after a temporary error has a new plan: either way, what
// is to come is the plan and nothing else.
func (p *progress) planned(files int, bytes int64) {
	p.TotalFiles = p.Files + files
	p.TotalBytes = p.Bytes + bytes
}

func (a *app) newPrinter() printer {
	switch {
	case a.out.json && a.out.quiet:
		return newJSONPrinter(io.Discard, false)
	case a.out.json:
		return newJSONPrinter(a.Out, a.out.verbose)
	}
	return newTextPrinter(a.Out, a.Err, a.out, isTerminal(a.Err))
}

// isTerminal says whether w can be drawn on.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// showError prints the error that ends the program.
func (a *app) showError(err error, code int, json bool) {
	if json {
		printErrorEvent(a.Out, err, code)
	}
	lines := strings.Split(strings.TrimRight(err.Error(), "\n"), "\n")
	fmt.Fprintf(a.Err, "sbsync: %s\n", printable(lines[0]))
	for _, line := range lines[1:] {
		fmt.Fprintf(a.Err, "    %s\n", printable(line))
	}
	if hint := provider.HintOf(err); hint != "" {
		for line := range strings.SplitSeq(hint, "\n") {
			fmt.Fprintf(a.Err, "hint: %s\n", printable(line))
		}
	}
}

// printable makes a line of foreign origin (a path, a sandbox's error output)
// safe for a terminal: control characters, escape sequences among them, and
// bytes that are not UTF-8 are shown escaped.
func printable(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\t':
			b.WriteByte(' ')
		case r == 0xfffd && !strings.HasPrefix(s[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r < ' ' || r >= 0x7f && r < 0xa0 || isBidi(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isBidi says whether r reorders the text around it, which can make one name
// look like another (CVE-2021-42574).
func isBidi(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x2028 || r == 0x2029
}

// humanBytes writes n for people, in powers of 1,024.
func humanBytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 999.5 && unit < 4 {
		value, unit = value/1024, unit+1
	}
	return threeDigits(value) + " " + []string{"KiB", "MiB", "GiB", "TiB", "PiB"}[unit]
}

func threeDigits(value float64) string {
	switch {
	case value < 9.995:
		return fmt.Sprintf("%.2f", value)
	case value < 99.95:
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.0f", value)
}

// humanCount writes n with a comma between thousands.
func humanCount(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return humanCount(n) + " " + many
}

// humanTime writes d as "340 ms", "2.4 s" or "3m12s".
func humanTime(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// rate is in millions of bytes a second, 0 if it can't be told.
func rate(bytes int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(bytes) / 1e6 / d.Seconds()
}
