package transfer_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// forgedEntry is what a sandbox claims to have: a file, a directory (the name
// ends in a slash) or a link (the content begins with "-> ").
type forgedEntry struct{ name, content string }

func (e forgedEntry) header() *tar.Header {
	h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.content)), ModTime: time.Unix(1_700_000_000, 0), Format: tar.FormatGNU}
	if text, isLink := strings.CutPrefix(e.content, "-> "); isLink {
		h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, text, 0
	} else if strings.HasSuffix(e.name, "/") {
		h.Typeflag = tar.TypeDir
	}
	return h
}

// forgedArchive is what a hostile tar prints.
func forgedArchive(t testing.TB, entries []forgedEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.header()
		must(t, w.WriteHeader(h))
		if h.Size > 0 {
			_, err := io.WriteString(w, e.content)
			must(t, err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

// forgedListing is what a hostile find prints.
func forgedListing(entries []forgedEntry) []byte {
	var b bytes.Buffer
	b.WriteString("d 755 4096 1700000000.0 1 1 2 .\x00\x00")
	for i, e := range entries {
		kind, h := "f", e.header()
		switch h.Typeflag {
		case tar.TypeDir:
			kind = "d"
		case tar.TypeSymlink:
			kind = "l"
		}
		fmt.Fprintf(&b, "%s 644 %d 1700000000.0 1 %d 1 ./%s\x00%s\x00", kind, h.Size, i+2, strings.TrimSuffix(e.name, "/"), h.Linkname)
	}
	return b.Bytes()
}

// forger is a machine whose find lists, and whose tar sends, what it is told.
// Nil means that the tool is honest.
func (k kindOfSandbox) forger(t testing.TB, listing, archive []forgedEntry) provider.Sandbox {
	t.Helper()
	dir := t.TempDir()
	tools := map[string]string{}
	give := func(name string, content []byte) string {
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
		return "cat " + filepath.Join(dir, name)
	}
	if listing != nil {
		tools["find"] = `case "$*" in *%p*) ` + give("listing", forgedListing(listing)) + ` ;; *-printf*) ;; *) exec "$REAL" "$@" ;; esac`
	}
	if archive != nil {
		forged := give("archive", forgedArchive(t, archive))
		tools["tar"] = `case "$*" in *-c*) cat >/dev/null; ` + forged + ` ;; *) exec "$REAL" "$@" ;; esac`
		// BusyBox's xargs has its own tar.
		tools["xargs"] = `case "$*" in *"tar -c"*) cat >/dev/null; ` + forged + ` ;; *) exec "$REAL" "$@" ;; esac`
	}
	return k.machine(t, tools)
}

// refuseForged pulls a forged tree in every kind of sandbox, with the policy that
// may change most: as an archive that does not hold what was listed, and as a
// listing. Nothing may change.
func refuseForged(t *testing.T, entries func(outside string) []forgedEntry) {
	t.Helper()
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		y, box := newYard(t), t.TempDir()
		list := entries(y.outside)
		benign := []forgedEntry{{"notes.txt", "new notes\n"}, {"zz", "last\n"}}
		writeTree(t, box, map[string]string{"notes.txt": "new notes\n", "zz": "last\n"})
		sandboxes := map[string]provider.Sandbox{"listing": k.forger(t, append(list, benign...), nil)}
		if k.stream {
			sandboxes["archive, first"] = k.forger(t, benign, append(list, benign...))
			sandboxes["archive, last"] = k.forger(t, benign, append(benign, list...))
			sandboxes["both"] = k.forger(t, append(list, benign...), append(list, benign...))
		}
		for name, sb := range sandboxes {
			opt := k.options()
			opt.Observer = hush{}
			policies["mirror"](&opt)
			_, err := run(t, sb, transfer.Pull, box, y.dest, opt)
			refused(t, err)
			if y.unchanged(t); t.Failed() {
				t.Fatalf("forged in the %s", name)
			}
		}
	})
}

// https://nvd.nist.gov/vuln/detail/CVE-2018-1002100
// (https://github.com/kubernetes/kubernetes/issues/61297): names that lead out.
func TestCase_B13(t *testing.T) {
	for _, name := range []string{"../../x", "a/../../x", "/abs/x", "..", "../dest/x", "a/../x"} {
		t.Run(name, func(t *testing.T) {
			refuseForged(t, func(string) []forgedEntry { return []forgedEntry{{name, "x\n"}} })
		})
	}
	t.Run("absolute, to what is there", func(t *testing.T) {
		refuseForged(t, func(outside string) []forgedEntry { return []forgedEntry{{outside + "/secret", "x\n"}} })
	})
}

// https://nvd.nist.gov/vuln/detail/CVE-2019-1002101
// (https://github.com/kubernetes/kubernetes/issues/75037): a link to the
// outside, then a file through it.
func TestCase_B14(t *testing.T) {
	for name, tree := range map[string]func(outside string) []forgedEntry{
		"absolute": func(outside string) []forgedEntry { return []forgedEntry{{"d", "-> " + outside}, {"d/secret", "x\n"}} },
		"relative": func(string) []forgedEntry { return []forgedEntry{{"d", "-> ../../outside"}, {"d/secret", "x\n"}} },
		"a directory first": func(outside string) []forgedEntry {
			return []forgedEntry{{"d/", ""}, {"d", "-> " + outside}, {"d/secret", "x\n"}}
		},
		"the file itself": func(outside string) []forgedEntry {
			return []forgedEntry{{"d", "-> " + outside + "/secret"}, {"d", "x\n"}}
		},
		"over what is there": func(outside string) []forgedEntry {
			return []forgedEntry{{"dir", "-> " + outside}, {"dir/secret", "x\n"}}
		},
	} {
		t.Run(name, func(t *testing.T) { refuseForged(t, tree) })
	}
}

// https://nvd.nist.gov/vuln/detail/CVE-2019-11246
// (https://github.com/kubernetes/kubernetes/issues/76788): names are split in
// two different ways.
func TestCase_B15(t *testing.T) {
	for link, file := range map[string]string{"d/": "d/../d/secret", "d": "d//secret", "./d": "d/secret", "d//": "d/secret", "d/.": "d/./secret"} {
		t.Run(link+" "+file, func(t *testing.T) {
			refuseForged(t, func(outside string) []forgedEntry {
				return []forgedEntry{{link, "-> " + outside}, {file, "x\n"}}
			})
		})
	}
}

// https://nvd.nist.gov/vuln/detail/CVE-2019-11251
// (https://github.com/kubernetes/kubernetes/issues/87773): links that are
// harmless one by one.
func TestCase_B17(t *testing.T) {
	for name, tree := range map[string][]forgedEntry{
		"as reported":        {{"a", "-> ."}, {"a/b", "-> .."}, {"a/b/x", "x\n"}},
		"through a file":     {{"a", "-> dir/.."}, {"b", "-> a/../outside"}, {"b/secret", "x\n"}},
		"three":              {{"a", "-> ."}, {"b", "-> a/a/.."}, {"c", "-> b/../outside"}, {"c/secret", "x\n"}},
		"inside a directory": {{"s/", ""}, {"s/a", "-> .."}, {"s/b", "-> a/.."}, {"s/b/x", "x\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			refuseForged(t, func(string) []forgedEntry { return tree })
		})
	}
}

// Neighbours of B17 from a sandbox that lies in nothing: its links really are
// there, and lead out together, or together with one that the host has.
func TestCase_B17_honest(t *testing.T) {
	for name, links := range map[string]map[string]string{
		"two":                   {"a": "-> .", "b": "-> a/.."},
		"and back again":        {"a": "-> ../dest/notes.txt"},
		"from a directory":      {"s/a": "-> ..", "s/b": "-> a/../outside"},
		"a chain":               {"a": "-> b", "b": "-> c", "c": "-> s/..", "s/": "", "d": "-> c/../x"},
		"through one of theirs": {"new": "-> mine/../../outside"},
	} {
		everywhereNamed(t, name, func(t *testing.T, k kindOfSandbox) {
			y, box := newYard(t), t.TempDir()
			must(t, os.Symlink("dir", filepath.Join(y.dest, "mine")))
			y.before = describeTree(t, y.dir)
			writeTree(t, box, map[string]string{"notes.txt": "new\n"})
			writeTree(t, box, links)
			opt := k.options()
			_, err := run(t, k.machine(t, nil), transfer.Pull, box, y.dest, opt)
			wantKind(t, err, provider.Confined)
			y.unchanged(t)
		})
	}
}

// https://github.com/trailofbits/audit-kubernetes/issues/41: one file was asked
// for, and more comes.
func TestCase_B18(t *testing.T) {
	log := forgedEntry{"./log.txt", "log\n"}
	for name, archive := range map[string][]forgedEntry{
		"after":           {log, {"./.bashrc", "evil\n"}},
		"before":          {{"./.bashrc", "evil\n"}, log},
		"twice":           {log, log},
		"other case":      {log, {"./LOG.TXT", "evil\n"}},
		"its directory":   {{"./", ""}, log},
		"a link":          {{"./log.txt", "-> ../outside/secret"}},
		"a directory":     {{"./log.txt/", ""}, {"./log.txt/x", "evil\n"}},
		"another":         {{"./.bashrc", "log\n"}},
		"below it":        {log, {"./log.txt/x", "evil\n"}},
		"absolute":        {{"/log.txt", "log\n"}},
		"the same, above": {{"../log.txt", "log\n"}},
	} {
		for _, busybox := range []bool{false, true} {
			k := kindOfSandbox{stream: true, busybox: busybox}
			t.Run(fmt.Sprintf("%s, BusyBox %v", name, busybox), func(t *testing.T) {
				t.Parallel()
				y, box := newYard(t), t.TempDir()
				writeTree(t, box, map[string]string{"log.txt": "log\n"})
				_, err := run(t, k.forger(t, nil, archive), transfer.Pull, path.Join(box, "log.txt"), filepath.Join(y.dest, "log.txt"), k.options())
				refused(t, err)
				y.unchanged(t)
			})
		}
	}
}

// On the base64 route there are no names to lie about, but lengths.
func TestCase_B18_base64(t *testing.T) {
	for name, lie := range map[string]string{
		"more":    `"$REAL" "$@"; case "$*" in *log.txt*) echo evil ;; esac`,
		"less":    `case "$*" in *log.txt*) printf l ;; *) exec "$REAL" "$@" ;; esac`,
		"nothing": `case "$*" in *log.txt*) ;; *) exec "$REAL" "$@" ;; esac`,
	} {
		for _, busybox := range []bool{false, true} {
			k := kindOfSandbox{busybox: busybox}
			t.Run(fmt.Sprintf("%s, BusyBox %v", name, busybox), func(t *testing.T) {
				t.Parallel()
				y, box := newYard(t), t.TempDir()
				writeTree(t, box, map[string]string{"log.txt": "log\n"})
				sb := k.machine(t, map[string]string{"cat": lie, "head": lie})
				_, err := run(t, sb, transfer.Pull, path.Join(box, "log.txt"), filepath.Join(y.dest, "log.txt"), k.options())
				refused(t, err, provider.Partial)
				y.unchanged(t)
			})
		}
	}
}

// Links that are on the host before the pull, or come up during it, lead no
// write outside, whatever the policy says about what becomes of them.
func TestCase_B14_hostLinks(t *testing.T) {
	policies := map[string]func(*transfer.Options){
		"update": func(*transfer.Options) {}, "force": func(o *transfer.Options) { o.Force = true },
		"mirror": policies["mirror"], "replace": policies["replace"],
	}
	for policy, change := range policies {
		everywhereNamed(t, policy, func(t *testing.T, k kindOfSandbox) {
			for _, during := range []bool{false, true} {
				y, box := newYard(t), t.TempDir()
				writeTree(t, box, map[string]string{"dir/secret": "evil\n", "dir/b.txt": "evil\n", "secret": "evil\n", "notes.txt": "new\n"})
				plant := func() {
					os.RemoveAll(filepath.Join(y.dest, "dir"))
					os.Symlink(y.outside, filepath.Join(y.dest, "dir"))
					os.Symlink(filepath.Join(y.outside, "secret"), filepath.Join(y.dest, "secret"))
				}
				sb := &planting{Sandbox: k.machine(t, nil), plant: plant}
				if !during {
					plant()
					sb.plant = func() {}
				}
				opt := k.options()
				change(&opt)
				_, err := run(t, sb, transfer.Pull, box, y.dest, opt)
				if err == nil && policy == "update" {
					t.Error("a directory took the place of a link without --force")
				}
				y.sameBut(t, func(string) bool { return true })
			}
		})
	}
}

// planting does something on the host while a pull is under way: when the
// sandbox is asked for content.
type planting struct {
	provider.Sandbox
	plant   func()
	planted atomic.Bool
}

func (p *planting) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	p.now(cmd.Label)
	return p.Sandbox.Exec(ctx, cmd)
}

