package hostile

import (
	"bytes"
	"strings"
)

const loot = "written by the sandbox\n"

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// names lead out by themselves (CVE-2018-1002100, CVE-2019-11246).
func names(outside string) []Archive {
	file := func(name string) Member { return Member{Name: name, Type: File, Content: loot} }
	inPrefix := func(prefix, name string) []byte {
		b := header(File, name, "", 0)
		copy(b[345:500], prefix)
		seal(b)
		return b
	}
	return []Archive{
		trick("name-parent", "a file above the destination", file("../secret")),
		trick("name-parent-deep", "the same, from within", file("dir/../../secret")),
		trick("name-parent-dot", "the same, after a dot", file("./../secret")),
		trick("name-parent-end", "a directory that is its own parent", Member{Name: "dir/..", Type: Dir}),
		trick("name-absolute", "a file by its absolute name", file(outside+"/secret")),
		trick("name-absolute-twice", "the same, with two slashes", file("/"+outside+"/secret")),
		trick("name-absolute-dot", "the same, after a dot", file("./"+outside+"/secret")),
		trick("name-empty-element", "a path with nothing between two slashes", file("dir//b.txt")),
		trick("name-dot-element", "a path with a dot in it", file("dir/./b.txt")),
		trick("name-root", "the destination itself, as a file", file(".")),
		trick("name-root-dir", "the destination itself, as a directory", Member{Name: "./", Type: Dir}),
		trick("name-slash", "a file whose name ends in a slash", file("dir/x/")),
		unlisted("name-empty", "a file without a name", file("")),
		trick("name-sibling", "asked for some files, one more comes (audit-kubernetes#41)", file(".bashrc")),
		trick("name-scratch", "a name that belongs to sbsync", file(".sbsync-aaaaaaaaaaaaaaaa")),
		raw("name-prefix-parent", "a parent in the prefix field", inPrefix("dir/..", "secret")),
		raw("name-prefix-absolute", "an absolute prefix field", inPrefix(outside, "secret")),
		raw("name-long-parent", "a parent in a GNU record", join(record(GNULong, "../secret\x00"), members(file("x")))),
		raw("name-long-absolute", "an absolute name in a GNU record", join(record(GNULong, outside+"/secret\x00"), members(file("x")))),
		raw("name-long-nul", "a NUL byte within a GNU record", join(record(GNULong, "notes.txt\x00/../../secret\x00"), members(file("x")))),
	}
}

// links lead out, alone or together (CVE-2019-1002101, CVE-2019-11251).
func links(outside string) []Archive {
	file := func(name string) Member { return Member{Name: name, Type: File, Content: loot} }
	link := func(name, to string) Member { return Member{Name: name, Type: Link, Link: to} }
	hard := func(name, to string) Member { return Member{Name: name, Type: Hard, Link: to} }
	return []Archive{
		trick("link-out", "a link to the outside", link("out", outside)),
		trick("link-parent", "a link to the directory above", link("up", "..")),
		trick("link-parent-deep", "a link that goes down and then too far up", link("dir/sub/up", "../../../outside")),
		trick("link-through", "a link to the outside, then a file through it", link("out", outside), file("out/secret")),
		trick("link-through-slash", "the same, with slashes at the ends (CVE-2019-11246)", link("out/", outside), file("out/../out/secret")),
		trick("link-chain", "two links that lead out only together", link("a", "."), link("a/b", ".."), file("a/b/secret")),
		trick("link-chain-names", "the same, none of them through another", link("dir/one", "two/.."), link("dir/two", "sub"), link("dir/sub/x", "../../..")),
		trick("link-over-dir", "a link in the place of a directory that is used after it", link("dir/sub", outside), file("dir/sub/secret")),
		unlisted("link-over-file", "a link under a name that was asked for, then the file", link("./notes.txt", outside+"/secret"), file("notes.txt")),
		unlisted("link-file-link", "the file, then a link under its name, then the file", file("notes.txt"), link("./notes.txt", outside+"/secret"), file("notes.txt")),
		trick("link-empty", "a link to nothing at all", link("nothing", "")),
		trick("link-proc", "a link into the process's own files", link("root", "/proc/self/root")),
		trick("link-dotdot-name", "a link whose name leads out", link("../planted", "x")),
		trick("link-case", "a link, then a file through another spelling of it", link("Out", outside), file("out/secret")),
		trick("link-case-inside", "the same, the link harmless where case counts", link("Dir", "dir/sub"), Member{Name: "dir/sub/up", Type: Link, Link: "../.."}, file("Dir/up/x")),
		trick("link-normal-form", "the same by Unicode normal forms", link("o\u0308ut", outside), file("\u00f6ut/secret")),
		unlisted("hard-absolute", "a hard link to a file outside", hard("h", outside+"/secret")),
		unlisted("hard-parent", "a hard link to a file above", hard("h", "../outside/secret")),
		unlisted("hard-over", "a hard link to the outside under a name that was asked for, then the file", hard("./notes.txt", outside+"/secret"), file("notes.txt")),
		unlisted("hard-to-link", "a hard link to a link to the outside, then the file", link("out", outside+"/secret"), hard("./notes.txt", "out"), file("notes.txt")),
		unlisted("hard-to-itself", "a hard link to itself", hard("./notes.txt", "notes.txt")),
		unlisted("hard-unasked", "a hard link between two files that were asked for", hard("./notes.txt", "./dir/b.txt")),
		raw("hard-long", "a hard link whose target is in a GNU record", join(record(GNULink, outside+"/secret\x00"), members(hard("./notes.txt", "x")))),
	}
}

