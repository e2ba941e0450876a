package transfer

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tree"
)

// maxStagedPath is PATH_MAX, which counts a NUL, on Linux and macOS: a longer path
// cannot be made below the staging directory.
const maxStagedPath = 4095

// checkPaths names an entry whose path the sandbox cannot take, before it is
// sent. What its tar would say need not name it (BusyBox: "bad archive").
func (p *plan) checkPaths() error {
	for _, e := range p.send {
		if n := len(member(e.Path)); n > maxStagedPath {
			return &provider.Error{Kind: provider.TooLarge,
				Err:  fmt.Errorf("a path of %d bytes is too long for the sandbox: %.80q", len(e.Path), e.Path),
				Hint: "exclude it, or send a directory above it by itself"}
		}
	}
	return nil
}

// countScript checks the number of staged entries that are not directories.
func (c *carrier) countScript(written int) string {
	if !c.facts.tools["find"] || c.plan.root.Type != tree.Dir {
		return ""
	}
	return strings.ReplaceAll(`c=$(find `+stagedTree+` ! -type d -print0 | tr -cd '\000' | wc -c)
[ "$((c))" = @ ] || die 84 "$c of @ entries are there"
`, "@", strconv.Itoa(written))
}

// sizeList collects the types and sizes of what a push stages, where digests are
// not compared. A sandbox that says it has stored a file and has only a part of
// it, or nothing, was reported (opensandbox-group/OpenSandbox#1016).
type sizeList struct {
	files, links []int64
	linked       map[string]int64 // of files that there may be hard links to
}

func (l *sizeList) add(e tree.Entry, size int64) {
	l.files = append(l.files, size)
	if e.Nlink > 1 {
		if l.linked == nil {
			l.linked = map[string]int64{}
		}
		l.linked[e.Path] = size
	}
}

// again adds a hard link to a file that was added.
func (l *sizeList) again(first string) { l.files = append(l.files, l.linked[first]) }

func (l *sizeList) addLink(target string) { l.links = append(l.links, int64(len(target))) }

// script compares what was staged with the list, all together: one digest of
// types and sizes in order. A sandbox without the tools for it has its entries
// counted. 10,000 files take about 25 ms with GNU find.
func (l *sizeList) script(h hasher, count string) string {
	if h.command == "" {
		return count
	}
	var lines []string
	for _, n := range l.files {
		lines = append(lines, "f"+strconv.FormatInt(n, 10)+"\n")
	}
	for _, n := range l.links {
		lines = append(lines, "l"+strconv.FormatInt(n, 10)+"\n")
	}
	slices.Sort(lines)
	sum := (&digestList{hasher: h}).start()
	for _, line := range lines {
		io.WriteString(sum, line)
	}
	want := shell.Quote(strings.TrimSpace(digestLine(sum)))
	return `how=count
if have find && have sort; then
	if find . -prune -printf '' 2>/dev/null; then how=printf; elif have stat; then how=stat; fi
fi
n=` + want + `
case $how in
printf) n=$(find ` + stagedTree + ` ! -type d -printf '%y%s\n' | sort | $HASH | trim) ;;
stat) n=$({ find ` + stagedTree + ` -type f -exec stat -c f%s {} +; find ` + stagedTree + ` -type l -exec stat -c l%s {} +; } | sort | $HASH | trim) ;;
count) :
` + count + `	;;
esac
[ "$n" = ` + want + ` ] || die 84 'files are missing, or not as long as what was sent'
`
}
