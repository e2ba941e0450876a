package transfer

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tree"
)

// digestBatch is how many files one command hashes at most, so that commands
// stay short and their output below every provider's limit.
const digestBatch = 2000

// remoteDigests returns the digests of files in the sandbox, in the order of
// names, as digestLine has them; "" for one that cannot be read. Names are
// relative to dir.
func (r *runner) remoteDigests(ctx context.Context, s *script.Session, h hasher, dir string, names []string) ([]string, error) {
	limit, hard := s.MaxInput()
	if !hard || limit > 1<<20 {
		limit = 1 << 20
	}
	most := digestBatch
	if max := s.MaxOutput(); max > 0 {
		most = min(most, int(max/128))
	}
	var all []string
	for len(names) > 0 {
		n, size := 0, int64(0)
		for n < len(names) && n < most && (n == 0 || size+int64(len(names[n]))+3 <= limit) {
			size += int64(len(names[n])) + 3
			n++
		}
		lines, err := r.digestSome(ctx, s, h, dir, names[:n])
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
		names = names[n:]
	}
	return all, nil
}

func (r *runner) digestSome(ctx context.Context, s *script.Session, h hasher, dir string, names []string) ([]string, error) {
	var list strings.Builder
	odd := false
	for _, n := range names {
		list.WriteString("./" + n + "\x00")
		odd = odd || strings.ContainsAny(n, "\n\r\\")
	}
	head := "HASH=" + shell.Quote(h.command) + "\ntrim() { " + h.trim + "; }\ncd -P -- " + shell.Quote(dir) + " || die 81 'the directory is gone'\n"
	run := func(command string) ([]string, error) {
		var reply []byte
		err := r.again(ctx, "digests", func(ctx context.Context) (err error) {
			input := strings.NewReader(list.String())
			reply, err = s.Run(ctx, script.Script{Label: "digests", Body: head + command, Heartbeat: true, Input: input, InputSize: input.Size()})
			return err
		})
		if err != nil {
			return nil, err
		}
		return strings.Fields(strings.ReplaceAll(string(reply), " ", "_")), nil
	}
	if !odd {
		lines, err := run("input \"$@\" | xargs -0 $HASH 2>/dev/null | trim\n")
		if err != nil || len(lines) == len(names) {
			return trimAll(lines), err
		}
	}
	// One that can't be read, or whose name spoils the output, makes it
	// unclear which line is whose: one at a time then.
	lines, err := run("input \"$@\" | xargs -0 -n1 sh -c \"{ [ -r \\\"\\$1\\\" ] && $HASH <\\\"\\$1\\\"; } || echo -\" sh | trim\n")
	if err == nil && len(lines) != len(names) {
		err = integrityError(fmt.Sprintf("digests: %d lines for %d files", len(lines), len(names)))
	}
	return trimAll(lines), err
}

// trimAll undoes what made a cksum line one word, and turns "-" into "".
func trimAll(lines []string) []string {
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(l, "_", " ")
		if l == "-" {
			lines[i] = ""
		}
	}
	return lines
}

// compareContents finds the files of a push whose contents are what the target
// has, among those that only their contents can tell.
func (c *carrier) compareContents(in planInput) (map[string]bool, error) {
	names := candidates(in)
	if len(names) == 0 {
		return nil, nil
	}
	h, err := c.facts.hasher(0)
	if err != nil {
		return nil, in.needed(err)
	}
	c.phase("compare")
	remote := names
	if in.src.Root.Type == tree.File {
		remote = []string{path.Base(c.mapping.Target)} // facts.dir is its directory
	}
	sums, err := c.remoteDigests(c.ctx, c.session, h, c.facts.dir, remote)
	if err != nil {
		return nil, err
	}
	same := map[string]bool{}
	for i, n := range names {
		if sums[i] == "" {
			continue
		}
		local, err := c.localDigest(h, n)
		same[n] = err == nil && local == sums[i]
	}
	return same, nil
}

// compareContents finds the files whose contents the host already has, among
// those that only their contents can tell.
func (g *puller) compareContents(in planInput) (map[string]bool, error) {
	names := candidates(in)
	if len(names) == 0 {
		return nil, nil
	}
	h, err := g.facts.hasher(0)
	if err != nil {
		return nil, in.needed(err)
	}
	g.phase("compare")
	remote := names
	if in.src.Root.Type == tree.File {
		remote = []string{path.Base(g.facts.path)}
	}
	sums, err := g.remoteDigests(g.ctx, g.session, h, g.dir, remote)
	if err != nil {
		return nil, err
	}
	local, err := confine.OpenSource(g.mapping.Target)
	if err != nil {
		return nil, err
	}
	defer local.Close()
	same := map[string]bool{}
	for i, n := range names {
		if sums[i] == "" {
			continue
		}
		f, _, err := local.Open(n, false)
		if err != nil {
			continue
		}
		sum, err := fileDigest(h, f)
		f.Close()
		same[n] = err == nil && sum == sums[i]
	}
	return same, nil
}

// needed passes on an error of comparing contents if that was asked for; else
// files that are in doubt are sent.
func (in *planInput) needed(err error) error {
	if in.checksum {
		return err
	}
	return nil
}

// candidates are the files whose contents have to be compared: those that both
// sides have in the same size, and if contents need not be compared, only those
// that are in doubt.
func candidates(in planInput) []string {
	if in.policy == Replace && !in.checksum {
		return nil
	}
	wanted := func(src, dst tree.Entry) bool {
		return src.Type == tree.File && dst.Type == tree.File && src.Size == dst.Size && (in.checksum || in.doubtful(src, dst))
	}
	if in.src.Root.Type == tree.File {
		if wanted(in.src.Root, in.dst.Root) {
			return []string{""}
		}
		return nil
	}
	if !in.checksum && !in.wholeSeconds {
		return nil
	}
	there := make(map[string]tree.Entry, len(in.dst.Entries))
	for _, e := range in.dst.Entries {
		there[e.Path] = e
	}
	var names []string
	for _, e := range in.src.Entries {
		if wanted(e, there[e.Path]) {
			names = append(names, e.Path)
		}
	}
	return names
}

func (c *carrier) localDigest(h hasher, name string) (string, error) {
	f, _, err := c.src.Open(name, c.symlinks(c.mapping) == Follow)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return fileDigest(h, f)
}

func fileDigest(h hasher, f io.Reader) (string, error) {
	sum := (&digestList{hasher: h}).start()
	if _, err := io.CopyBuffer(sum, struct{ io.Reader }{f}, make([]byte, 256<<10)); err != nil {
		return "", err
	}
	return strings.TrimSpace(digestLine(sum)), nil
}
