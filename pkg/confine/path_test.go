package confine

import (
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

func TestCheckPath(t *testing.T) {
	ok := []string{
		"a", "a/b", "a/b/c", " a", "b ", "-rf", "--help", "-", "...", "..a", "a..", ".hidden", "a\\..\\b", "C:x",
		"[slug]-1.js", "it's", "$(touch pwn)", "a\nb", "\xff\xfe", "a -> b", strings.Repeat("x", 255),
		strings.Repeat("d/", 3000) + "f",
	}
	for _, rel := range ok {
		if err := CheckPath(rel); err != nil {
			t.Errorf("CheckPath(%q) = %v, want nil", rel, err)
		}
	}
	bad := map[string]string{
		"":                              "empty path",
		"/":                             "absolute",
		"/etc/passwd":                   "absolute",
		"//a":                           "absolute",
		".":                             `"." element`,
		"..":                            `".." element`,
		"../x":                          `".." element`,
		"../../x":                       `".." element`,
		"a/../x":                        `".." element`,
		"a/../../x":                     `".." element`,
		"a/..":                          `".." element`,
		"d/../d/x":                      `".." element`,
		"./a":                           `"." element`,
		"a/./b":                         `"." element`,
		"a/.":                           `"." element`,
		"a//b":                          "empty element",
		"a/":                            "empty element",
		"a\x00b":                        "NUL",
		"a/\x00":                        "NUL",
		strings.Repeat("x", 256):        "longer than 255",
		"a/" + strings.Repeat("x", 256): "longer than 255",
	}
	for rel, want := range bad {
		err := CheckPath(rel)
		if err == nil {
			t.Errorf("CheckPath(%q) = nil, want %q", rel, want)
			continue
		}
		if provider.KindOf(err) != provider.Confined || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckPath(%q) = %v of kind %v, want %q", rel, err, provider.KindOf(err), want)
		}
	}
}

func TestCheckPathKeepsErrorsShort(t *testing.T) {
	err := CheckPath("/" + strings.Repeat("\x01", 1<<20))
	if n := len(err.Error()); n > 4096 {
		t.Errorf("error text has %d bytes", n)
	}
}

func TestCheckHostName(t *testing.T) {
	tests := []struct {
		rel           string
		windows, unix bool
	}{
		{"a/b.txt", true, true},
		{"com", true, true},
		{"com10", true, true},
		{"console.log", true, true},
		{"nullable", true, true},
		{"x.nul", true, true},
		{"é/ü", true, true},
		{"a.b.c", true, true},
		{`a\b`, false, true},
		{`..\x`, false, true},
		{"C:x", false, true},
		{"file:stream", false, true},
		{"a?b", false, true},
		{"a\tb", false, true},
		{"nul", false, true},
		{"d/NUL", false, true},
		{"Nul.txt", false, true},
		{"aux.tar.gz", false, true},
		{"con ", false, true},
		{"con .x", false, true},
		{"COM1", false, true},
		{"lpt9.x", false, true},
		{"com¹", false, true},
		{"CONIN$", false, true},
		{"a.", false, true},
		{"a ", false, true},
		{"d./x", false, true},
		{"...", false, true},
		{"\xff\xfe", false, true},
		{"../x", false, false},
		{"", false, false},
	}
	for _, tt := range tests {
		for goos, want := range map[string]bool{"windows": tt.windows, "linux": tt.unix, "darwin": tt.unix} {
			err := checkHostName(goos, tt.rel)
			if (err == nil) != want {
				t.Errorf("%s: %q: %v, want allowed %v", goos, tt.rel, err, want)
			}
			if err != nil && provider.KindOf(err) != provider.Confined {
				t.Errorf("%s: %q: kind %v", goos, tt.rel, provider.KindOf(err))
			}
		}
	}
}
