package confine

import (
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sbsync/sbsync/pkg/provider"
)

// MaxName is the longest path element, in bytes: NAME_MAX of every common file
// system on Linux and macOS.
const MaxName = 255

// CheckPath checks a relative path that came from a sandbox or goes to one: it
// is not empty, not absolute, free of NUL bytes, and none of its elements is
// empty, "." or ".." or longer than [MaxName]. A path that passes is already
// clean and lies below whatever directory it is joined to, as long as no
// element is a link.
//
// Names are bytes: case and Unicode form are left alone. On a file system that
// folds them two paths that differ may be one file; [Stage] finds that, since
// it never opens what exists.
func CheckPath(rel string) error {
	if reason := pathFault(rel); reason != "" {
		return refusePath(rel, reason)
	}
	return nil
}

// CheckHostName checks that rel, which must also pass [CheckPath], can be
// stored on this host under exactly that name. Only Windows has more rules than
// CheckPath: there a backslash or a colon would be syntax, device names such as
// NUL are reserved, and dots and spaces at the end of an element are dropped.
func CheckHostName(rel string) error { return checkHostName(runtime.GOOS, rel) }

func checkHostName(goos, rel string) error {
	if err := CheckPath(rel); err != nil || goos != "windows" {
		return err
	}
	if !utf8.ValidString(rel) {
		return refusePath(rel, "Windows cannot store a name that is not UTF-8")
	}
	for elem := range strings.SplitSeq(rel, "/") {
		if reason := windowsFault(elem); reason != "" {
			return refusePath(rel, reason)
		}
	}
	return nil
}

func refusePath(rel, reason string) *provider.Error {
	return refuse("check path", "", "%s: %s", quote(rel), reason)
}

// pathFault says what is wrong with a relative path, or "".
func pathFault(rel string) string {
	switch {
	case rel == "":
		return "empty path"
	case rel[0] == '/':
		return "absolute path"
	case strings.IndexByte(rel, 0) >= 0:
		return "NUL byte in path"
	}
	for elem := range strings.SplitSeq(rel, "/") {
		switch {
		case elem == "":
			return "empty element"
		case elem == ".", elem == "..":
			return `"` + elem + `" element`
		case len(elem) > MaxName:
			return "name longer than 255 bytes"
		}
	}
	return ""
}

// windowsFault says why Windows cannot store a name, or "". The rules are those
// of Microsoft's "Naming Files, Paths, and Namespaces".
func windowsFault(elem string) string {
	for i := range len(elem) {
		if c := elem[i]; c < 0x20 || strings.IndexByte(`<>:"|?*\`, c) >= 0 {
			return "character that Windows does not allow in a name"
		}
	}
	if last := elem[len(elem)-1]; last == '.' || last == ' ' {
		return "Windows drops dots and spaces at the end of a name"
	}
	if isDevice(elem) {
		return "reserved device name on Windows"
	}
	return ""
}

// isDevice says whether Windows takes elem for a device, whatever extension
// it has.
func isDevice(elem string) bool {
	base, _, _ := strings.Cut(elem, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	port, ok := strings.CutPrefix(base, "COM")
	if !ok {
		port, ok = strings.CutPrefix(base, "LPT")
	}
	switch port {
	case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
		return ok
	}
	return false
}

// quote quotes a path for an error text. A hostile path may be megabytes long;
// its beginning is enough.
func quote(path string) string {
	const most = 512
	if len(path) > most {
		return strconv.Quote(path[:most]) + "..."
	}
	return strconv.Quote(path)
}
