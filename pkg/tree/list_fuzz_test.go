package tree

import "testing"

// A listing comes from the sandbox: whatever it holds, what Parse makes of it
// is a tree.
func FuzzListing(f *testing.F) {
	f.Add([]byte("find\nd 755 4096 1600000000.5000000000 1 2 2 .\x00\x00f 644 3 -2.5000000000 1 3 1 ./a\x00\x00l 777 1 1.0 1 4 1 ./b\x00a\x00end 0\n\x00"))
	f.Add([]byte("find\nd 755 0 1.0 1 2 2 ./d\x00\x00f 644 3 1.0 1 3 2 ./d/new\nline\x00\x00end 1\nfind: './x': Permission denied\x00"))
	f.Add([]byte("stat\n.//41ed 40 2020-01-02 03:04:05.123456789 +0000 1 2 2 1577934245\n./a//81a4 3 1969-12-31 23:59:58.5 +0000 1 3 1 1577934245\n./l//a1ff 1 2020-01-02 03:04:05 +0000 1 4 1 1577934245\n//links\n./l//x\x00//end 0\n"))
	f.Add([]byte("find\nf 644 3 1.0 1 3 1 ./../a\x00\x00end 0\n\x00"))
	f.Add([]byte("find\nf 644 3 1.0 1 3 1 ./.sbsync-abcdefghijklmnop\x00\x00end 0\n\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Parse(text)
		if err != nil {
			return
		}
		dirs := map[string]bool{"": true}
		for i, e := range l.Entries {
			if !cleanPath(e.Path) || IsScratch(Base(e.Path)) {
				t.Fatalf("path %q", e.Path)
			}
			if i > 0 && ComparePaths(l.Entries[i-1].Path, e.Path) >= 0 {
				t.Fatalf("%q comes before %q", l.Entries[i-1].Path, e.Path)
			}
			if !dirs[Parent(e.Path)] {
				t.Fatalf("%q is in no directory", e.Path)
			}
			dirs[e.Path] = e.Type == Dir
			if e.Size < 0 || e.Time.Nsec < 0 || e.Time.Nsec > 999_999_999 || e.Mode > 0o7777 {
				t.Fatalf("%+v", e)
			}
			if (e.Type == Symlink) != (e.Link != "") {
				t.Fatalf("%+v", e)
			}
		}
	})
}
