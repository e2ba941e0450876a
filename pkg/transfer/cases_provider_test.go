//go:build unix

package transfer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/provider/providertest"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// https://github.com/opensandbox-group/OpenSandbox/issues/1016,
// https://github.com/docker/desktop-feedback/issues/489 and
// https://github.com/docker/sbx-releases/issues/349: the sandbox says that all
// is stored, and it is not.
func TestCase_B08(t *testing.T) {
	for name, lie := range map[string]string{
		"nothing is stored":            ``,
		"a file is missing":            `"$REAL" "$@"; rm -f t/dir/b`,
		"a file is empty":              `"$REAL" "$@"; [ ! -f t/dir/b ] || : >t/dir/b`,
		"a file is cut":                `"$REAL" "$@"; [ ! -f t/dir/b ] || dd if=/dev/null of=t/dir/b bs=18432 seek=1 2>/dev/null`,
		"a file is longer":             `"$REAL" "$@"; [ ! -f t/dir/b ] || echo more >>t/dir/b`,
		"one file is there for two":    `"$REAL" "$@"; [ ! -f t/dir/c ] || { rm t/dir/c; ln t/a t/dir/c; }`,
		"there is one more":            `"$REAL" "$@"; [ ! -d t ] || : >t/.bashrc`,
		"the directory is missing":     `"$REAL" "$@"; rm -rf t/dir`,
		"the archive is kept as it is": `cat >t`,
	} {
		tools := map[string]string{"tar": `case "$*" in *x*) ;; *) exec "$REAL" "$@" ;; esac` + "\n" + lie + "\nexit 0\n"}
		everywhereNamed(t, name, func(t *testing.T, k kindOfSandbox) {
			for _, verify := range []bool{false, true} {
				sb, host, box := k.machine(t, tools), t.TempDir(), t.TempDir()
				o := newOldAndNewIn(t, host, box, transfer.Push, threeFiles())
				opt := k.options()
				opt.Verify = verify
				_, err := run(t, sb, transfer.Push, o.source, o.target, opt)
				wantKind(t, err, provider.Integrity)
				o.unchanged()
			}
		})
	}
}

// Neighbours of B08: the sizes are right and the bytes are not, which only
// digests can tell. On the base64 route they are always compared.
func TestCase_B08_content(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		tools := map[string]string{
			"tar": `"$REAL" "$@" || exit; case "$*" in *x*) [ ! -f t/dir/b ] || printf X | dd of=t/dir/b bs=1 seek=5000 conv=notrunc 2>/dev/null ;; esac`,
		}
		sb, host, box := k.machine(t, tools), t.TempDir(), t.TempDir()
		o := newOldAndNewIn(t, host, box, transfer.Push, threeFiles())
		opt := k.options()
		opt.Verify = true
		_, err := run(t, sb, transfer.Push, o.source, o.target, opt)
		wantKind(t, err, provider.Integrity)
		o.unchanged()
		opt.Verify = false
		if _, err := run(t, sb, transfer.Push, o.source, o.target, opt); err == nil && !k.stream {
			t.Error("no error")
		}
	})
}

// A large file goes in pieces on the base64 route: none may get lost.
func TestCase_B08_pieces(t *testing.T) {
	for name, lie := range map[string]string{
		"lost":      `case "$*" in *seek=16*) cat >/dev/null; exit 0 ;; esac; exec "$REAL" "$@"`,
		"cut":       `case "$*" in *seek=16*) head -c 1000 | "$REAL" "$@"; cat >/dev/null; exit 0 ;; esac; exec "$REAL" "$@"`,
		"elsewhere": `case "$*" in *seek=16*) n=; for w; do case $w in seek=*) n="$n seek=32" ;; *) n="$n $w" ;; esac; done; exec "$REAL" $n ;; esac; exec "$REAL" "$@"`,
	} {
		for _, busybox := range []bool{false, true} {
			k := kindOfSandbox{busybox: busybox}
			sb, host, box := k.machine(t, map[string]string{"dd": lie}), t.TempDir(), t.TempDir()
			o := newOldAndNewIn(t, host, box, transfer.Push, map[string]string{"a": noise(5 << 20)})
			opt := k.options()
			opt.ChunkBytes = 1 << 20
			_, err := run(t, sb, transfer.Push, o.source, o.target, opt)
			if wantKind(t, err, provider.Integrity); t.Failed() {
				t.Fatalf("%s, BusyBox %v", name, busybox)
			}
			o.unchanged()
		}
	}
}

// https://github.com/agentscope-ai/agentscope-java/issues/2923: output is cut at
// 512 KiB, which nobody says.
func TestCase_B10(t *testing.T) {
	const limit = 512 << 10
	for _, size := range []int{limit - 1, limit, limit + 1, 600 << 10, 2 << 20} {
		for _, busybox := range []bool{false, true} {
			k := kindOfSandbox{busybox: busybox}
			sb := k.fake(t, providertest.Options{CutStdout: limit})
			files := map[string]string{"dir/large": noise(size), "other": noise(size / 2), "third": noise(size / 3)}
			o := newOldAndNew(t, sb, transfer.Pull, files)
			opt := k.options()
			opt.Retries = 3
			mustRun(t, sb, transfer.Pull, o.source, o.target, opt)
			for name, want := range files {
				if got := readFile(t, filepath.Join(o.target, name)); got != strings.TrimSpace(want) {
					t.Errorf("%d bytes, BusyBox %v: %q differs", size, busybox, name)
				}
			}
			noScratch(t, o.dirs...)
			if sb.Fired("cut_stdout") == 0 && size > limit {
				t.Error("nothing was cut")
			}
		}
	}
}

