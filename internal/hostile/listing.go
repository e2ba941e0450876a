package hostile

import (
	"fmt"
	"strings"
)

// Listing is what GNU find would print of a tree with these members: see
// tree.ListFunctions. Names are taken as they are.
func Listing(list []Member) []byte {
	var b strings.Builder
	b.WriteString("find\n")
	record := func(letter string, size int64, inode int, name, link string) {
		mode := "644"
		if letter == "d" {
			mode = "755"
		}
		fmt.Fprintf(&b, "%s %s %d 1700000000.0000000000 1 %d 1 %s\x00%s\x00", letter, mode, size, inode, name, link)
	}
	record("d", 4096, 1, ".", "")
	for i, m := range list {
		size := int64(len(m.Content))
		if m.Size != 0 {
			size = m.Size
		}
		name := m.Name
		if !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "./") {
			name = "./" + name
		}
		letter, ok := map[byte]string{File: "f", Link: "l", Dir: "d", FIFO: "p", Char: "c", Block: "b"}[m.Type]
		if !ok {
			letter = "?"
		}
		record(letter, size, 100+i, name, m.Link)
	}
	b.WriteString("end 0\n\x00")
	return []byte(b.String())
}
