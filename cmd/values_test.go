package cmd

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "4096": 4096, "1B": 1, "1k": 1024, "1K": 1024, "1KiB": 1024, "1kB": 1000, "1KB": 1000,
		"500M": 500 << 20, "2GiB": 2 << 30, "2GB": 2e9, "1.5G": 3 << 29, "0.5K": 512, "8T": 8 << 40,
		"9223372036854775807": math.MaxInt64,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "M", "-1", "1 K", "1KiBs", "1Mi", "1e3", "0x10", "inf", "NaN", "1.2.3", "12parsecs",
		"9223372036854775808", "8388608T", "+1", "1_000", "KiB1"} {
		if got, err := parseSize(text); err == nil || provider.KindOf(err) != provider.Usage {
			t.Errorf("parseSize(%q) = %d, %v; want a usage error", text, got, err)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	f.Add("1.5GiB")
	f.Add("500M")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseSize(s)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("parseSize(%q) = %d", s, n)
		}
		if again, err := parseSize(formatSize(n)); err != nil || again != n {
			t.Fatalf("parseSize(%q) = %d, %v; want %d", formatSize(n), again, err, n)
		}
	})
}

func TestParseMode(t *testing.T) {
	for text, want := range map[string]uint32{"600": 0o600, "0600": 0o600, "0o755": 0o755, "4755": 0o4755, "0": 0} {
		if got, err := parseMode(text); err != nil || got != want {
			t.Errorf("parseMode(%q) = %o, %v; want %o", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0888", "u+x", "-1", "10000", "0x1ff"} {
		if got, err := parseMode(text); err == nil {
			t.Errorf("parseMode(%q) = %o", text, got)
		}
	}
}

func TestHumanNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 10188: "9.95 KiB",
		10200: "9.96 KiB", 10240: "10.0 KiB", 1 << 20: "1.00 MiB", 1023 << 10: "1.00 MiB", 100 << 20: "100 MiB", 5 << 40: "5.00 TiB"} {
		if got := humanBytes(n); got != want {
			t.Errorf("humanBytes(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := humanCount(n); got != want {
			t.Errorf("humanCount(%d) = %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{3 * time.Millisecond: "3 ms", 2400 * time.Millisecond: "2.4 s",
		192 * time.Second: "3m12s"} {
		if got := humanTime(d); got != want {
			t.Errorf("humanTime(%d) = %q, want %q", d, got, want)
		}
	}
}

// Names and messages from elsewhere must not be able to drive the terminal.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain":               "plain",
		"grüße 😀":             "grüße 😀",
		"a\x1b[2Jb":           `a\u001b[2Jb`,
		"a\rb\tc":             `a\u000db c`,
		"\xff\xfe":            `\xff\xfe`,
		"\ufffd":              "\ufffd",
		"a\u202egnp.exe":      `a\u202egnp.exe`,
		"c1 \u009b31m":        `c1 \u009b31m`,
		"line\u2028separator": `line\u2028separator`,
	} {
		if got := printable(text); got != want {
			t.Errorf("printable(%q) = %q, want %q", text, got, want)
		}
		if strings.ContainsAny(printable(text), "\x1b\r\n") {
			t.Errorf("printable(%q) has control characters", text)
		}
	}
}
