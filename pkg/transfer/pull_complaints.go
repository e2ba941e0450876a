package transfer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/tree"
)

// judge holds what arrived against how tar ended. asked are the files by the
// names that tar was given, missing those of them that did not arrive.
//
// A complaint about a file counts against that file alone: GNU tar sends one
// that shrank or could not be read as zeros, in an archive that is valid, and
// leaves one out that is gone. What no complaint explains counts against the
// whole archive.
func (g *puller) judge(asked, missing map[string]tree.Entry, exit *script.ExitError) error {
	if exit == nil {
		for name := range missing {
			return integrityError(fmt.Sprintf("%d of %d files arrived; %q did not", len(asked)-len(missing), len(asked), name))
		}
		return nil
	}
	explained := false
	for line := range strings.Lines(exit.Stderr) {
		name, text, ok := complaint(line, asked)
		if !ok {
			continue
		}
		explained = true
		if e := asked[name]; !g.failed[e.Path] {
			g.complain(e, text)
		}
	}
	for name, e := range missing {
		if !g.failed[e.Path] {
			return integrityError(fmt.Sprintf("%q did not arrive, and the sandbox's tar does not say why: %v", name, exit))
		}
	}
	if !explained {
		return integrityError(fmt.Sprintf("the sandbox's tar failed, with exit code %d: %v", exit.Code, exit))
	}
	return nil
}

// complain takes note of what tar said of a file. GNU tar ends with 1 and the
// first text if the file was sent whole but was another one afterwards.
func (g *puller) complain(e tree.Entry, text string) {
	switch {
	case strings.Contains(text, "file changed as we read it"):
		g.change(e.Path)
	case strings.HasPrefix(text, "File shrank by "):
		g.fail(e.Path, errShrunk)
	default:
		g.fail(e.Path, errors.New(text))
	}
}

// complaint takes a line of tar's standard error apart: the file that it is
// about, one of those that were asked for, and what it says.
//
//	tar: ./a\nb: File shrank by 3 bytes; padding with zeros     (GNU, names escaped)
//	tar: can't open './a': Permission denied                    (BusyBox)
func complaint(line string, asked map[string]tree.Entry) (name, text string, ok bool) {
	line = strings.TrimSpace(line)
	start := strings.Index(line, "./")
	if start < 0 {
		return "", "", false
	}
	line = line[start+2:]
	for i := 0; i < len(line); i++ {
		if !strings.HasPrefix(line[i:], ": ") {
			continue
		}
		for _, try := range []string{line[:i], strings.TrimSuffix(line[:i], "'"), unescape(line[:i])} {
			if _, is := asked[try]; is {
				// The longest name counts: one that holds ": " may begin like another.
				name, text, ok = try, line[i+2:], true
			}
		}
	}
	return name, text, ok
}

// unescape undoes GNU tar's quoting style "escape", with which it shows names.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if at := strings.IndexByte("abfnrtv", s[i]); at >= 0 {
			b.WriteByte("\a\b\f\n\r\t\v"[at])
			continue
		}
		n, digits := 0, 0
		for ; digits < 3 && i+digits < len(s) && s[i+digits] >= '0' && s[i+digits] <= '7'; digits++ {
			n = n<<3 | int(s[i+digits]-'0')
		}
		if digits == 0 {
			b.WriteByte(s[i]) // a backslash, a colon, a blank
			continue
		}
		b.WriteByte(byte(n))
		i += digits - 1
	}
	return b.String()
}

// tooManyComplaints says whether complaints may have been lost: only the end of
// standard error is kept.
func tooManyComplaints(exit *script.ExitError) bool {
	return exit != nil && len(exit.Stderr) >= provider.StderrTail-1
}
