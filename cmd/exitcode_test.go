package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Every kind has exactly one code, so that a new kind can't be forgotten.
func TestEveryKindHasOneExitCode(t *testing.T) {
	for kind := provider.Other; kind <= provider.Partial; kind++ {
		var codes []int
		for _, c := range exitCodes() {
			if slices.Contains(c.Kinds, kind) {
				codes = append(codes, c.Code)
			}
		}
		if len(codes) != 1 {
			t.Errorf("kind %v has the exit codes %v", kind, codes)
		}
	}
}

func TestExitCodeOf(t *testing.T) {
	plain := context.Background()
	interrupted, cancel := context.WithCancelCause(plain)
	cancel(InterruptedBy(os.Interrupt))
	terminated, cancel := context.WithCancelCause(plain)
	cancel(InterruptedBy(syscall.SIGTERM))
	wrapped := func(err error) error { return fmt.Errorf("push %q: %w", "x", err) }
	for _, test := range []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"success", plain, nil, 0},
		{"unknown", plain, errors.New("boom"), 1},
		{"wrapped kind", plain, wrapped(provider.New(provider.Confined, "out", "")), 4},
		{"missing tool", plain, provider.New(provider.Missing, "no sh", ""), 7},
		{"limit", plain, provider.New(provider.TooLarge, "too many", ""), 9},
		{"host disk full", plain, wrapped(&os.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}), 8},
		{"host read-only", plain, &os.PathError{Op: "open", Path: "f", Err: syscall.EROFS}, 8},
		{"deadline", plain, wrapped(context.DeadlineExceeded), 7},
		{"differences", plain, errDifferences, 10},
		{"interrupt", interrupted, wrapped(context.Canceled), 130},
		{"interrupt wins over what it caused", interrupted, provider.New(provider.Unreachable, "gone", ""), 130},
		{"finished before the signal was noticed", interrupted, nil, 0},
		{"terminate", terminated, context.Canceled, 143},
	} {
		if got := exitCodeOf(test.ctx, test.err); got != test.want {
			t.Errorf("%s: exit code %d, want %d", test.name, got, test.want)
		}
	}
}

// docs/exit-codes.md has one table row for each code, in the map's words.
func TestExitCodeDocs(t *testing.T) {
	doc := readText(t, "../docs/exit-codes.md")
	var want []string
	for _, c := range exitCodes() {
		var kinds []string
		for _, k := range c.Kinds {
			kinds = append(kinds, "`"+k.String()+"`")
		}
		want = append(want, strings.TrimSpace(fmt.Sprintf("| %d | %s | %s | %s |", c.Code, c.Short, c.Meaning, strings.Join(kinds, ", "))))
	}
	got := regexp.MustCompile(`(?m)^\| \d+ \|.*\|$`).FindAllString(doc, -1)
	for i, row := range got {
		got[i] = strings.ReplaceAll(row, "|  |", "| |")
	}
	for i, row := range want {
		want[i] = strings.ReplaceAll(row, "|  |", "| |")
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestExitCodeTopic(t *testing.T) {
	text := readText(t, "help/exit-codes.txt")
	var got, want []string
	for _, m := range regexp.MustCompile(`(?m)^ *(\d+)  (\S+(?: \S+)?)  `).FindAllStringSubmatch(text, -1) {
		got = append(got, m[1]+" "+m[2])
	}
	for _, c := range exitCodes() {
		want = append(want, fmt.Sprintf("%d %s", c.Code, c.Short))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the topic lists %q, want %q", got, want)
	}
}

// The exit codes in a command's help are the map's, and all of them where the
// command can end in any way.
func TestExitCodesInHelp(t *testing.T) {
	all := make(map[int]string)
	for _, c := range exitCodes() {
		all[c.Code] = c.Short
	}
	for name, missing := range map[string][]int{
		"push": {exitDifferences}, "pull": {exitDifferences},
		"diff": {exitIntegrity, exitSpace}, "probe": {exitSource, exitConfined, exitPartial, exitIntegrity, exitSpace, exitGuard, exitDifferences},
	} {
		text := readText(t, "help/"+name+".txt")
		_, list, _ := strings.Cut(text, "Exit codes: ")
		list, _, found := strings.Cut(list, " (sbsync help exit-codes)")
		if !found {
			t.Errorf("%s: no list of exit codes", name)
			continue
		}
		listed := make(map[int]bool)
		for item := range strings.SplitSeq(strings.Join(strings.Fields(list), " "), ", ") {
			number, short, _ := strings.Cut(item, " ")
			code, err := strconv.Atoi(number)
			if err != nil || all[code] != short {
				t.Errorf("%s: %q is not an exit code", name, item)
			}
			listed[code] = true
		}
		for code, short := range all {
			if listed[code] == slices.Contains(missing, code) {
				t.Errorf("%s: exit code %d %s is listed: %v", name, code, short, listed[code])
			}
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
