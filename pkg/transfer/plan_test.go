package transfer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/tree"
)

// snapshotOf makes a snapshot from lines like
//
//	d dir
//	f dir/file 5 100.5 644
//	l dir/link -> target
//	s fifo
//	h other = dir/file
//
// Missing fields are size 1, time 1, mode 644 or 755.
func snapshotOf(root string, lines ...string) *tree.Snapshot {
	s := &tree.Snapshot{}
	if root == "" {
		return s
	}
	s.Root = entryOf(root)
	inodes := map[string]uint64{}
	for i, line := range lines {
		e := entryOf(line)
		e.Ino, e.Dev, e.Nlink = uint64(100+i), 1, 1
		if of, ok := strings.CutPrefix(e.Link, "="); ok {
			k := slices.IndexFunc(s.Entries, func(x tree.Entry) bool { return x.Path == of })
			s.Entries[k].Nlink = 2
			first := s.Entries[k]
			first.Path = e.Path
			e = first
		}
		inodes[e.Path] = e.Ino
		s.Entries = append(s.Entries, e)
	}
	slices.SortFunc(s.Entries, func(a, b tree.Entry) int { return tree.ComparePaths(a.Path, b.Path) })
	return s
}

func entryOf(line string) tree.Entry {
	f := strings.Fields(line)
	e := tree.Entry{Type: tree.Type(f[0][0]), Size: 1, Time: tree.Time{Sec: 1}, Mode: 0o644}
	if len(f) > 1 {
		e.Path = f[1]
	}
	switch f[0] {
	case "d":
		e.Mode, e.Size = 0o755, 0
		if len(f) > 2 {
			fmt.Sscanf(f[2], "%o", &e.Mode)
		}
	case "l":
		e.Link, e.Mode, e.Size = f[3], 0o777, 0
	case "h":
		e.Type, e.Link = tree.File, "="+f[3]
	case "s":
		e.Special, e.Size = "fifo", 0
	default:
		if len(f) > 2 {
			fmt.Sscanf(f[2], "%d", &e.Size)
		}
		if len(f) > 3 {
			fmt.Sscanf(f[3], "%d.%d", &e.Time.Sec, &e.Time.Nsec)
		}
		if len(f) > 4 {
			fmt.Sscanf(f[4], "%o", &e.Mode)
		}
	}
	return e
}

// summary is what a plan comes to, for comparison.
func (p *plan) summary() string {
	var parts []string
	for _, e := range p.entries {
		parts = append(parts, fmt.Sprintf("%s %s", e.Action, e.Path))
	}
	var steps []string
	for _, s := range p.steps {
		name := [...]string{"unlock", "move", "convert", "chmod", "touch", "rm", "rmdir"}[s.kind]
		if s.kind == stepChmod {
			name += fmt.Sprintf("(%o)", s.mode)
		}
		steps = append(steps, name+" "+s.path)
	}
	text := strings.Join(parts, ", ") + " | " + strings.Join(steps, ", ")
	if p.newRoot {
		text += " | new root"
	}
	return text
}

