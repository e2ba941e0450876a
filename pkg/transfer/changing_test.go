//go:build unix

package transfer_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
	"github.com/sbsync/sbsync/pkg/tree"
)

// moves are what happens to a file between the moment it was listed and the
// moment it is read.
var moves = map[string]struct {
	move func(t testing.TB, p string)
	// good are contents with which the file may be published; nil means that it
	// may not be there at all.
	good func(old string) []string
	// fine says that a run which found a whole file need not complain.
	fine bool
}{
	"grew":      {func(t testing.TB, p string) { appendTo(t, p, "more") }, func(old string) []string { return []string{old, old + "more"} }, true},
	"shrank":    {func(t testing.TB, p string) { must(t, os.Truncate(p, 3)) }, func(old string) []string { return []string{old[:3]} }, true},
	"rewritten": {func(t testing.TB, p string) { must(t, os.WriteFile(p, []byte("other"), 0o644)) }, func(string) []string { return []string{"other"} }, true},
	"vanished":  {func(t testing.TB, p string) { must(t, os.Remove(p)) }, nil, false},
	"a directory now": {func(t testing.TB, p string) {
		must(t, os.Remove(p))
		must(t, os.Mkdir(p, 0o755))
	}, nil, false},
	"a link now": {func(t testing.TB, p string) {
		must(t, os.Remove(p))
		must(t, os.Symlink("/etc/passwd", p))
	}, nil, false},
	"unreadable": {func(t testing.TB, p string) { must(t, os.Chmod(p, 0)) }, nil, false},
}

func appendTo(t testing.TB, p, text string) {
	t.Helper()
	f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(text)
	must(t, err)
	must(t, f.Close())
}

// Files that do not hold still between the listing and the reading: everything
// else lands, what lands is whole, and the outcome says so.
func TestFilesThatMoveBeforeTheyAreRead(t *testing.T) {
	for name, m := range moves {
		for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
			if name == "unreadable" && dir == transfer.Push && os.Geteuid() == 0 {
				continue
			}
			everywhereNamed(t, name+", "+string(dir), func(t *testing.T, k kindOfSandbox) {
				w := newWay(t, k, dir, providertest.Options{OtherUser: true})
				old := strings.Repeat("content ", 1000)
				writeTree(t, w.source, map[string]string{"a": "a\n", "d/moving": old, "d/z": "z\n"})
				writeTree(t, w.target, map[string]string{"d/moving": "before\n", "d/z": "before\n"})
				own(t, w.f, w.source, w.target)
				moving := filepath.Join(w.source, "d/moving")
				var once sync.Once
				problems := 0
				w.opt.Observer = &watcher{t: t, warn: func(tree.Problem) { problems++ }, phase: func(phase string) {
					if phase == "send" {
						once.Do(func() { m.move(t, moving) })
					}
				}}
				rep, err := w.run()
				if provider.KindOf(err) == provider.Integrity && dir == transfer.Pull && k.stream {
					// What came is not what was listed. Another attempt, which
					// lists anew, would find that it is.
					wantNames(t, w.target, "d/ d/moving d/z")
					w.clean()
					return
				}
				if (err != nil || !m.fine) && provider.KindOf(err) != provider.Partial {
					t.Fatalf("got %v of kind %s", err, provider.KindOf(err))
				}
				if err != nil && (problems != 1 || len(rep.Problems) != 1 || rep.Problems[0].Path != "d/moving") {
					t.Errorf("%d problems were told, the report has %v", problems, rep.Problems)
				}
				if readFile(t, filepath.Join(w.target, "a")) != "a" || readFile(t, filepath.Join(w.target, "d/z")) != "z" {
					t.Error("not everything else has landed")
				}
				b, rerr := os.ReadFile(filepath.Join(w.target, "d/moving"))
				must(t, rerr)
				good := []string{"before\n"}
				if m.good != nil {
					good = append(good, m.good(old)...)
				}
				found := false
				for _, g := range good {
					found = found || g == string(b)
				}
				if !found || err == nil && string(b) == "before\n" {
					t.Errorf("the file holds %d bytes: %.60q", len(b), b)
				}
				sent := 2
				if string(b) != "before\n" {
					sent = 3
				}
				if rep.Files != sent || rep.Bytes != 4+int64(len(b))*int64(sent-2) {
					t.Errorf("%d files and %d bytes are reported, %d were sent", rep.Files, rep.Bytes, sent)
				}
				w.clean()
				if name == "a directory now" || name == "a link now" {
					return // a conflict, or a change, and neither is our matter
				}
				// It holds still now: another run puts it right.
				os.Chmod(moving, 0o644)
				w.opt.Observer = nil
				if name != "vanished" {
					w.mustRun()
					if readFile(t, filepath.Join(w.target, "d/moving")) != readFile(t, moving) {
						t.Error("the next run did not see that it differs")
					}
				}
			})
		}
	}
}

// A new file in a new directory that fails must not be published with it.
func TestFailedFileInANewDirectory(t *testing.T) {
	bothWays(t, func(t *testing.T, w way) {
		writeTree(t, w.source, map[string]string{"d/moving": noise(200 << 10), "d/z": "z\n", "hard/": ""})
		must(t, os.Link(w.source+"/d/moving", w.source+"/hard/link"))
		var once sync.Once
		w.opt.Observer = &watcher{t: t, phase: func(phase string) {
			if phase == "send" {
				once.Do(func() { must(t, os.Remove(w.source+"/d/moving")); must(t, os.Remove(w.source+"/hard/link")) })
			}
		}}
		rep, err := w.run()
		wantKind(t, err, provider.Partial)
		wantNames(t, w.target, "d/ d/z hard/")
		if rep.Files != 1 || rep.Bytes != 2 {
			t.Errorf("files %d, bytes %d", rep.Files, rep.Bytes)
		}
		w.clean()
	})
}

