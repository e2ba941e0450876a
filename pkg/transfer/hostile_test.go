package transfer_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/internal/hostile"
	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
	"github.com/sbsync/sbsync/pkg/tree"
)

// yard is a destination with canaries around it.
type yard struct {
	dir, dest, outside string
	before             map[string]described
}

// newYard makes a destination with old content, and things next to it and above
// it that no pull may touch.
func newYard(t *testing.T) *yard {
	t.Helper()
	dir := t.TempDir()
	y := &yard{dir: dir, dest: filepath.Join(dir, "work", "dest"), outside: filepath.Join(dir, "outside")}
	for name, content := range map[string]string{
		"secret": "above\n", "work/secret": "next to it\n", "outside/secret": "outside\n", "work/notes.txt": "another one\n",
		"work/dest/notes.txt": "old notes\n", "work/dest/dir/b.txt": "old b\n", "work/dest/dir/mine": "mine\n",
	} {
		p := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, []byte(content), 0o640))
	}
	must(t, os.Symlink("dir/b.txt", filepath.Join(y.dest, "link")))
	y.before = describeTree(t, dir)
	return y
}

// unchanged fails if anything in the yard is not as it was. Only the times of
// directories may differ: the stage is made in one and removed again.
func (y *yard) unchanged(t *testing.T) {
	t.Helper()
	y.sameBut(t, func(string) bool { return false })
}

// sameBut is unchanged, but for paths below the destination that may differ.
func (y *yard) sameBut(t *testing.T, may func(rel string) bool) {
	t.Helper()
	now := describeTree(t, y.dir)
	for _, p := range slices.Sorted(keysOf(y.before, now)) {
		if rel, ok := strings.CutPrefix(p, "work/dest/"); ok && may(rel) {
			continue
		}
		a, b := y.before[p], now[p]
		if a.kind == 'd' {
			a.time = b.time
		}
		if a != b {
			t.Errorf("%q changed:\n from %+v\n to   %+v", p, a, b)
		}
	}
	noScratch(t, y.dir)
}

// keysOf yields the keys of both maps.
func keysOf(a, b map[string]described) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for p := range a {
			if !yield(p) {
				return
			}
		}
		for p := range b {
			if _, ok := a[p]; !ok && !yield(p) {
				return
			}
		}
	}
}

// pull pulls what a liar offers into the yard.
func (y *yard) pull(t *testing.T, l *liar, change func(*transfer.Options)) error {
	t.Helper()
	route := transfer.Base64
	if l.streams {
		route = transfer.Stream
	}
	opt := options(route)
	opt.Retries = 0
	opt.Observer = hush{}
	if change != nil {
		change(&opt)
	}
	_, err := run(t, l, transfer.Pull, "/box", y.dest, opt)
	return err
}

// refused fails unless the error is a clear refusal: exit code 4 or 6, and text
// that says what.
func refused(t *testing.T, err error, also ...provider.Kind) {
	t.Helper()
	kind := provider.KindOf(err)
	if err == nil || kind != provider.Confined && kind != provider.Integrity && !slices.Contains(also, kind) {
		t.Errorf("kind %q, error: %v", kind, err)
		return
	}
	if text := err.Error(); len(text) < 20 || len(text) > 2000 {
		t.Errorf("the message has %d bytes: %.200s", len(text), text)
	}
}

// policies are what a pull may be told to do with what it gets.
var policies = map[string]func(*transfer.Options){
	"mirror":  func(o *transfer.Options) { o.Policy, o.Force = transfer.Mirror, true },
	"replace": func(o *transfer.Options) { o.Policy = transfer.Replace },
}

// The listing is honest; the archive is not.
func TestHostileArchivesByStream(t *testing.T) {
	for policy, change := range policies {
		for i := range hostile.Archives("") {
			y := newYard(t)
			a := hostile.Archives(y.outside)[i]
			if !a.Plays() || a.Bomb && policy != "mirror" {
				continue
			}
			t.Run(policy+"/"+a.Name, func(t *testing.T) {
				t.Parallel()
				l := &liar{streams: true, listing: hostile.Listing(hostile.Wanted()),
					archive: func(w io.Writer) error { _, err := a.WriteTo(w); return err }}
				refused(t, y.pull(t, l, change))
				// Neither an excuse nor a retry makes a difference.
				l.code, l.complaint = 2, "tar: ./notes.txt: Cannot open: Permission denied"
				refused(t, y.pull(t, l, change))
				y.unchanged(t)
			})
		}
	}
}

