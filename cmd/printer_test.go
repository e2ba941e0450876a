package cmd

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
	"github.com/sbsync/sbsync/pkg/tree"
)

// sampleRun shows a small run to p.
func sampleRun(p printer, listPlan bool) {
	m := transfer.Mapping{Source: "site", Target: "/box/site"}
	p.began(runStart{verb: "push", direction: transfer.Push, source: "site", target: "local:/box/site", listPlan: listPlan})
	p.Phase("scan")
	p.Routed(m, transfer.Stream, "the sandbox streams")
	p.Planned(m, []transfer.PlannedEntry{
		{Action: transfer.Create, Path: "d", Type: tree.Dir},
		{Action: transfer.Create, Path: "d/a\xff", Type: tree.File, Size: 2048},
		{Action: transfer.Change, Path: "b", Type: tree.File, Size: 3},
		{Action: transfer.Attrs, Path: "c", Type: tree.File, Size: 9},
		{Action: transfer.Delete, Path: "e\x1b[2J", Type: tree.File, Size: 9},
		{Action: transfer.Create, Path: "l", Type: tree.Symlink},
	}, 2, 2051)
	p.Progress(1, 2048)
	p.Progress(1, 3)
	p.Warn(tree.Problem{Path: "pipe", Err: errors.New("is a FIFO"), Skip: true})
	p.Log("decided something")
	p.ended(&transfer.Report{Direction: transfer.Push, Route: transfer.Stream, Files: 2, Bytes: 2051, Links: 1, Dirs: 1, Changed: 1,
		Deleted: 1, Unchanged: 1234, Excluded: 5, Skipped: 1, Calls: 3, Elapsed: 1500 * time.Millisecond,
		Operations: []transfer.OperationReport{{ID: "op", FilesTransferred: 2, BytesTransferred: 2051}}}, false)
}

func TestTextSummary(t *testing.T) {
	var out, err bytes.Buffer
	sampleRun(newTextPrinter(&out, &err, outputFlags{}, false), false)
	const want = "warning: \"pipe\": is a FIFO\n" +
		"pushed 2 files, 2.00 KiB, 1 link, 1 directory, 1 only mode or time, 1,234 unchanged, 1 deleted, 5 excluded, 1 skipped;" +
		" 1.5 s, route stream, 3 calls\n"
	if out.Len() > 0 || err.String() != want {
		t.Errorf("stdout %q, stderr %q, want %q", &out, &err, want)
	}
}

func TestTextPlan(t *testing.T) {
	var out, err bytes.Buffer
	sampleRun(newTextPrinter(&out, &err, outputFlags{}, false), true)
	const want = "+ d/\n+ d/a\\xff (2.00 KiB)\n~ b (3 B)\nm c\n- e\\u001b[2J\n+ l\n"
	if out.String() != want {
		t.Errorf("stdout %q, want %q", &out, want)
	}
}

func TestQuietPrintsNothing(t *testing.T) {
	var out, err bytes.Buffer
	sampleRun(newTextPrinter(&out, &err, outputFlags{quiet: true}, true), true)
	if out.Len()+err.Len() > 0 {
		t.Errorf("stdout %q, stderr %q", &out, &err)
	}
}

func TestVerboseTellsDecisions(t *testing.T) {
	var out, err bytes.Buffer
	sampleRun(newTextPrinter(&out, &err, outputFlags{verbose: true}, false), false)
	for _, want := range []string{"route stream for /box/site: the sandbox streams\n", "decided something\n"} {
		if !strings.Contains(err.String(), want) {
			t.Errorf("stderr %q lacks %q", &err, want)
		}
	}
}