// With --replace the old tree is worth more than half of a new one.
func TestReplaceKeepsTheOldTreeIfAFileMoves(t *testing.T) {
	for _, name := range []string{"vanished", "rewritten while read"} {
		for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
			everywhereNamed(t, name+", "+string(dir), func(t *testing.T, k kindOfSandbox) {
				w := newWay(t, k, dir, providertest.Options{})
				writeTree(t, w.source, map[string]string{"a": "new a\n", "moving": noise(5 << 20), "z": "z\n"})
				writeTree(t, w.target, map[string]string{"a": "old a\n", "mine": "mine\n"})
				before := describeTree(t, w.target)
				moving := filepath.Join(w.source, "moving")
				w.opt.Policy, w.opt.ChunkBytes = transfer.Replace, 256<<10
				var once sync.Once
				w.opt.Observer = &watcher{t: t, phase: func(phase string) {
					if phase == "send" && name == "vanished" {
						once.Do(func() { must(t, os.Remove(moving)) })
					}
				}, progress: func(_ int, n int64) {
					if n > 1000 && name != "vanished" {
						once.Do(func() {
							must(t, os.WriteFile(moving, []byte(strings.Repeat("new content ", 400_000)), 0o644))
							later := time.Now().Add(time.Hour)
							must(t, os.Chtimes(moving, later, later))
						})
					}
				}}
				_, err := w.run()
				if err == nil && dir == transfer.Pull && k.stream {
					// The sandbox's tar may have been done with the file before
					// its first byte arrived here.
					if b := readFile(t, filepath.Join(w.target, "moving")); b != noise(5<<20) {
						t.Error("a torn file was published as good")
					}
					return
				}
				if !k.busybox || !k.stream || dir == transfer.Push {
					wantKind(t, err, provider.Partial)
				} else { // BusyBox's tar breaks off when a file becomes shorter
					wantKind(t, err, provider.Partial, provider.Integrity)
				}
				after := describeTree(t, w.target)
				delete(after, "")
				delete(before, "")
				if len(after) != len(before) || after["a"] != before["a"] || after["mine"] != before["mine"] {
					t.Errorf("the old tree was changed: %v", after)
				}
				w.clean()
			})
		}
	}
}

// B46: a file that is written to while it is read. Exactly what was promised is
// sent, and it is reported; nothing is torn unnoticed.
func TestFileChangesWhileItIsRead(t *testing.T) {
	for _, how := range []string{"grows", "shrinks", "is rewritten in place"} {
		for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
			everywhereNamed(t, how+", "+string(dir), func(t *testing.T, k kindOfSandbox) {
				w := newWay(t, k, dir, providertest.Options{})
				old := noise(6 << 20)
				writeTree(t, w.source, map[string]string{"moving": old, "other": "o\n"})
				writeTree(t, w.target, map[string]string{"moving": "before\n"})
				moving := filepath.Join(w.source, "moving")
				w.opt.ChunkBytes = 512 << 10
				var once sync.Once
				w.opt.Observer = &watcher{t: t, progress: func(_ int, n int64) {
					if n < 1000 {
						return
					}
					once.Do(func() {
						switch how {
						case "grows":
							appendTo(t, moving, strings.Repeat("more", 1000))
						case "shrinks":
							must(t, os.Truncate(moving, 1<<20))
						default:
							f, err := os.OpenFile(moving, os.O_WRONLY, 0)
							must(t, err)
							_, err = f.WriteAt([]byte(strings.Repeat("X", len(old))), 0)
							must(t, err)
							must(t, f.Close())
							later := time.Now().Add(time.Hour)
							must(t, os.Chtimes(moving, later, later))
						}
					})
				}}
				rep, err := w.run()
				b, rerr := os.ReadFile(filepath.Join(w.target, "moving"))
				must(t, rerr)
				if err == nil {
					if string(b) != old {
						t.Errorf("a torn file of %d bytes was published as good", len(b))
					}
					return
				}
				if provider.KindOf(err) == provider.Integrity && dir == transfer.Pull && k.stream && k.busybox {
					return // its tar breaks off when a file becomes shorter; another attempt lists anew
				}
				wantKind(t, err, provider.Partial)
				if len(rep.Problems) != 1 || rep.Problems[0].Path != "moving" {
					t.Errorf("problems: %v", rep.Problems)
				}
				switch got := string(b); {
				case got == "before\n" && how != "is rewritten in place":
				case how == "grows" && got != old:
					t.Errorf("%d bytes were published, not the %d that were promised", len(got), len(old))
				case how == "shrinks":
					t.Errorf("%d bytes were published of a file that shrank", len(got))
				}
				if readFile(t, filepath.Join(w.target, "other")) != "o" {
					t.Error("the other file did not land")
				}
				w.clean()
				w.opt.Observer = nil
				w.mustRun()
				if readFile(t, filepath.Join(w.target, "moving")) != readFile(t, moving) {
					t.Error("the next run did not see that it differs")
				}
			})
		}
	}
}

// What comes to the top of the source after the target was asked about it.
func TestEntryThatComesWhileTheTargetIsListed(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		w := newWay(t, k, transfer.Push, providertest.Options{})
		writeTree(t, w.source, map[string]string{"a": "a\n"})
		writeTree(t, w.target, map[string]string{"late/old": "old\n"})
		w.opt.Observer = &watcher{t: t, phase: func(phase string) {
			if phase == "scan" {
				writeTree(t, w.source, map[string]string{"late/new": "new\n"})
			}
		}}
		w.mustRun()
		wantNames(t, w.target, "a late/ late/new late/old")
	})
}
