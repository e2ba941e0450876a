package hostile

import (
	"fmt"
	"io"
	"strings"
)

// bombs are more than anybody asked for.
func bombs() []Archive {
	million := func(w io.Writer, m func(i int) []byte) error {
		for i := range 1_000_000 {
			if _, err := w.Write(m(i)); err != nil {
				return err
			}
		}
		return nil
	}
	good := members(Wanted()...)
	bomb := func(name, about string, write func(w io.Writer) error) Archive {
		return Archive{Name: name, About: about, Bomb: true, write: func(w io.Writer) error {
			if _, err := w.Write(good); err != nil {
				return err
			}
			if err := write(w); err != nil {
				return err
			}
			_, err := w.Write(end())
			return err
		}}
	}
	deep := bomb("bomb-deep", "a file below 2,000 directories", func(w io.Writer) error {
		_, err := w.Write(join(record(GNULong, strings.Repeat("d/", 2000)+"f\x00"), header(File, "x", "", 0)))
		return err
	})
	deep.Listed = append(Wanted(), nested(33_000)...)
	many := bomb("bomb-members", "a million files", func(w io.Writer) error {
		return million(w, func(i int) []byte { return header(File, fmt.Sprintf("./many/%d", i), "", 0) })
	})
	return []Archive{
		many,
		deep,
		bomb("bomb-name", "a name of nearly a megabyte", func(w io.Writer) error {
			_, err := w.Write(join(record(GNULong, strings.Repeat("n", 1<<20-2*blockSize)), header(File, "x", "", 0)))
			return err
		}),
		bomb("bomb-record", "a record of a gigabyte", func(w io.Writer) error {
			if _, err := w.Write(header(PAX, "x", "", 1<<30)); err != nil {
				return err
			}
			return million(w, func(int) []byte { return make([]byte, 1<<10) })
		}),
		bomb("bomb-records", "a million records for one member", func(w io.Writer) error {
			return million(w, func(int) []byte { return header(PAXAll, "x", "", 0) })
		}),
		bomb("bomb-zeros", "a gigabyte of zeros after the end", func(w io.Writer) error {
			return million(w, func(int) []byte { return make([]byte, 1<<10) })
		}),
		bomb("bomb-links", "a million links", func(w io.Writer) error {
			return million(w, func(i int) []byte { return header(Link, fmt.Sprintf("./l%d", i), fmt.Sprintf("l%d", i+1), 0) })
		}),
	}
}

// nested are directories in each other, whose path is about n bytes in all.
func nested(n int) []Member {
	var list []Member
	path := "d"
	for ; len(path) < n; path += "/" + strings.Repeat("d", 250) {
		list = append(list, Member{Name: path, Type: Dir})
	}
	return list
}
