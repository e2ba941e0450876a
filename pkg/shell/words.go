package shell

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Words puts words of any bytes but NUL into a script, for transports that carry
// text: those that are UTF-8 become the script's arguments, the others are
// spelled out in it, at three to four times their length. The zero value is
// ready.
type Words struct {
	args     []string
	spelled  strings.Builder
	variable int
}

// Add returns what stands for the word in the script.
func (w *Words) Add(word string) string {
	if utf8.ValidString(word) {
		w.args = append(w.args, word)
		return fmt.Sprintf(`"${%d}"`, len(w.args))
	}
	w.variable++
	name := fmt.Sprintf("sbsync_%d", w.variable)
	fmt.Fprintf(&w.spelled, "%s=$(printf '", name)
	for _, c := range []byte(word) {
		switch {
		case c == '%':
			w.spelled.WriteString("%%")
		case c == '\\' || c == '\'' || c >= 0x80:
			fmt.Fprintf(&w.spelled, `\%03o`, c)
		default:
			w.spelled.WriteByte(c)
		}
	}
	// The x keeps newlines at the end, which $() would cut.
	fmt.Fprintf(&w.spelled, "x')\n%s=${%s%%x}\n", name, name)
	return `"${` + name + `}"`
}

// Assignments is the text that the script has to begin with.
func (w *Words) Assignments() string { return w.spelled.String() }

// Args are the script's arguments, in order.
func (w *Words) Args() []string { return w.args }