// The listing has the same trick as the archive, so that what the archive holds
// was asked for.
func TestHostileListings(t *testing.T) {
	for _, streams := range []bool{true, false} {
		for policy, change := range policies {
			for i := range hostile.Archives("") {
				y := newYard(t)
				a := hostile.Archives(y.outside)[i]
				if a.Listed == nil {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/stream=%v", policy, a.Name, streams), func(t *testing.T) {
					t.Parallel()
					l := &liar{streams: streams, listing: hostile.Listing(a.Listed), contents: contentsOf(a.Listed),
						archive: func(w io.Writer) error {
							if !a.Plays() {
								_, err := w.Write(hostile.Honest())
								return err
							}
							_, err := a.WriteTo(w)
							return err
						}}
					err := y.pull(t, l, change)
					if harmless(a.Name) {
						if err != nil && provider.KindOf(err) != provider.Refused {
							refused(t, err)
						}
						y.sameBut(t, func(string) bool { return true })
						return
					}
					refused(t, err, provider.Refused, provider.TooLarge)
					y.unchanged(t)
				})
			}
		}
	}
}

// harmless are listings that are no trick where names are bytes, or whose
// special files are left out by rule: what they hold may land, inside.
func harmless(name string) bool {
	switch name {
	case "name-sibling", "name-scratch", "type-char", "type-block", "type-fifo", "twice-case":
		return true
	}
	return false
}

// The archive is cut at every block, with and without a proper end of the
// reply.
func TestTruncatedArchives(t *testing.T) {
	honest := hostile.Honest()
	y := newYard(t)
	for n := 0; n < len(honest); n += 512 {
		for _, broken := range []bool{false, true} {
			l := &liar{streams: true, listing: hostile.Listing(hostile.Wanted()), archive: func(w io.Writer) error {
				_, err := w.Write(honest[:n])
				if broken && err == nil {
					err = provider.New(provider.Unreachable, "connection lost", "")
				}
				return err
			}}
			err := y.pull(t, l, nil)
			if !broken {
				refused(t, err)
			} else if k := provider.KindOf(err); k != provider.Unreachable && k != provider.Integrity {
				t.Errorf("cut at %d: %v: %v", n, k, err)
			}
			y.unchanged(t)
			if t.Failed() {
				t.Fatalf("cut at %d of %d, broken: %v", n, len(honest), broken)
			}
		}
	}
	l := &liar{streams: true, listing: hostile.Listing(hostile.Wanted()), archive: func(w io.Writer) error {
		_, err := w.Write(honest)
		return err
	}}
	if err := y.pull(t, l, nil); err != nil {
		t.Errorf("the whole archive is refused: %v", err)
	}
	if got := readFile(t, filepath.Join(y.dest, "notes.txt")); got != "notes in the sandbox" {
		t.Errorf("notes.txt holds %q", got)
	}
}

// Text replies that are not what an honest sandbox sends.
func TestHostileText(t *testing.T) {
	zeros := base64.StdEncoding.EncodeToString(gzipOf(make([]byte, 50<<20)))
	tricks := map[string]func(text string) string{
		"cut":          func(s string) string { return s[:len(s)/2] },
		"empty":        func(string) string { return "" },
		"twice":        func(s string) string { return s + s },
		"not base64":   func(s string) string { return strings.Replace(s, "plain\n", "plain\n*", 1) },
		"other form":   func(s string) string { return strings.Replace(s, "plain\n", "../../x\n", 1) },
		"more content": func(s string) string { return strings.Replace(s, "plain\n", "plain\nAAAA", 1) },
		"less content": func(s string) string { return "plain\n" + s[len("plain\nAAAA"):] },
		"not gzip":     func(s string) string { return strings.Replace(s, "plain\n", "gzip\n", 1) },
		"gzip bomb":    func(s string) string { _, rest, _ := strings.Cut(s, "\n-\n"); return "gzip\n" + zeros + "\n-\n" + rest },
		"no digests":   func(s string) string { head, _, _ := strings.Cut(s, "\n-\n"); return head + "\n-\n" },
		"other digests": func(s string) string {
			head, _, _ := strings.Cut(s, "\n-\n")
			return head + "\n-\n" + strings.Repeat("0", 64) + "\n"
		},
		"endless digests": func(s string) string { return s + strings.Repeat(strings.Repeat("f", 64)+"\n", 1<<16) },
		"escapes":         func(string) string { return "\x1b]0;title\a\x1b[2J" },
	}
	for name, trick := range tricks {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			l := &liar{listing: hostile.Listing(hostile.Wanted()), contents: contentsOf(hostile.Wanted())}
			l.reply = func(label, text string) string {
				if label == "inspect" {
					return text
				}
				return trick(text)
			}
			err := y.pull(t, l, nil)
			refused(t, err)
			y.unchanged(t)
		})
	}
}

func gzipOf(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b) // into memory: cannot fail
	z.Close()
	return out.Bytes()
}

// hush watches a run and says nothing: hostile runs have much to say.
type hush struct{ phase func(name string) }

func (hush) Routed(transfer.Mapping, transfer.Route, string)               {}
func (hush) Planned(transfer.Mapping, []transfer.PlannedEntry, int, int64) {}
func (hush) Progress(int, int64)                                           {}
func (h hush) Phase(name string) {
	if h.phase != nil {
		h.phase(name)
	}
}
func (hush) Warn(tree.Problem) {}
func (hush) Log(string)        {}