// Only a terminal is drawn on, and it is left clean.
func TestProgressOnTerminalOnly(t *testing.T) {
	for _, test := range []struct {
		name     string
		flags    outputFlags
		terminal bool
		draws    bool
	}{
		{"file", outputFlags{}, false, false},
		{"terminal", outputFlags{}, true, true},
		{"no progress", outputFlags{noProgress: true}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("NO_COLOR", "1")
			var out, err bytes.Buffer
			sampleRun(newTextPrinter(&out, &err, test.flags, test.terminal), false)
			if got := strings.Contains(err.String(), "\r"); got != test.draws {
				t.Errorf("draws: %v, stderr %q", got, &err)
			}
			// What is left on each line is what follows the last clearing.
			for line := range strings.Lines(err.String()) {
				last := line[strings.LastIndexByte(line, '\r')+1:]
				if strings.Contains(last, "%") {
					t.Errorf("a bar is left: %q", line)
				}
			}
		})
	}
}

func TestColourOnTerminalOnly(t *testing.T) {
	for _, test := range []struct {
		noColor  string
		terminal bool
		want     bool
	}{{"", true, true}, {"1", true, false}, {"", false, false}} {
		t.Setenv("NO_COLOR", test.noColor)
		var out, err bytes.Buffer
		newTextPrinter(&out, &err, outputFlags{noProgress: true}, test.terminal).Warn(tree.Problem{Path: "x", Err: errors.New("y")})
		if got := strings.Contains(err.String(), "\x1b["); got != test.want {
			t.Errorf("%+v: stderr %q", test, &err)
		}
	}
}

func TestManyWarnings(t *testing.T) {
	var out, err bytes.Buffer
	p := newTextPrinter(&out, &err, outputFlags{}, false)
	for i := range 100 {
		p.Warn(tree.Problem{Path: fmt.Sprint("f", i), Err: errors.New("odd")})
	}
	p.ended(&transfer.Report{}, false)
	if got := strings.Count(err.String(), "warning: \"f"); got != maxWarnings {
		t.Errorf("%d warnings were shown", got)
	}
	if !strings.Contains(err.String(), "80 warnings not shown") {
		t.Errorf("the rest is not counted: %q", &err)
	}
}

func TestWarningsOfTheReport(t *testing.T) {
	var out, err bytes.Buffer
	newTextPrinter(&out, &err, outputFlags{}, false).ended(&transfer.Report{Warnings: []string{"odd\x1b"}}, true)
	if err.String() != "warning: odd\\u001b\n" {
		t.Errorf("stderr %q", &err)
	}
}

// https://github.com/NVIDIA/OpenShell/issues/1778: "upload complete" was all
// that was said when excludes had left nothing.
func TestNothingLeftIsAWarning(t *testing.T) {
	var text, events, none bytes.Buffer
	r := &transfer.Report{Direction: transfer.Push, Excluded: 3}
	newTextPrinter(&none, &text, outputFlags{}, false).ended(r, false)
	newJSONPrinter(&events, false).ended(r, false)
	for _, got := range []string{text.String(), events.String()} {
		if !strings.Contains(got, "nothing was sent, since everything was excluded") {
			t.Errorf("no warning in %q", got)
		}
	}
}

// readEvents parses NDJSON into one map for each line.
func readEvents(t *testing.T, data []byte) []map[string]any {
	t.Helper()
	var events []map[string]any
	for line := range bytes.Lines(data) {
		e := make(map[string]any)
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		events = append(events, e)
	}
	return events
}

func TestJSONEvents(t *testing.T) {
	var out bytes.Buffer
	p := newJSONPrinter(&out, true)
	sampleRun(p, false)
	printErrorEvent(&out, provider.New(provider.Confined, "no <way>", "stay"), 4)
	var names []string
	for _, e := range readEvents(t, out.Bytes()) {
		names = append(names, e["event"].(string))
	}
	want := "start phase route plan entry entry entry entry entry entry progress warning log summary error"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("events are\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(out.String(), `{"event":"error","kind":"confined","message":"no <way>","hint":"stay","exitCode":4}`) {
		t.Errorf("no error event in %s", &out)
	}
}

