package confine

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
)

// Roots are the declared roots: the directories below which a sync may name
// paths, one list a side. An empty list admits nothing, and so does a root that
// is not absolute.
//
// The checks judge text and touch no disk. A Roots is safe for concurrent use
// as long as nobody changes it.
type Roots struct {
	Host    []string // in the host's syntax
	Sandbox []string // POSIX, whatever the host is
}

// CheckHost returns path cleaned if it is absolute and equal to a host root or
// below one, by path segment. Everything else is an error of kind Confined that
// names the root which would be needed.
func (r Roots) CheckHost(p string) (clean string, err error) {
	const op = "check host path"
	if reason := absFault(p, filepath.IsAbs(p)); reason != "" {
		return "", refuse(op, "", "%s: %s", quote(p), reason)
	}
	clean = filepath.Clean(p)
	for _, root := range r.Host {
		if !filepath.IsAbs(root) {
			continue
		}
		// Rel folds case on Windows, as its file systems do, and fails for
		// another volume.
		if rel, err := filepath.Rel(root, clean); err == nil && !leaves(filepath.ToSlash(rel)) {
			return clean, nil
		}
	}
	return "", refuseRoot(op, clean, filepath.Dir(clean), r.Host)
}

// CheckSandbox is [Roots.CheckHost] for a path in the sandbox. Such a path is
// POSIX on every host: a backslash is part of a name, case matters.
func (r Roots) CheckSandbox(p string) (clean string, err error) {
	const op = "check sandbox path"
	if reason := absFault(p, path.IsAbs(p)); reason != "" {
		return "", refuse(op, "", "%s: %s", quote(p), reason)
	}
	clean = path.Clean(p)
	for _, root := range r.Sandbox {
		if path.IsAbs(root) && below(clean, path.Clean(root)) {
			return clean, nil
		}
	}
	return "", refuseRoot(op, clean, path.Dir(clean), r.Sandbox)
}

// absFault says what is wrong with a path that has to be absolute, or "".
func absFault(p string, isAbs bool) string {
	switch {
	case p == "":
		return "empty path"
	case strings.IndexByte(p, 0) >= 0:
		return "NUL byte in path"
	case !isAbs:
		return "not an absolute path"
	}
	return ""
}

// below says whether p equals root or lies below it; both are clean, absolute
// POSIX paths.
func below(p, root string) bool {
	if root == "/" {
		return true
	}
	rest, ok := strings.CutPrefix(p, root)
	return ok && (rest == "" || rest[0] == '/')
}

// leaves says whether a cleaned, slash-separated relative path goes up.
func leaves(rel string) bool { return rel == ".." || strings.HasPrefix(rel, "../") }

func refuseRoot(op, clean, parent string, roots []string) *provider.Error {
	hint := "to allow it, declare a root that holds it: --root " + quote(clean) + " or --root " + quote(parent)
	if clean == parent {
		hint = "to allow it, declare it: --root " + quote(clean)
	}
	if len(roots) == 0 {
		return refuse(op, hint, "%s: no root is declared", quote(clean))
	}
	quoted := make([]string, len(roots))
	for i, root := range roots {
		quoted[i] = quote(root)
	}
	return refuse(op, hint, "%s: outside the declared roots (%s)", quote(clean), strings.Join(quoted, ", "))
}
