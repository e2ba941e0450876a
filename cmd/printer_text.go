package cmd

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/sbsync/sbsync/pkg/transfer"
	"github.com/sbsync/sbsync/pkg/tree"
)

// maxWarnings is how many warnings are shown without -v: a screen's worth.
const maxWarnings = 20

// barWidth leaves a few of 80 columns empty, so that the terminal's "^C" does
// not wrap the line that has to be cleared then.
const barWidth = 12

// textPrinter prints for people. Plans that were asked for go to out, all
// else to err.
type textPrinter struct {
	out, err io.Writer
	flags    outputFlags
	draw     bool // err is a terminal, and progress is wanted
	colour   bool

	mu       sync.Mutex
	start    runStart
	phase    string
	status   bool // a status line without a bar stands on the terminal
	bar      *progressbar.ProgressBar
	moved    progress
	warnings int
}

func newTextPrinter(out, err io.Writer, flags outputFlags, terminal bool) *textPrinter {
	return &textPrinter{out: out, err: err, flags: flags,
		draw:   terminal && !flags.noProgress && !flags.quiet,
		colour: terminal && os.Getenv("NO_COLOR") == ""}
}

func (p *textPrinter) began(start runStart) { p.start = start }

func (p *textPrinter) Routed(m transfer.Mapping, route transfer.Route, why string) {
	p.verbosef("route %s for %s: %s", route, printable(m.Target), why)
}

func (p *textPrinter) Planned(m transfer.Mapping, plan []transfer.PlannedEntry, files int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved.planned(files, bytes)
	if p.start.listPlan && !p.flags.quiet {
		p.clear()
		for _, e := range plan {
			fmt.Fprintln(p.out, planLine(m, e))
		}
		return
	}
	if p.draw && p.moved.TotalBytes > 0 {
		p.growBar()
	}
}

// planLine is one line of a dry run or a diff: a sign, and the path as it will
// be below the target.
func planLine(m transfer.Mapping, e transfer.PlannedEntry) string {
	sign := map[transfer.Action]string{transfer.Create: "+", transfer.Change: "~", transfer.Attrs: "m",
		transfer.Delete: "-", transfer.Convert: "!"}[e.Action]
	path := e.Path
	if path == "" {
		path = m.Target
	}
	switch e.Type {
	case tree.Dir:
		return fmt.Sprintf("%s %s", sign, printable(strings.TrimSuffix(path, "/")+"/"))
	case tree.File:
		if e.Action == transfer.Create || e.Action == transfer.Change {
			return fmt.Sprintf("%s %s (%s)", sign, printable(path), humanBytes(e.Size))
		}
	}
	return fmt.Sprintf("%s %s", sign, printable(path))
}

func (p *textPrinter) Progress(files int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved.Files += files
	p.moved.Bytes += bytes
	if p.bar == nil {
		return
	}
	if files > 0 {
		p.bar.Describe(p.barText())
	}
	p.bar.Add64(bytes) // the error is that of a bar beyond its end
}

func (p *textPrinter) Phase(name string) {
	p.mu.Lock()
	p.phase = name
	if p.draw {
		if p.bar != nil {
			p.bar.Describe(p.barText())
		} else {
			fmt.Fprintf(p.err, "\r\x1b[K%s", name)
			p.status = true
		}
	}
	p.mu.Unlock()
	p.verbosef("phase %s", name)
}

func (p *textPrinter) Warn(problem tree.Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warnings++
	if p.flags.quiet || p.warnings > maxWarnings && !p.flags.verbose {
		return
	}
	text := printable(problem.Err.Error())
	if problem.Path != "" && !strings.Contains(text, fmt.Sprintf("%q", problem.Path)) {
		text = fmt.Sprintf("%q: %s", problem.Path, text)
	}
	p.line("%s %s", p.paint("33", "warning:"), text)
}

func (p *textPrinter) note(text string) {
	if !p.flags.quiet {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.line("%s", printable(text))
	}
}

func (p *textPrinter) Log(text string) { p.verbosef("%s", printable(text)) }

