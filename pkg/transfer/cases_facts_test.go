package transfer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// Facts that were measured (docs/cases.md, M) and what has to come of them.

// GNU's sparse members become something else with BusyBox, and are no files of
// ours. A sandbox whose tar makes them by default gives the file or an error.
func TestCase_M2(t *testing.T) {
	for name, options := range map[string]string{"gnu": "-S", "pax": "-S --format=pax", "alias": "--sparse --sparse-version=1.0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := kindOfSandbox{stream: true}
			box := t.TempDir()
			sb := k.machine(t, map[string]string{"tar": `case "$*" in *-c*) exec "$REAL" ` + options + ` "$@" ;; *) exec "$REAL" "$@" ;; esac`})
			o := newOldAndNewIn(t, t.TempDir(), box, transfer.Pull, map[string]string{"a": "new a\n"})
			sparse := filepath.Join(o.source, "sparse")
			must(t, os.WriteFile(sparse, []byte("begin"), 0o644))
			must(t, os.Truncate(sparse, 8<<20))
			_, err := run(t, sb, transfer.Pull, o.source, o.target, k.options())
			if err != nil {
				refused(t, err)
				o.unchanged()
				return
			}
			must(t, os.Remove(filepath.Join(o.target, "mine")))
			must(t, os.RemoveAll(filepath.Join(o.target, "dir")))
			k.compare().same(t, o.source, o.target)
		})
	}
}

// The options of tar in the sandbox's environment don't count.
func TestCase_M2_environment(t *testing.T) {
	t.Setenv("TAR_OPTIONS", "--sparse --format=pax --owner=1000240000 --transform=s/a/b/ --exclude=b")
	t.Setenv("GZIP", "-9 -n")
	t.Setenv("POSIXLY_CORRECT", "1")
	t.Setenv("CDPATH", "/:/tmp")
	for _, k := range kindsOfSandboxes {
		sb, host := k.machine(t, nil), t.TempDir()
		src, box, back := filepath.Join(host, "src"), filepath.Join(t.TempDir(), "box"), filepath.Join(host, "back")
		writeTree(t, src, map[string]string{"a": "a\n", "b": "b\n", "d/a": "a\n"})
		must(t, os.WriteFile(filepath.Join(src, "sparse"), nil, 0o644))
		must(t, os.Truncate(filepath.Join(src, "sparse"), 4<<20))
		mustRun(t, sb, transfer.Push, src, box, k.options())
		compare{wholeSeconds: k.busybox}.same(t, src, box)
		mustRun(t, sb, transfer.Pull, box, back, k.options())
		compare{wholeSeconds: k.busybox}.same(t, src, back)
	}
}

// A directory over a link to one: BusyBox's tar writes through the link, GNU's
// puts a directory in its place. Ours does nothing without --force, and then
// the latter.
func TestCase_M3(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
			sb, host, box := k.machine(t, nil), t.TempDir(), t.TempDir()
			o := newOldAndNewIn(t, host, box, dir, map[string]string{"d/x": "new\n", "d/sub/y": "new\n"})
			writeTree(t, o.target, map[string]string{"real/x": "real\n", "d": "-> real"})
			o.old = describeTree(t, o.target)
			_, err := run(t, sb, dir, o.source, o.target, k.options())
			wantKind(t, err, provider.Refused)
			o.unchanged()
			opt := k.options()
			opt.Force = true
			mustRun(t, sb, dir, o.source, o.target, opt)
			compare{wholeSeconds: k.busybox}.same(t, filepath.Join(o.source, "d"), filepath.Join(o.target, "d"))
			if got := readFile(t, filepath.Join(o.target, "real/x")); got != "real" || exists(filepath.Join(o.target, "real/sub")) {
				t.Errorf("%s: written through the link: %q", dir, got)
			}
		}
	})
}

// A directory over a file, and the reverse: GNU's tar replaces, BusyBox's fails.
// Ours refuses, with one text everywhere, and does it with --force.
func TestCase_M4(t *testing.T) {
	texts := map[string]string{}
	for _, k := range kindsOfSandboxes {
		for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
			for name, files := range map[string]map[string]string{
				"a directory over a file": {"a/x": "new\n", "other": "new\n"},
				"a file over a directory": {"dir": "new\n", "other": "new\n"},
				"a link over a directory": {"dir": "-> other", "other": "new\n"},
			} {
				sb, host, box := k.machine(t, nil), t.TempDir(), t.TempDir()
				o := newOldAndNewIn(t, host, box, dir, files)
				_, err := run(t, sb, dir, o.source, o.target, k.options())
				wantKind(t, err, provider.Refused)
				o.unchanged()
				if text := fmt.Sprint(err); texts[name] == "" {
					texts[name] = text
				} else if text != texts[name] {
					t.Errorf("%s, %s: %q and %q", k.name, name, text, texts[name])
				}
				opt := k.options()
				opt.Force, opt.Policy = true, transfer.Mirror
				mustRun(t, sb, dir, o.source, o.target, opt)
				k.compare().same(t, o.source, o.target)
			}
		}
	}
}

