package kubernetes

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sbsync/sbsync/pkg/provider"
)

// pidMark begins the line of standard error that says which process it is. The
// process leads a session of its own (runc's nsexec calls setsid), so its number
// is also its group's.
const pidMark = "sbsync-process "

// noDirCode and noDirMark tell a directory that can't be entered from a command
// that ended with the same code.
const (
	noDirCode = 125
	noDirMark = "sbsync-no-directory"
)

// variable is a name that a POSIX shell can set.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// wrap returns the arguments by which sh runs cmd.
//
// sh stays the command's parent and keeps standard output and error open:
// containerd stops feeding the input as soon as the process has closed one of
// them (containerd/containerd#13934, #12734), and `exec cat >file` would get 32
// to 192 KiB of 256 MiB, with exit code 0.
func wrap(cmd provider.Command) ([]string, error) {
	if len(cmd.Args) == 0 {
		return nil, provider.New(provider.Usage, "exec: no command", "")
	}
	if cmd.Dir != "" && !strings.HasPrefix(cmd.Dir, "/") {
		return nil, provider.New(provider.Usage, fmt.Sprintf("exec: directory %q is not absolute", cmd.Dir), "")
	}
	var b strings.Builder
	b.WriteString("echo '" + pidMark + "'$$ >&2\n")
	w := words{script: &b}
	if cmd.Dir != "" {
		fmt.Fprintf(&b, "cd %s || { echo %s >&2; exit %d; }\n", w.word(cmd.Dir), noDirMark, noDirCode)
	}
	for _, name := range slices.Sorted(maps.Keys(cmd.Env)) {
		if !variable.MatchString(name) {
			return nil, provider.New(provider.Usage, fmt.Sprintf("exec: %q can't be the name of an environment variable", name), "")
		}
		value := w.word(cmd.Env[name])
		fmt.Fprintf(&b, "%s=%s\nexport %s\n", name, value, name)
	}
	var run []string
	for _, arg := range cmd.Args {
		run = append(run, w.word(arg))
	}
	b.WriteString(strings.Join(run, " ") + "\nexit $?\n")
	if w.nul {
		return nil, provider.New(provider.Usage, "exec: an argument has a NUL byte", "")
	}
	return append([]string{"sh", "-c", b.String(), "sh"}, w.args...), nil
}

// words collects the positional parameters of a script.
type words struct {
	script *strings.Builder
	args   []string
	spoilt int
	nul    bool
}

// word returns what stands for s in the script. Kubernetes carries arguments as
// text, so bytes that are not UTF-8 go as octal escapes.
func (w *words) word(s string) string {
	w.nul = w.nul || strings.IndexByte(s, 0) >= 0
	if utf8.ValidString(s) {
		w.args = append(w.args, s)
		return fmt.Sprintf(`"${%d}"`, len(w.args))
	}
	w.spoilt++
	var octal strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&octal, `\%03o`, s[i])
	}
	// The x keeps newlines at the end, which $() would cut.
	name := fmt.Sprintf("sbsync_%d", w.spoilt)
	fmt.Fprintf(w.script, "%s=$(printf '%sx')\n%s=${%s%%x}\n", name, octal.String(), name, name)
	return fmt.Sprintf(`"${%s}"`, name)
}
