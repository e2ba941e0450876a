package tarball

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sbsync/sbsync/pkg/tree"
)

// tarTool is a tar program that is installed here.
type tarTool struct {
	name string
	args []string
	// exactTimes says that it restores fractions of seconds, and times of
	// directories after what is in them.
	exactTimes bool
}

func (tool tarTool) command(dir string, args ...string) *exec.Cmd {
	args = append(slices.Clone(tool.args), args...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	return cmd
}

// output runs the tool and returns what it wrote, whatever its exit code.
func (tool tarTool) output(t *testing.T, dir string, args ...string) (stdout []byte, exitCode int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := tool.command(dir, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if errs.Len() > 0 {
		t.Logf("%s: %s", tool.name, errs.String())
	}
	return out.Bytes(), cmd.ProcessState.ExitCode()
}

// gnuTar returns GNU tar, which these tests can't do without.
func gnuTar(t *testing.T) tarTool {
	t.Helper()
	out, err := exec.Command("tar", "--version").Output()
	if err != nil || !bytes.Contains(out, []byte("GNU tar")) {
		t.Fatalf("these tests need GNU tar as tar on PATH (%v)", err)
	}
	return tarTool{"GNU tar", []string{"tar"}, true}
}

// tarTools returns GNU tar and, where there is one, BusyBox's.
func tarTools(t *testing.T) []tarTool {
	t.Helper()
	tools := []tarTool{gnuTar(t)}
	if exec.Command("busybox", "tar", "--help").Run() == nil {
		tools = append(tools, tarTool{"BusyBox tar", []string{"busybox", "tar"}, false})
	} else {
		t.Log("no busybox here: tested with GNU tar alone")
	}
	return tools
}

// extract feeds an archive to the tool as a push does and returns the tree.
func (tool tarTool) extract(t *testing.T, archive []byte, env ...string) map[string]member {
	t.Helper()
	dir := t.TempDir()
	// Without root BusyBox takes the umask off all modes, -p or not.
	script := append([]string{"-c", `umask 000 && exec "$@"`, "sh"}, tool.args...)
	cmd := exec.Command("sh", append(script, "-xpof", "-")...)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(archive)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%.2000s", tool.name, err, out)
	}
	return snapshot(t, dir)
}

// snapshot lists the tree below dir. Hard links are files here.
func snapshot(t *testing.T, dir string) map[string]member {
	t.Helper()
	found := map[string]member{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		m := lstat(t, path)
		m.Name, _ = filepath.Rel(dir, path)
		found[m.Name] = m
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func lstat(t *testing.T, path string) member {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	m := member{Header: Header{Mode: st.Mode & 0o7777, Time: tree.Time{Sec: st.Mtim.Sec, Nsec: int32(st.Mtim.Nsec)}}}
	var err error
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		m.Type = Directory
	case syscall.S_IFLNK:
		m.Type = SymbolicLink
		m.Link, err = os.Readlink(path)
	case syscall.S_IFREG:
		var content []byte
		m.Type, m.Size = RegularFile, st.Size
		content, err = os.ReadFile(path)
		m.content = string(content)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// checkExtracted compares what a tool made with the members it was sent.
func checkExtracted(t *testing.T, tool tarTool, got map[string]member, sent []member) {
	t.Helper()
	for _, want := range sent {
		m, ok := got[want.Name]
		if !ok {
			t.Errorf("%s: %.150q is missing", tool.name, want.Name)
			continue
		}
		if want.Type == HardLink {
			want.content, want.Type, want.Link = got[want.Link].content, RegularFile, ""
			want.Size, want.Time = int64(len(want.content)), m.Time
		}
		if want.Type == SymbolicLink {
			m.Mode, m.Time = want.Mode, want.Time // a link's own are nobody's concern
		}
		if !tool.exactTimes {
			want.Time.Nsec = 0
		}
		if !tool.exactTimes && want.Type == Directory {
			want.Time = m.Time
		}
		if m != want {
			t.Errorf("%s:\n got %.150q %+v\nwant %.150q %+v", tool.name, m.content, m.Header, want.content, want.Header)
		}
	}
}

func TestToolsExtractOurArchives(t *testing.T) {
	members := slices.DeleteFunc(variety(), func(m member) bool {
		return m.Time.Sec < -1<<31 || m.Time.Sec >= 1<<34 // what ext4 keeps
	})
	// GNU tar sets a directory's time when it comes to something outside of it.
	slices.SortStableFunc(members, func(a, b member) int { return tree.ComparePaths(a.Name, b.Name) })
	data := archive(t, members...)
	for _, tool := range tarTools(t) {
		for _, locale := range []string{"LC_ALL=C", "LC_ALL=C.UTF-8"} {
			checkExtracted(t, tool, tool.extract(t, data, locale), members)
		}
	}
}

// awkwardNames are names that peers lost, split or ran (B25, B28, B29, B31,
// B34).
var awkwardNames = []string{"broken[.txt", "[slug]-1.js", "a*b", "q?.md", "{x}", "f-22:34.gz", "it's", `a"b`,
	"$(touch pwn)", "`id`", "a;b", "new\nline", "tab\t", `back\slash`, `\101`, "-rf", "--help", "-", " a", "b ",
	"\xff\xfe", "\xed\xa0\x80", "...", "..a", "a -> b", "\n", "~", "#x", "!x", ".sbsync-x"}

func TestToolsExtractEveryName(t *testing.T) {
	var members []member
	for _, name := range awkwardNames {
		members = append(members, file(name, name))
	}
	for c := 1; c < 256; c++ {
		if c != '/' {
			members = append(members, file("short"+string([]byte{byte(c)})+"x", "1"),
				file(strings.Repeat("long", 30)+string([]byte{byte(c)})+"x", "2"))
		}
	}
	for _, n := range []int{99, 100, 101, 155, 156, 157, 255, 256, 257, 258, 300, 1000} {
		members = append(members, file(longPath(n), fmt.Sprint(n)),
			file(strings.Repeat("d", n%200+1)+"/"+strings.Repeat("n", min(n, 255)), "deep"))
	}
	data := archive(t, members...)
	for _, tool := range tarTools(t) {
		checkExtracted(t, tool, tool.extract(t, data), members)
	}
}

func TestToolsExtractSizesOfAllKinds(t *testing.T) {
	var members []member
	for _, n := range []int{0, 1, 511, 512, 513, 1023, 1024, writeBuffer - 512, writeBuffer, writeBuffer + 1, 3*writeBuffer + 7} {
		members = append(members, file(fmt.Sprintf("f%d", n), strings.Repeat("\x00\xff", n)[:n]))
	}
	for _, tool := range tarTools(t) {
		checkExtracted(t, tool, tool.extract(t, archive(t, members...)), members)
	}
}

// 8 GiB wrap around in octal (dotnet/runtime#76563). The content is a hole.
func TestToolsReadSizesBeyondOctal(t *testing.T) {
	const size = 8<<30 + 1
	path := filepath.Join(t.TempDir(), "large.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := NewWriter(f)
	h := Header{Name: "large", Type: RegularFile, Mode: 0o644, Size: size}
	if err := w.writeFileHeader(h); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(w.Written() + size + padding(size)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteBytes(Header{Name: "after", Type: RegularFile}, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tool := range tarTools(t) {
		out, code := tool.output(t, "", "-tvf", path)
		if code != 0 || !bytes.Contains(out, []byte(fmt.Sprint(size))) || !bytes.Contains(out, []byte("after")) {
			t.Errorf("%s: exit code %d\n%s", tool.name, code, out)
		}
	}
}

// makeTree fills dir with what a pull has to carry and returns its snapshot
// and its names in order.
func makeTree(t *testing.T, dir string) (map[string]member, []string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(dir, "d"), 0o755))
	must(os.Mkdir(filepath.Join(dir, "empty"), 0o700))
	must(os.MkdirAll(filepath.Join(dir, longPath(300)), 0o755))
	for i, name := range append(slices.Clone(awkwardNames), "d/f", longPath(301), longPath(300)+"/leaf", strings.Repeat("n", 150)) {
		path := filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(path), 0o755))
		must(os.WriteFile(path, bytes.Repeat([]byte{byte(i)}, i*300), 0o600))
		must(os.Chmod(path, fs.FileMode(0o600|i%8)))
	}
	must(os.Symlink(strings.Repeat("t", 120), filepath.Join(dir, "d/longlink")))
	must(os.Symlink("f", filepath.Join(dir, "d/link")))
	must(syscall.UtimesNano(filepath.Join(dir, "d/f"), []syscall.Timespec{{Sec: 1}, {Sec: 1e9, Nsec: 123456789}}))
	must(syscall.UtimesNano(filepath.Join(dir, "-rf"), []syscall.Timespec{{Sec: 1}, {Sec: -5, Nsec: 500000000}}))
	found := snapshot(t, dir)
	var names []string
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return found, names
}

// gnuVerbatim makes GNU tar take names as they are: by default it reads "\101"
// as "A", in arguments too. BusyBox has neither option nor needs one; it always
// descends.
var gnuVerbatim = []string{"--no-unquote", "--no-recursion"}

// pull runs the tool over the names in several runs, as xargs does, and ends
// with a trailer line.
func (tool tarTool) pull(t *testing.T, dir string, names []string, options ...string) []byte {
	t.Helper()
	var stream []byte
	for batch := range slices.Chunk(names, 7) {
		args := append(slices.Clone(options), "-cf", "-")
		for _, name := range batch {
			args = append(args, "./"+name)
		}
		out, code := tool.output(t, dir, args...)
		if code != 0 {
			t.Fatalf("%s: exit code %d", tool.name, code)
		}
		stream = append(stream, out...)
	}
	return append(stream, "\nend-7f3a 0\n"...)
}

func TestReadWhatToolsSend(t *testing.T) {
	dir := t.TempDir()
	want, names := makeTree(t, dir)
	gnu := gnuTar(t)
	type run struct {
		tarTool
		options   []string
		subSecond bool
	}
	runs := []run{{gnu, gnuVerbatim, false}, {gnu, append([]string{"--format=posix"}, gnuVerbatim...), true},
		{gnu, append([]string{"--format=oldgnu", "-b", "1"}, gnuVerbatim...), false}}
	if tools := tarTools(t); len(tools) > 1 {
		runs = append(runs, run{tools[1], nil, false})
	}
	for _, run := range runs {
		stream := run.pull(t, dir, names, run.options...)
		r := NewReader(bytes.NewReader(stream), ReaderOptions{Trailer: "end-7f3a "})
		got, err := readAll(r)
		if err != nil || r.Trailer() != "0" {
			t.Errorf("%s %q: trailer %q, %v", run.name, run.options, r.Trailer(), err)
		}
		seen := map[string]bool{}
		for _, m := range got {
			expect := want[m.Name]
			if !run.subSecond {
				expect.Time.Nsec = 0
			}
			if run.args[0] == "busybox" {
				expect.Time.Sec = max(expect.Time.Sec, 0) // it sends no time before 1970
			}
			if m.Type == HardLink { // BusyBox descends, so it meets some twice
				continue
			}
			if seen[m.Name] = true; m != expect {
				t.Errorf("%s %q:\n got %+v\nwant %+v", run.name, run.options, m.Header, expect.Header)
			}
		}
		if len(seen) != len(want) {
			t.Errorf("%s %q: %d of %d members", run.name, run.options, len(seen), len(want))
		}
	}
}

func TestReadHardLinksOfTools(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o644),
		os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tool := range tarTools(t) {
		got, err := readAll(NewReader(bytes.NewReader(tool.pull(t, dir, []string{"a", "b"})), ReaderOptions{Trailer: "end-7f3a"}))
		if err != nil || len(got) != 2 || got[1].Type != HardLink || got[1].Name != "b" || got[1].Link != "a" {
			t.Errorf("%s: %+v, %v", tool.name, got, err)
		}
	}
}

// A missing source gives a valid empty archive; only the trailer tells (M6).
func TestReadEmptyArchivesOfTools(t *testing.T) {
	for _, tool := range tarTools(t) {
		out, code := tool.output(t, t.TempDir(), "-cf", "-", "missing")
		if code == 0 {
			t.Errorf("%s: exit code 0", tool.name)
		}
		if got, err := readAll(NewReader(bytes.NewReader(out), ReaderOptions{})); err != nil || len(got) > 0 {
			t.Errorf("%s: %v, %v", tool.name, got, err)
		}
		r := NewReader(bytes.NewReader(append(append(out, out...), "end 2\n"...)), ReaderOptions{Trailer: "end "})
		if got, err := readAll(r); err != nil || len(got) > 0 || r.Trailer() != "2" {
			t.Errorf("%s: %v, trailer %q, %v", tool.name, got, r.Trailer(), err)
		}
	}
}

// The content of a sparse member is not the file's (M2).
func TestRefuseSparseFilesOfGNUTar(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sparse")
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 10<<20); err != nil {
		t.Fatal(err)
	}
	for _, options := range [][]string{{"--format=gnu"}, {"--format=posix"}, {"--format=posix", "--sparse-version=0.0"},
		{"--format=posix", "--sparse-version=0.1"}} {
		out, _ := gnuTar(t).output(t, dir, append(slices.Clone(options), "-S", "-cf", "-", "sparse")...)
		_, err := readAll(NewReader(bytes.NewReader(out), ReaderOptions{}))
		checkKind(t, strings.Join(options, " "), err, ErrHostile)
	}
}