// types are members that are never made.
func types() []Archive {
	special := func(name, about string, t byte, at string) Archive {
		return trick(name, about, Member{Name: at, Type: t})
	}
	over := func(name, about string, t byte) Archive {
		return unlisted(name, about, Member{Name: "./notes.txt", Type: t})
	}
	return []Archive{
		special("type-char", "a character device", Char, "null"),
		special("type-block", "a block device", Block, "disk"),
		special("type-fifo", "a FIFO", FIFO, "fifo"),
		over("type-char-over", "a character device under a name that was asked for", Char),
		over("type-block-over", "a block device under a name that was asked for", Block),
		over("type-fifo-over", "a FIFO under a name that was asked for", FIFO),
		over("type-dir-over", "a directory under a name that was asked for", Dir),
		over("type-contiguous", "a contiguous file", '7'),
		over("type-unknown", "a type that nobody knows", 'Z'),
		over("type-high", "a type beyond ASCII", 0xff),
		over("type-sparse", "GNU's sparse file", 'S'),
		over("type-multivolume", "the rest of a file of another volume", 'M'),
		over("type-label", "a volume's label", 'V'),
		over("type-dumpdir", "GNU's directory dump", 'D'),
		over("type-solaris", "a Solaris record", 'X'),
		raw("sparse-0.0", "a PAX sparse file, format 0.0", join(record(PAX, paxRecord("GNU.sparse.size", "1099511627776")+paxRecord("GNU.sparse.numblocks", "1")),
			members(Member{Name: "notes.txt", Type: File, Content: loot}))),
		raw("sparse-1.0", "a PAX sparse file, format 1.0", join(record(PAX, paxRecord("GNU.sparse.major", "1")+paxRecord("GNU.sparse.minor", "0")+
			paxRecord("GNU.sparse.name", "../secret")+paxRecord("GNU.sparse.realsize", "1099511627776")),
			members(Member{Name: "GNUSparseFile.0/notes.txt", Type: File, Content: "1\n0\n23\n" + loot}))),
		raw("sparse-global", "the same for all members", record(PAXAll, paxRecord("GNU.sparse.major", "1"))),
	}
}

// sizes promise what does not come.
func sizes() []Archive {
	file := func(size int64) Member { return Member{Name: "notes.txt", Type: File, Size: size, Content: loot} }
	text := func(size string) []byte {
		b := header(File, "./notes.txt", "", 0)
		copy(b[124:136], size)
		seal(b)
		return b
	}
	return []Archive{
		unlisted("size-huge", "a file of an exbibyte", file(1<<60)),
		unlisted("size-largest", "a file of the largest size there is", file(1<<63-1)),
		unlisted("size-8g", "a file of 8 GiB, of which a line comes", file(1<<33-1)),
		unlisted("size-negative", "a file of less than nothing", file(-1)),
		unlisted("size-most-negative", "a file of very much less than nothing", file(-1<<63)),
		unlisted("size-smaller", "a file that is shorter than what comes", Member{Name: "notes.txt", Type: File, Size: 3, Content: strings.Repeat(loot, 30)}),
		unlisted("size-of-dir", "a directory with content", Member{Name: "./dir/sub", Type: Dir, Content: loot}),
		unlisted("size-of-link", "a link with content", Member{Name: "./notes.txt", Type: Link, Link: "x", Content: loot}),
		raw("size-text", "a size that is no number", text("0x000000017\x00")),
		raw("size-two", "a size of two numbers", text("0000 000027\x00")),
		raw("size-wide", "a size of more than 64 bits", text("\x80\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")),
		{Name: "size-listed", About: "listed files whose sizes overflow together", Listed: append(Wanted(),
			Member{Name: "huge1", Type: File, Size: 1<<63 - 1}, Member{Name: "huge2", Type: File, Size: 1<<63 - 1}, Member{Name: "huge3", Type: File, Size: 2})},
	}
}

