//go:build unix

package shell

import (
	"os/exec"
	"strings"
	"testing"
)

func TestIsVariable(t *testing.T) {
	for name, want := range map[string]bool{"A": true, "_b9": true, "9b": false, "": false, "a-b": false, "a=b": false, "é": false, "a;b": false} {
		if IsVariable(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func FuzzQuote(f *testing.F) {
	f.Add([]byte("it's\x00a\"b\x00$(x)\x00`id`\x00\n\x00\\\x00-n\x00%s\x00\xff\xfe\x00*\x00 "))
	f.Add([]byte("''''\x00!\x00~\x00é\x00"))
	f.Fuzz(func(t *testing.T, words []byte) {
		list := strings.Split(string(words), "\x00")
		text := []byte(`printf '%s\000'`)
		for i, w := range list {
			text = append(text, ' ')
			if i%2 == 0 {
				text = append(text, Quote(w)...)
			} else {
				text = AppendQuoted(text, w)
			}
			if len(Quote(w)) != QuotedLen(w) || string(AppendQuoted(nil, w)) != Quote(w) {
				t.Errorf("%q: two lengths or texts", w)
			}
		}
		if len(text) > 100_000 {
			return
		}
		out, err := exec.Command("sh", "-c", string(text)).Output()
		if err != nil || string(out) != strings.Join(list, "\x00")+"\x00" {
			t.Errorf("%q: sh made %q of it, %v", words, out, err)
		}
	})
}

func FuzzWords(f *testing.F) {
	f.Add([]byte("it's\x00\xff%s\\n'\n\x00é\x00\xfe\n\n\x00\xff012\x00"))
	f.Fuzz(func(t *testing.T, words []byte) {
		list := strings.Split(string(words), "\x00")
		var w Words
		text := `printf '%s\000'`
		for _, word := range list {
			text += " " + w.Add(word)
		}
		if text = w.Assignments() + text; len(text) > 100_000 {
			return
		}
		out, err := exec.Command("sh", append([]string{"-c", text, "sh"}, w.Args()...)...).Output()
		if err != nil || string(out) != strings.Join(list, "\x00")+"\x00" {
			t.Errorf("%q: sh made %q of it, %v", words, out, err)
		}
	})
}