// Times: fractions of a second, before 1970, and those that don't fit into the
// 33 bits of a header.
func TestCase_M5(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		sb, host := k.machine(t, nil), t.TempDir()
		src, box, back := filepath.Join(host, "src"), filepath.Join(t.TempDir(), "box"), filepath.Join(host, "back")
		for _, at := range []time.Time{
			time.Unix(0, 0), time.Unix(0, 1), time.Unix(-1, 0), time.Unix(-2, 500_000_000), time.Unix(-86_400, 0),
			time.Unix(1_700_000_000, 123_456_789), time.Unix(1_700_000_000, 999_999_999), time.Unix(1<<31, 7), time.Unix(1<<33, 0),
		} {
			for _, name := range []string{"file", "dir/"} {
				p := filepath.Join(src, fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond()), name)
				must(t, os.MkdirAll(p[:len(p)-len(filepath.Base(name))], 0o755))
				if name == "file" {
					must(t, os.WriteFile(p, []byte("x"), 0o644))
				} else {
					must(t, os.MkdirAll(p, 0o755))
				}
				must(t, os.Chtimes(p, at, at))
			}
		}
		mustRun(t, sb, transfer.Push, src, box, k.options())
		last := "-1.000000000/dir" // which BusyBox's touch cannot set
		if info, err := os.Stat(filepath.Join(box, last)); err != nil || info.ModTime().Unix() != -1 && !(k.busybox && info.ModTime().Unix() == -2) {
			t.Errorf("the last second before 1970: %v, %v", info.ModTime(), err)
		}
		must(t, os.Chtimes(filepath.Join(box, last), time.Time{}, time.Unix(-1, 0)))
		compare{wholeSeconds: k.busybox}.same(t, src, box)
		mustRun(t, sb, transfer.Pull, box, back, k.options())
		compare{}.same(t, box, back)
		for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
			from := src
			if dir == transfer.Pull {
				from = back
			}
			rep := mustRun(t, sb, transfer.Push, from, box, k.options())
			if rep.Files+rep.Changed != 0 {
				t.Errorf("sent again: %+v", rep)
			}
		}
	})
}

// A source that is missing still makes a valid archive. Here all or a part of it
// goes after it was listed: nothing is deleted for that, and somebody is told.
func TestCase_M6(t *testing.T) {
	for name, gone := range map[string]string{"a file": "a", "a directory": "dir", "all": ""} {
		everywhereNamed(t, name, func(t *testing.T, k kindOfSandbox) {
			host, box := t.TempDir(), t.TempDir()
			o := newOldAndNewIn(t, host, box, transfer.Pull, threeFiles())
			sb := &planting{Sandbox: k.machine(t, nil), plant: func() { must(t, os.RemoveAll(filepath.Join(o.source, gone))) }}
			opt := k.options()
			_, err := run(t, sb, transfer.Pull, o.source, o.target, opt)
			if err == nil {
				t.Error("no error")
			}
			if gone == "" {
				o.unchanged()
			}
			for name := range o.old {
				if !exists(filepath.Join(o.target, name)) {
					t.Errorf("%q was deleted", name)
				}
			}
			noScratch(t, o.dirs...)
		})
	}
}

// One request a file, all at once, brings a server down. There are never more at
// once than it can take.
func TestCase_M8(t *testing.T) {
	for _, most := range []int{1, 2, 3} {
		for _, busybox := range []bool{false, true} {
			k := kindOfSandbox{busybox: busybox}
			sb := k.fake(t, providertest.Options{MaxConcurrent: most, RoundTrip: 2 * time.Millisecond})
			files := map[string]string{}
			for i := range 60 {
				files[fmt.Sprintf("small/%d", i)] = noise(3000 + i)
			}
			files["large"], files["large2"] = noise(3<<20), noise(2<<20)
			opt := k.options()
			opt.ChunkBytes = 256 << 10
			o := newOldAndNew(t, sb, transfer.Push, files)
			mustRun(t, sb, transfer.Push, o.source, o.target, opt)
			mustRun(t, sb, transfer.Pull, o.target, filepath.Join(t.TempDir(), "back"), opt)
			if sb.Peak() > most {
				t.Errorf("%d calls at once, at most %d are allowed", sb.Peak(), most)
			}
		}
	}
}

// os.Root refuses what leads out, and follows what does not. A link of the host
// that stays inside is not written through either.
func TestCase_M9(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		for link, to := range map[string]string{"in": "dir", "a": "dir/b"} {
			sb, host, box := k.machine(t, nil), t.TempDir(), t.TempDir()
			o := newOldAndNewIn(t, host, box, transfer.Pull, map[string]string{"in/b": "new\n", "a": "new\n"})
			os.Remove(filepath.Join(o.target, link))
			must(t, os.Symlink(to, filepath.Join(o.target, link)))
			opt := k.options()
			opt.Force = true
			mustRun(t, sb, transfer.Pull, o.source, o.target, opt)
			if got := readFile(t, filepath.Join(o.target, "dir/b")); got != "old b" {
				t.Errorf("written through %q: %q", link, got)
			}
			if got := readFile(t, filepath.Join(o.target, "in/b")) + readFile(t, filepath.Join(o.target, "a")); got != "newnew" {
				t.Errorf("%q in the place of %q", got, link)
			}
		}
	})
}