// B31: names that are not UTF-8 survive.
func TestJSONNamesAreReversible(t *testing.T) {
	for _, name := range []string{"", "plain", "grüße", "a\xff\xfe", "\xed\xa0\x80", "line\nfeed", "<&>\u2028", "\x00"} {
		var out bytes.Buffer
		printJSON(&out, newEntryEvent(transfer.PlannedEntry{Action: transfer.Create, Path: name, Type: tree.File}))
		e := readEvents(t, out.Bytes())[0]
		got, isText := e["path"].(string)
		if encoded, ok := e["pathBase64"].(string); ok {
			decoded, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil || isText {
				t.Errorf("%q: %v in %s", name, err, &out)
			}
			got = string(decoded)
		} else if !isText {
			t.Errorf("%q: no path in %s", name, &out)
		}
		if got != name {
			t.Errorf("%q came back as %q", name, got)
		}
	}
}

// A mapping that starts again after a temporary error has a new plan.
func TestTotalsAfterRestart(t *testing.T) {
	var p progress
	p.planned(10, 1000)
	p.Files, p.Bytes = 4, 450
	p.planned(6, 600)
	if p.TotalFiles != 10 || p.TotalBytes != 1050 {
		t.Errorf("totals are %d files, %d bytes", p.TotalFiles, p.TotalBytes)
	}
}

// docs/json.md has a section for each event with a row for each field, and no
// other rows.
func TestJSONDocs(t *testing.T) {
	doc := readText(t, "../docs/json.md")
	for section, event := range map[string]any{"start": startEvent{}, "phase": phaseEvent{}, "route": routeEvent{}, "plan": planEvent{},
		"entry": entryEvent{}, "progress": progressEvent{}, "warning": warningEvent{}, "log": logEvent{}, "summary": summaryEvent{},
		"error": errorEvent{}, "probe": probeInfo{}} {
		_, text, found := strings.Cut(doc, "\n## "+section+"\n")
		if !found {
			t.Errorf("no section %q", section)
			continue
		}
		text, _, _ = strings.Cut(text, "\n## ")
		compareFields(t, section, text, jsonFields(reflect.TypeOf(event)))
	}
	_, text, _ := strings.Cut(doc, "\n## summary\n")
	for _, info := range []any{operationEvent{}, capabilityInfo{}, routeInfo{}, providerInfo{}, versionInfo{}} {
		for _, field := range jsonFields(reflect.TypeOf(info)) {
			if !strings.Contains(text, "`"+field+"`") {
				t.Errorf("field %s is not documented", field)
			}
		}
	}
}

func compareFields(t *testing.T, section, text string, fields []string) {
	documented := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `.*$").FindAllString(text, -1) {
		cell, _, _ := strings.Cut(row[2:], " | ")
		for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cell, -1) {
			documented[m[1]] = true
		}
	}
	for _, field := range fields {
		if !documented[field] {
			t.Errorf("%s: field %s is not documented", section, field)
		}
		delete(documented, field)
	}
	for field := range documented {
		t.Errorf("%s: there is no field %s", section, field)
	}
}

func jsonFields(typ reflect.Type) []string {
	var names []string
	for field := range typ.Fields() {
		if field.Anonymous {
			names = append(names, jsonFields(field.Type)...)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

func TestShowError(t *testing.T) {
	var out, err bytes.Buffer
	a := &app{Stdio: Stdio{Out: &out, Err: &err}}
	cause := &provider.Error{Kind: provider.Unreachable, Err: errors.New("exec: exit code 1\nstderr: \x1b[31mboom"), Hint: "one\ntwo"}
	a.showError(fmt.Errorf("push %q: %w", "x", cause), 7, false)
	const want = "sbsync: push \"x\": exec: exit code 1\n    stderr: \\u001b[31mboom\nhint: one\nhint: two\n"
	if out.Len() > 0 || err.String() != want {
		t.Errorf("stdout %q, stderr %q, want %q", &out, &err, want)
	}
}