func (p *textPrinter) verbosef(format string, args ...any) {
	if !p.flags.verbose {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(format, args...)
}

// line prints one line and leaves the bar below it.
func (p *textPrinter) line(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.err, format+"\n", args...)
	if p.bar != nil {
		p.bar.RenderBlank()
	}
}

// clear removes whatever is drawn.
func (p *textPrinter) clear() {
	if p.status {
		fmt.Fprint(p.err, "\r\x1b[K")
		p.status = false
	}
	if p.bar != nil {
		p.bar.Clear()
	}
}

func (p *textPrinter) growBar() {
	if p.bar != nil {
		p.bar.ChangeMax64(p.moved.TotalBytes)
		p.bar.Describe(p.barText())
		return
	}
	p.clear()
	p.bar = progressbar.NewOptions64(p.moved.TotalBytes,
		progressbar.OptionSetWriter(p.err),
		progressbar.OptionSetDescription(p.barText()),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionShowCount(),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(barWidth),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

func (p *textPrinter) barText() string {
	return fmt.Sprintf("%s %s/%s files", p.phase, humanCount(p.moved.Files), humanCount(p.moved.TotalFiles))
}

func (p *textPrinter) paint(code, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p *textPrinter) ended(r *transfer.Report, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.bar = nil
	if p.flags.quiet {
		return
	}
	for _, text := range r.Warnings {
		p.line("%s %s", p.paint("33", "warning:"), printable(text))
	}
	if hidden := p.warnings - maxWarnings; hidden > 0 && !p.flags.verbose {
		p.line("%s %s not shown; -v shows all", p.paint("33", "warning:"), counted(hidden, "warning", "warnings"))
	}
	if !failed && nothingLeft(r) {
		p.line("%s nothing was sent, since everything was excluded", p.paint("33", "warning:"))
	}
	if !failed || happened(r) {
		p.line("%s", summary(p.start, r, failed))
	}
}

// happened says whether a run changed anything.
func happened(r *transfer.Report) bool { return r.Files+r.Links+r.Dirs+r.Changed+r.Deleted > 0 }

// nothingLeft says whether excludes left nothing to send (NVIDIA/OpenShell#1778).
func nothingLeft(r *transfer.Report) bool {
	return r.Excluded > 0 && r.Unchanged == 0 && !happened(r)
}

// summary says everything about a run in one line.
func summary(start runStart, r *transfer.Report, failed bool) string {
	var b strings.Builder
	b.WriteString(pastTense(start, r, failed))
	fmt.Fprintf(&b, " %s, %s", counted(r.Files, "file", "files"), humanBytes(r.Bytes))
	for _, c := range []struct {
		n         int
		one, many string
		always    bool
	}{
		{r.Links, "link", "links", false}, {r.Dirs, "directory", "directories", false},
		{r.Changed, "only mode or time", "only mode or time", false}, {r.Unchanged, "unchanged", "unchanged", true},
		{r.Deleted, "deleted", "deleted", true}, {r.Excluded, "excluded", "excluded", true},
		{r.Skipped, "skipped", "skipped", false},
	} {
		if c.always || c.n > 0 {
			fmt.Fprintf(&b, ", %s", counted(c.n, c.one, c.many))
		}
	}
	if r.DryRun {
		return b.String()
	}
	fmt.Fprintf(&b, "; %s", humanTime(r.Elapsed))
	if speed := rate(r.Bytes, r.Elapsed); speed >= 0.01 {
		fmt.Fprintf(&b, ", %s MB/s", threeDigits(speed))
	}
	if r.Route != "" && r.Route != transfer.Auto {
		fmt.Fprintf(&b, ", route %s", r.Route)
	}
	fmt.Fprintf(&b, ", %s", counted(r.Calls, "call", "calls"))
	return b.String()
}

func pastTense(start runStart, r *transfer.Report, failed bool) string {
	switch {
	case failed:
		return "until then:"
	case r.DryRun:
		return fmt.Sprintf("would %s", start.direction)
	}
	return fmt.Sprintf("%sed", start.direction)
}
