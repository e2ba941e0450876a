package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// caseIDs are all cases there are: reports of peers (B), facts that were
// measured (M), reports on the seed system (P).
const caseIDs = `
B01 B02 B03 B04 B05 B06 B07 B08 B09 B10 B12
B13 B14 B15 B17 B18 B20 B21 B22
B25 B26 B27 B28 B29 B31 B32 B34
B35 B36 B37 B38 B42 B43
B46 B48 B49 B50 B51
B52 B53 B56 B57
B59 B61 B63 B64 B65 B67 B68 B70 B71
B72 B73 B74 B76 B77 B78 B80 B81 B82
B83 B84 B87 B88 B89 B90 B91 B93
M1 M2 M3 M4 M5 M6 M7 M8 M9
P01 P02 P03 P04 P05 P06 P07 P08 P09 P10 P11 P12 P13 P14 P15 P16 P17 P18 P19 P20 P21 P22 P23 P24 P25
`

// TestCasesAreCovered checks docs/cases.md: every case is there once, with its
// report and with tests that exist.
func TestCasesAreCovered(t *testing.T) {
	tests := testFunctions(t)
	seen := map[string]bool{}
	for _, row := range caseRows(t) {
		id, report, summary, covered := row[0], row[1], row[2], row[3]
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		if report == "" || summary == "" {
			t.Errorf("%s lacks its report or what it is about", id)
		}
		if covered == "" {
			t.Errorf("%s is covered by nothing", id)
			continue
		}
		for ref := range strings.SplitSeq(covered, ",") {
			checkReference(t, id, strings.Trim(ref, " `"), tests)
		}
	}
	want := strings.Fields(caseIDs)
	for _, id := range want {
		if !seen[id] {
			t.Errorf("%s is missing", id)
		}
	}
	for id := range seen {
		if !slices.Contains(want, id) {
			t.Errorf("%s is in the table, but no case", id)
		}
	}
}

// checkReference checks that a script or test exists. A script says in its first
// line which report it is about.
func checkReference(t *testing.T, id, ref string, tests map[string]bool) {
	if !strings.HasSuffix(ref, ".txtar") {
		if !strings.Contains(ref, ".") {
			ref = "transfer." + ref
		}
		if !tests[ref] {
			t.Errorf("%s: there is no test %s", id, ref)
		}
		return
	}
	text, err := os.ReadFile(filepath.Join("testdata", "script", ref))
	if err != nil {
		t.Errorf("%s: %v", id, err)
		return
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if !regexp.MustCompile(`^# (https://|[Mm]easured|[Rr]ead )`).Match(first) {
		t.Errorf("%s: %s does not begin with its report: %q", id, ref, first)
	}
}

// caseRows returns the cells of the table's rows.
func caseRows(t *testing.T) [][]string {
	text, err := os.ReadFile(filepath.Join("docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(text)) {
		line, isRow := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !isRow || strings.HasPrefix(line, "id ") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "|"), " | ")
		if len(cells) != 4 {
			t.Errorf("not four cells: %s", line)
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)

// testFunctions returns all tests of the module, as "directory.TestName", with
// "main" for the top directory.
func testFunctions(t *testing.T) map[string]bool {
	tests := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		dir := filepath.Base(filepath.Dir(path))
		if dir == "." {
			dir = "main"
		}
		for _, m := range testFunction.FindAllSubmatch(text, -1) {
			tests[dir+"."+string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// TestCaseScriptsAreListed checks that no script of a case is missing in the
// table.
func TestCaseScriptsAreListed(t *testing.T) {
	listed := map[string]bool{}
	for _, row := range caseRows(t) {
		for ref := range strings.SplitSeq(row[3], ",") {
			listed[strings.Trim(ref, " `")] = true
		}
	}
	scripts, err := filepath.Glob(filepath.Join("testdata", "script", "case_*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		if name := filepath.Base(script); !listed[name] {
			t.Errorf("%s is not in docs/cases.md, which lists %v", name, slices.Sorted(maps.Keys(listed)))
		}
	}
}