// records overrule what the header says.
func records(outside string) []Archive {
	file := Member{Name: "notes.txt", Type: File, Content: loot}
	pax := func(name, about, key, value string, next Member) Archive {
		return raw(name, about, join(record(PAX, paxRecord(key, value)), members(next)))
	}
	hidden := header(File, "../secret", "", 0)
	return []Archive{
		pax("pax-path-parent", "a PAX path above the destination", "path", "../secret", file),
		pax("pax-path-absolute", "an absolute PAX path", "path", outside+"/secret", file),
		pax("pax-path-nul", "a NUL byte in a PAX path", "path", "notes.txt\x00x", file),
		pax("pax-path-unasked", "a PAX path that was not asked for", "path", "dir/extra", file),
		pax("pax-linkpath", "a PAX link target outside", "linkpath", outside+"/secret", Member{Name: "./notes.txt", Type: Hard, Link: "dir/b.txt"}),
		pax("pax-linkpath-symlink", "the same of a symbolic link", "linkpath", outside+"/secret", Member{Name: "./notes.txt", Type: Link, Link: "dir/b.txt"}),
		pax("pax-size-huge", "a PAX size of an exbibyte", "size", "1152921504606846976", file),
		pax("pax-size-overflow", "a PAX size of more than 64 bits", "size", "18446744073709551616", file),
		pax("pax-size-negative", "a negative PAX size", "size", "-1", file),
		pax("pax-size-hides", "a PAX size of 0, so that the content is read as a header", "size", "0",
			Member{Name: "dir/b.txt", Type: File, Content: string(hidden)}),
		pax("pax-size-of-dir", "a PAX size of a directory", "size", "512", Member{Name: "./dir/sub", Type: Dir}),
		pax("pax-time", "a PAX time that is none", "mtime", "now", file),
		raw("pax-global-path", "a path for all members", record(PAXAll, paxRecord("path", "../secret"))),
		raw("pax-global-size", "a size for all members", record(PAXAll, paxRecord("size", "0"))),
		raw("pax-disagrees", "PAX and GNU records that disagree", join(record(GNULong, "notes.txt\x00"), record(PAX, paxRecord("path", "../secret")), members(file))),
		raw("pax-twice", "two PAX headers for one member", join(record(PAX, paxRecord("path", "notes.txt")), record(PAX, paxRecord("path", "../secret")), members(file))),
		raw("pax-length", "a PAX record that is longer than it is", join(record(PAX, "99 path=x\n"), members(file))),
		raw("pax-length-short", "a PAX record that ends early", join(record(PAX, "3 path=../secret\n"), members(file))),
		raw("pax-alone", "a record without a member", join(record(PAX, paxRecord("path", "x")), end())),
		raw("long-twice", "two long names for one member", join(record(GNULong, "notes.txt\x00"), record(GNULong, "../secret\x00"), members(file))),
	}
}

// duplicates come more than once.
func duplicates() []Archive {
	file := Member{Name: "notes.txt", Type: File, Content: loot}
	return []Archive{
		trick("twice-file", "a file that comes twice", file),
		trick("twice-dir", "a file, then a directory of its name", Member{Name: "dir/b.txt", Type: Dir}),
		trick("twice-below", "a file that is below a file", Member{Name: "dir/b.txt/x", Type: File, Content: loot}),
		raw("twice-pax", "a file that comes twice, by a PAX path", join(record(PAX, paxRecord("path", "dir/b.txt")), members(file))),
		trick("twice-case", "two names that differ in case only", Member{Name: "NOTES.TXT", Type: File, Content: loot}),
	}
}

// damage is what no tar program writes.
func damage() []Archive {
	good := members(Wanted()...)
	bad := header(File, "./notes.txt", "", 0)
	bad[148] ^= 1
	noMagic := header(File, "../secret", "", 0)
	copy(noMagic[257:265], "\x00\x00\x00\x00\x00\x00\x00\x00")
	seal(noMagic)
	return []Archive{
		raw("sum-wrong", "a header whose checksum is wrong", bad),
		raw("sum-none", "a header without a checksum", append(bad[:148:148], append(make([]byte, 8), bad[156:]...)...)),
		raw("magic-none", "a header of the time before POSIX, with a parent in its name", noMagic),
		raw("zero-block", "a single zero block between members", make([]byte, blockSize)),
		whole("end-twice", "a second archive after the end", good, end(), members(Member{Name: "extra", Type: File, Content: loot}), end()),
		whole("end-garbage", "garbage after the end", good, end(), []byte(strings.Repeat("garbage ", 100))),
		whole("end-header", "one more member after the end", good, end(), header(File, "../secret", "", 0), end()),
		whole("end-mark", "the mark of the end, and an archive after it", good, end(), []byte("sbsync-archive-end\n"), members(Member{Name: "extra", Type: File, Content: loot}), end()),
		whole("end-mark-early", "the mark of the end before the last members", members(Wanted()[:2]...), end(), []byte("sbsync-archive-end\n"), members(Wanted()[2:]...), end()),
		whole("end-none", "an archive without an end", good),
		whole("end-half", "an archive with half of its end", good, make([]byte, blockSize)),
		whole("empty", "nothing at all"),
		whole("empty-archive", "an archive without members", end()),
		whole("text", "an error message", []byte("Error from server: container not found\n")),
		whole("gzip", "a compressed archive", []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"), make([]byte, 2000)),
		raw("shifted", "an archive that goes on a byte late", []byte("x")),
	}
}