func TestPlan(t *testing.T) {
	type lines []string
	mode := uint32(0o600)
	tests := []struct {
		name             string
		srcRoot, dstRoot string
		src, dst         lines
		in               planInput
		want             string
		refused          string // part of the refusal's text
	}{
		{name: "everything is new", srcRoot: "d", src: lines{"d a", "f a/f", "l l -> x", "s pipe"},
			want: "create , create a, create a/f, create l |  | new root"},
		{name: "nothing to do", srcRoot: "d", dstRoot: "d", src: lines{"d a", "f a/f", "l l -> x"}, dst: lines{"d a", "f a/f", "l l -> x"}, want: " | "},
		{name: "an empty tree", srcRoot: "d", want: "create  |  | new root"},
		{name: "size differs", srcRoot: "d", dstRoot: "d", src: lines{"f f 2"}, dst: lines{"f f 1"}, want: "update f | move f"},
		{name: "seconds differ", srcRoot: "d", dstRoot: "d", src: lines{"f f 1 5"}, dst: lines{"f f 1 6"}, want: "update f | move f"},
		{name: "a fraction differs", srcRoot: "d", dstRoot: "d", src: lines{"f f 1 5.7"}, dst: lines{"f f 1 5.6"}, want: "update f | move f"},
		{name: "a fraction is none", srcRoot: "d", dstRoot: "d", src: lines{"f f 1 5.7"}, dst: lines{"f f 1 5.0"}, want: "update f | move f"},
		{name: "a fraction is lost by tools", srcRoot: "d", dstRoot: "d", src: lines{"f f 1 5.7"}, dst: lines{"f f 1 5.0"}, in: planInput{wholeSeconds: true}, want: " | "},
		{name: "fractions differ although tools lose them", srcRoot: "d", dstRoot: "d", src: lines{"f f 1 5.7"}, dst: lines{"f f 1 5.6"}, in: planInput{wholeSeconds: true}, want: "update f | move f"},
		{name: "mode differs", srcRoot: "d", dstRoot: "d", src: lines{"f f 1 1 600"}, dst: lines{"f f 1 1 644"}, want: "attrs f | chmod(600) f"},
		{name: "mode is given", srcRoot: "d", dstRoot: "d", src: lines{"f f 1 1 755", "d d"}, dst: lines{"f f 1 1 755", "d d"}, in: planInput{mode: &mode}, want: "attrs f | chmod(600) f"},
		{name: "set-id bits don't count", srcRoot: "d", dstRoot: "d", src: lines{"f f 1 1 4755"}, dst: lines{"f f 1 1 755"}, want: " | "},
		{name: "set-id bits count", srcRoot: "d", dstRoot: "d", src: lines{"f f 1 1 4755"}, dst: lines{"f f 1 1 755"}, in: planInput{setID: true}, want: "attrs f | chmod(4755) f"},
		{name: "the root's mode is left alone", srcRoot: "d . 700", dstRoot: "d . 755", want: " | "},
		{name: "link text differs", srcRoot: "d", dstRoot: "d", src: lines{"l l -> a"}, dst: lines{"l l -> b"}, want: "update l | move l"},
		{name: "a link becomes a file", srcRoot: "d", dstRoot: "d", src: lines{"f x"}, dst: lines{"l x -> b"}, want: "update x | move x"},
		{name: "a special is left alone", srcRoot: "d", dstRoot: "d", src: lines{"s x"}, dst: lines{"f x"}, want: " | "},

		{name: "checksum, equal", srcRoot: "d", dstRoot: "d", src: lines{"f f 1 5"}, dst: lines{"f f 1 6"}, in: planInput{checksum: true, same: map[string]bool{"f": true}}, want: "attrs f | touch f"},
		{name: "checksum, different", srcRoot: "d", dstRoot: "d", src: lines{"f f 1 5"}, dst: lines{"f f 1 5"}, in: planInput{checksum: true}, want: "update f | move f"},

		{name: "a new directory is moved whole", srcRoot: "d", dstRoot: "d", src: lines{"d n", "f n/a", "d n/b", "f n/b/c"}, want: "create n, create n/a, create n/b, create n/b/c | move n"},
		{name: "a new directory that may not be written", srcRoot: "d", dstRoot: "d", src: lines{"d n 555", "f n/a"}, want: "create n, create n/a | move n, chmod(555) n"},
		{name: "something new in an old one", srcRoot: "d", dstRoot: "d", src: lines{"d o", "f o/a", "d o/n"}, dst: lines{"d o"}, want: "create o/a, create o/n | move o/a, move o/n"},
		{name: "modes of directories come last, the deepest first", srcRoot: "d", dstRoot: "d", src: lines{"d o 555", "f o/a", "d o/p 555", "f o/p/q"}, dst: lines{"d o", "d o/p"},
			want: "attrs o, create o/a, attrs o/p, create o/p/q | move o/a, move o/p/q, chmod(555) o/p, chmod(555) o"},
		{name: "a directory that may not be written is unlocked", srcRoot: "d", dstRoot: "d", src: lines{"d o 555", "f o/a", "f z"}, dst: lines{"d o 555", "f z"},
			want: "create o/a | unlock o, move o/a, chmod(555) o"},
		{name: "a locked one where nothing changes stays", srcRoot: "d", dstRoot: "d", src: lines{"d o 555", "f o/a", "f z"}, dst: lines{"d o 555", "f o/a"}, want: "create z | move z"},

		{name: "update deletes nothing", srcRoot: "d", dstRoot: "d", src: lines{"f a"}, dst: lines{"f a", "f b"}, want: " | "},
		{name: "mirror deletes, the deepest first", srcRoot: "d", dstRoot: "d", src: lines{"f a"}, dst: lines{"f a", "d b", "d b/c", "f b/c/d", "l b/e -> x"}, in: planInput{policy: Mirror},
			want: "delete b/e, delete b/c/d, delete b/c, delete b | rm b/e, rm b/c/d, rmdir b/c, rmdir b"},
		{name: "mirror spares what is excluded, and what holds it", srcRoot: "d", dstRoot: "d", src: lines{"f a"}, dst: lines{"f a", "d b", "f b/keep.x", "f b/no", "d c.x", "f c.x/in", "f d"}, in: planInput{policy: Mirror},
			want: "delete d, delete b/no | rm d, rm b/no"},
		{name: "mirror unlocks what it empties", srcRoot: "d", dstRoot: "d", src: lines{"f a"}, dst: lines{"f a", "d b 555", "f b/c"}, in: planInput{policy: Mirror},
			want: "delete b/c, delete b | unlock b, rm b/c, rmdir b"},
		{name: "mirror of nothing", srcRoot: "d", dstRoot: "d", dst: lines{"f a"}, in: planInput{policy: Mirror}, refused: "the source is empty"},
		{name: "mirror of nothing onto what is excluded", srcRoot: "d", dstRoot: "d", dst: lines{"f a.x"}, in: planInput{policy: Mirror}, want: " | "},
		{name: "mirror of nothing, forced", srcRoot: "d", dstRoot: "d", dst: lines{"f a"}, in: planInput{policy: Mirror, force: true}, want: "delete a | rm a"},
		{name: "too many deletions", srcRoot: "d", dstRoot: "d", src: lines{"f a"}, dst: lines{"f a", "f b", "f c"}, in: planInput{policy: Mirror, maxDelete: 1}, refused: "more than --max-delete 1"},
		{name: "as many deletions as may be", srcRoot: "d", dstRoot: "d", src: lines{"f a"}, dst: lines{"f a", "f b"}, in: planInput{policy: Mirror, maxDelete: 1}, want: "delete b | rm b"},

		{name: "file over directory", srcRoot: "d", dstRoot: "d", src: lines{"f x"}, dst: lines{"d x", "f x/y"}, refused: `"x" is a directory in the target and a file in the source`},
		{name: "directory over file", srcRoot: "d", dstRoot: "d", src: lines{"d x", "f x/y"}, dst: lines{"f x"}, refused: `"x" is a file in the target and a directory in the source`},
		{name: "directory over link", srcRoot: "d", dstRoot: "d", src: lines{"d x"}, dst: lines{"l x -> y"}, refused: `"x" is a link in the target and a directory in the source`},
		{name: "file over directory, forced", srcRoot: "d", dstRoot: "d", src: lines{"f x"}, dst: lines{"d x", "f x/y"}, in: planInput{force: true}, want: "convert x | convert x"},
		{name: "directory over file, forced", srcRoot: "d", dstRoot: "d", src: lines{"d x", "f x/y"}, dst: lines{"f x"}, in: planInput{force: true}, want: "convert x, create x/y | convert x"},
		{name: "what is excluded is not converted away", srcRoot: "d", dstRoot: "d", src: lines{"f x"}, dst: lines{"d x", "f x/y.x"}, in: planInput{force: true}, refused: `"x/y.x" is excluded`},
		{name: "no deletion inside what is converted", srcRoot: "d", dstRoot: "d", src: lines{"f x"}, dst: lines{"d x", "f x/y", "f z"}, in: planInput{force: true, policy: Mirror}, want: "convert x, delete z | convert x, rm z"},

		{name: "replace", srcRoot: "d", dstRoot: "d", src: lines{"f a", "f b"}, dst: lines{"f b", "f c"}, in: planInput{policy: Replace}, want: "create a, update b, delete c |  | new root"},
		{name: "a tree over a file", srcRoot: "d", dstRoot: "f", src: lines{"f a"}, refused: "the target is a file"},
		{name: "a tree over a file, replaced", srcRoot: "d", dstRoot: "f", src: lines{"f a"}, in: planInput{policy: Replace}, refused: "the target is a file"},
		{name: "a tree over a file, forced", srcRoot: "d", dstRoot: "f", src: lines{"f a"}, in: planInput{force: true}, want: "create a |  | new root"},

		{name: "one file", srcRoot: "f", want: "create  |  | new root"},
		{name: "one file, unchanged", srcRoot: "f", dstRoot: "f", want: " | "},
		{name: "one file, another mode", srcRoot: "f . 1 1 600", dstRoot: "f . 1 1 644", want: "attrs  | chmod(600) "},
		{name: "one file, changed", srcRoot: "f . 2", dstRoot: "f", want: "update  |  | new root"},
		{name: "one file, unchanged, replaced", srcRoot: "f", dstRoot: "f", in: planInput{policy: Replace}, want: "update  |  | new root"},
		{name: "one file over a link", srcRoot: "f", dstRoot: "l . -> x", want: "update  |  | new root"},
		{name: "one file over a directory", srcRoot: "f", dstRoot: "d", refused: "the target is a directory"},
		{name: "one file over a directory, forced", srcRoot: "f", dstRoot: "d", in: planInput{force: true}, want: "convert  |  | new root"},
		{name: "one file over a device", srcRoot: "f", dstRoot: "s", refused: "the target is a special file"},

		{name: "hard links", srcRoot: "d", src: lines{"f a", "h b = a"}, want: "create , create a, create b |  | new root"},
		{name: "hard links, one changed", srcRoot: "d", dstRoot: "d", src: lines{"f a", "h b = a", "f c"}, dst: lines{"f a", "f b 7", "f c"}, want: "update a, update b | move a, move b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := test.in
			in.src, in.dst = snapshotOf(test.srcRoot, test.src...), snapshotOf(test.dstRoot, test.dst...)
			in.protected = func(p string, _ bool) bool { return strings.HasSuffix(p, ".x") }
			if in.maxDelete == 0 {
				in.maxDelete = -1
			}
			p, err := makePlan(in)
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) || provider.KindOf(err) != provider.Refused || provider.HintOf(err) == "" {
					t.Errorf("got %v, kind %v, hint %q", err, provider.KindOf(err), provider.HintOf(err))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := p.summary(); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestPlanCountsHardLinksOnce(t *testing.T) {
	p, err := makePlan(planInput{src: snapshotOf("d", "f a 100", "h b = a", "h c = a"), dst: snapshotOf("")})
	if err != nil || p.files != 3 || p.bytes != 100 || len(p.hard) != 2 || p.hard["b"] != "a" || p.hard["c"] != "a" {
		t.Errorf("files %d, bytes %d, hard %v, %v", p.files, p.bytes, p.hard, err)
	}
}

func TestPlanOfATreeThatWasNotReadWhole(t *testing.T) {
	src := snapshotOf("d", "f a")
	src.Problems = []tree.Problem{{Path: "d", Err: errors.New("permission denied")}}
	in := planInput{src: src, dst: snapshotOf("d", "f a", "f d"), policy: Mirror, maxDelete: -1, protected: func(string, bool) bool { return false }}
	if _, err := makePlan(in); provider.KindOf(err) != provider.Refused || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("got %v", err)
	}
	src.Problems[0].Skip = true
	if p, err := makePlan(in); err != nil || p.deleted != 1 {
		t.Errorf("something left out by rule: %v", err)
	}
}

func TestStagedParents(t *testing.T) {
	p, err := makePlan(planInput{src: snapshotOf("d", "d a", "d a/b", "f a/b/c", "d n", "f n/m", "f a/x"), dst: snapshotOf("d", "d a", "d a/b")})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.stagedParents(); !slices.Equal(got, []string{"a", "a/b"}) {
		t.Errorf("got %q", got)
	}
}

func TestExcludesOfNestedFiles(t *testing.T) {
	rules, err := tree.NewRules(tree.RuleOptions{Exclude: []string{"*.log"}, IgnoreFiles: []string{".ignore"}})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{".ignore": "/top\n", "sub/.ignore": "*.o\n!keep.o\n", "gone/.ignore": "x\n"}
	asked := map[string]int{}
	x := newExcludes(rules, func(p string) ([]byte, bool, error) {
		asked[p]++
		text, ok := files[p]
		return []byte(text), ok, nil
	})
	for p, want := range map[string]bool{
		"a.log": true, "top": true, "sub/top": false, "sub/a.o": true, "sub/keep.o": false, "a.o": false, "sub/deep/b.o": true, "gone/x": true, "x": false,
		"top/anything": true,
	} {
		if got := x.excluded(p, false); got != want {
			t.Errorf("%s: %v", p, got)
		}
	}
	for p, n := range asked {
		if n > 1 {
			t.Errorf("%s was read %d times", p, n)
		}
	}
	broken := newExcludes(rules, func(string) ([]byte, bool, error) { return nil, false, errors.New("permission denied") })
	if !broken.excluded("anything", false) {
		t.Error("something goes although an ignore file could not be read")
	}
}

// Where times are cut to seconds, contents are compared only if there may have
// been two states in one second.
func TestDoubtfulTimes(t *testing.T) {
	at := func(nsec int32, changed int64) tree.Entry {
		return tree.Entry{Type: tree.File, Size: 1, Time: tree.Time{Sec: 100, Nsec: nsec}, Changed: changed}
	}
	for name, test := range map[string]struct {
		src, dst tree.Entry
		want     bool
	}{
		"an old copy":                        {at(5, 100), at(0, 300), false},
		"put there within the second":        {at(5, 100), at(0, 100), true},
		"edited after it was put there":      {at(5, 301), at(0, 300), true},
		"in the same second, perhaps before": {at(5, 300), at(0, 300), true},
		"both cut, replaced since":           {at(0, 301), at(0, 300), true},
		"both cut, an old copy":              {at(0, 299), at(0, 300), false},
		"both whole":                         {at(5, 301), at(5, 300), false},
		"not known when":                     {at(5, 301), at(0, 0), false},
	} {
		in := planInput{wholeSeconds: true}
		if got := in.doubtful(test.src, test.dst); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
		in.wholeSeconds = false
		if in.doubtful(test.src, test.dst) {
			t.Errorf("%s: with fractions", name)
		}
	}
}