func (p *planting) Stream(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	p.now(cmd.Label)
	st, ok := provider.StreamerOf(p.Sandbox)
	if !ok {
		return provider.Result{}, errors.New("no stream")
	}
	return st.Stream(ctx, cmd)
}

func (p *planting) now(label string) {
	if label != "inspect" && p.planted.CompareAndSwap(false, true) {
		p.plant()
	}
}

// https://github.com/podman-container-tools/podman/issues/3211 (CVE-2019-10152):
// a path of the sandbox is resolved on the host. Here all paths of the sandbox
// lie, on the host, in a directory with a trap in it.
func TestCase_B21(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		host, box := t.TempDir(), t.TempDir()
		src, seen := filepath.Join(host, "src"), filepath.Join(host, "seen") // as the sandbox calls its root
		writeTree(t, src, map[string]string{"a": "new\n", "d/b": "new\n"})
		writeTree(t, box, map[string]string{"real/old": "old\n", "test": "-> real", "file": "-> real/old"})
		writeTree(t, seen, map[string]string{"trap/a": "the host's\n", "test": "-> trap", "file": "-> trap/a", "real/": ""})
		before := describeTree(t, seen)
		sb := &elsewhere{Sandbox: k.machine(t, nil), seen: seen, real: box}

		mustRun(t, sb, transfer.Push, src, path.Join(seen, "test"), k.options())
		k.compare().same(t, filepath.Join(src, "d"), filepath.Join(box, "real", "d"))
		mustRun(t, sb, transfer.Push, filepath.Join(src, "a"), path.Join(seen, "test/c"), k.options())
		mustRun(t, sb, transfer.Pull, path.Join(seen, "file"), filepath.Join(host, "out"), k.options())
		if got := readFile(t, filepath.Join(host, "out")); got != "old" {
			t.Errorf("pulled %q", got)
		}
		if got := readFile(t, filepath.Join(box, "real/c")); got != "new" {
			t.Errorf("pushed %q", got)
		}
		after := describeTree(t, seen)
		for p := range after {
			if after[p] != before[p] {
				t.Errorf("the host's %q was changed", p)
			}
		}
		if len(after) != len(before) {
			t.Errorf("the host has %d entries, had %d", len(after), len(before))
		}
	})
}

// elsewhere is a sandbox that calls its directories otherwise than the host.
type elsewhere struct {
	provider.Sandbox
	seen, real string
}

func (e *elsewhere) translate(cmd provider.Command) provider.Command {
	args := make([]string, len(cmd.Args))
	for i, a := range cmd.Args {
		args[i] = strings.ReplaceAll(a, e.seen, e.real)
	}
	cmd.Args = args
	return cmd
}

func (e *elsewhere) Exec(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	return e.Sandbox.Exec(ctx, e.translate(cmd))
}

func (e *elsewhere) Stream(ctx context.Context, cmd provider.Command) (provider.Result, error) {
	st, ok := provider.StreamerOf(e.Sandbox)
	if !ok {
		return provider.Result{}, errors.New("no stream")
	}
	return st.Stream(ctx, e.translate(cmd))
}