// Neighbours of B10: the list of what is there is longer than what a command
// can print, and so are the digests of many small files.
func TestCase_B10_manyFiles(t *testing.T) {
	for _, busybox := range []bool{false, true} {
		k := kindOfSandbox{busybox: busybox}
		sb := k.fake(t, providertest.Options{CutStdout: 128 << 10})
		src, dst := filepath.Join(sb.Root(), "src"), filepath.Join(t.TempDir(), "dst")
		files := map[string]string{}
		for i := range 1200 {
			name := noise(200 + i)[i : i+100] // that the listing cannot be compressed much
			files[fmt.Sprintf("%d/%x", i%7, name)] = fmt.Sprint(i)
		}
		writeTree(t, src, files)
		opt := k.options()
		opt.Retries = 3
		mustRun(t, sb, transfer.Pull, src, dst, opt)
		k.compare().same(t, src, dst)
		if sb.Fired("cut_stdout") == 0 {
			t.Error("nothing was cut")
		}
	}
}

// https://github.com/okteto/okteto/issues/1126 and
// https://github.com/okteto/okteto/issues/1053: a full disk is an error without
// a name.
func TestCase_B12(t *testing.T) {
	everywhere(t, func(t *testing.T, k kindOfSandbox) {
		sb, real := k.smallDisk(t, 1<<20)
		src, box := filepath.Join(t.TempDir(), "src"), filepath.Join(sb.Root(), "box")
		writeTree(t, src, map[string]string{"a": "new a\n", "large": noise(5 << 20)})
		writeTree(t, box, map[string]string{"a": "old\n", "large": "old\n"})
		_, err := run(t, sb, transfer.Push, src, box, k.options())
		wantKind(t, err, provider.NoSpace)
		if text := regexp.MustCompile(`no space left on the target ".*/box": \d+ bytes are free and up to \d+ are needed`); err != nil && !text.MatchString(err.Error()) {
			t.Errorf("the message does not say where and how much: %v", err)
		}
		if a, large := readFile(t, filepath.Join(box, "a")), readFile(t, filepath.Join(box, "large")); a != "old" || large != "old" {
			t.Errorf("the old files are %q and %q", a, large)
		}
		noScratch(t, sb.Root())

		// A single file, and one that fits.
		_, err = run(t, sb, transfer.Push, filepath.Join(src, "large"), filepath.Join(box, "large"), k.options())
		wantKind(t, err, provider.NoSpace)
		if large := readFile(t, filepath.Join(box, "large")); large != "old" {
			t.Errorf("the old file is %q", large)
		}
		noScratch(t, sb.Root())
		if real {
			mustRun(t, sb, transfer.Push, filepath.Join(src, "a"), filepath.Join(box, "a"), k.options())
		}
	})
}

// smallDisk opens a sandbox with so many bytes free: on a file system of its own
// where the tests may mount one, otherwise in a fake that plays it.
func (k kindOfSandbox) smallDisk(t *testing.T, free int64) (sb *providertest.Fake, real bool) {
	dir := t.TempDir()
	if mountSmall(t, dir, free) {
		must(t, os.Chmod(dir, 0o755))
		return k.fake(t, providertest.Options{Root: dir}), true
	}
	return k.fake(t, providertest.Options{SpaceLeft: free}), false
}

// hyperlocalise/hyperlocalise#390, cswl/tsu#78. Every byte, ends of lines of all
// kinds and broken UTF-8 arrive as they are, through output that is text too.
func TestCase_B82(t *testing.T) {
	var all strings.Builder
	for i := range 256 {
		for j := range 256 {
			all.Write([]byte{byte(i), byte(j)})
		}
	}
	files := map[string]string{
		"all bytes": all.String(), "crlf": strings.Repeat("a\r\n", 5000), "cr": strings.Repeat("\r", 100), "no end": "a\nb",
		"bom": "\xef\xbb\xbfa\n", "utf16": "\xff\xfea\x00\n\x00", "broken": "\xc3\x28\xa0\xa1\xed\xa0\x80\xf8", "ctrl": "\x03\x04\x1a\x1c\x7f\x11\x13",
		"nul": strings.Repeat("\x00", 999), "crlf end": "\r\n", "one": "\xff",
	}
	for _, dir := range []transfer.Direction{transfer.Push, transfer.Pull} {
		everywhereNamed(t, string(dir), func(t *testing.T, k kindOfSandbox) {
			opts := providertest.Options{}
			if !k.stream {
				opts = providertest.Options{TextOutput: true, MergedOutput: true}
			}
			w := newWay(t, k, dir, opts)
			writeTree(t, w.source, files)
			w.opt.ChunkBytes = 32<<10 + 1
			w.mustRun()
			k.compare().same(t, w.source, w.target)
			for name := range files {
				one := w
				one.source, one.target = filepath.Join(w.source, name), w.target+name
				one.mustRun()
				k.compare().same(t, one.source, one.target)
			}
			w.clean()
		})
	}
}
