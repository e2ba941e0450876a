package cmd

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// sizeValue is a flag of a number of bytes: 4096, 500M, 1.5GiB. K, M, G, T and
// KiB to TiB are powers of 1,024, kB to TB powers of 1,000, as dd has them.
type sizeValue int64

func (v *sizeValue) String() string { return formatSize(int64(*v)) }
func (v *sizeValue) Type() string   { return "SIZE" }

func (v *sizeValue) Set(s string) error {
	n, err := parseSize(s)
	if err == nil {
		*v = sizeValue(n)
	}
	return err
}

func parseSize(s string) (int64, error) {
	const hint = "write a number of bytes like 4096, 500M or 1.5GiB"
	digits := strings.TrimRight(s, "KMGTkmgtiB")
	unit, ok := sizeUnits()[s[len(digits):]]
	number, err := strconv.ParseFloat(digits, 64)
	if err != nil || !ok || strings.Trim(digits, "0123456789.") != "" {
		return 0, usageError(hint, "not a size")
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n <= math.MaxInt64/unit {
		return n * unit, nil
	}
	bytes := number * float64(unit)
	if bytes >= math.MaxInt64 {
		return 0, usageError(hint, "too large")
	}
	return int64(bytes), nil
}

func sizeUnits() map[string]int64 {
	units := map[string]int64{"": 1, "B": 1, "kB": 1000}
	binary, decimal := int64(1), int64(1)
	for _, prefix := range []string{"K", "M", "G", "T"} {
		binary, decimal = binary<<10, decimal*1000
		units[prefix], units[strings.ToLower(prefix)], units[prefix+"iB"], units[prefix+"B"] = binary, binary, binary, decimal
	}
	return units
}

// formatSize writes n so that parseSize reads the same number.
func formatSize(n int64) string {
	if n == 0 {
		return "0"
	}
	i := 0
	for ; i < 4 && n%1024 == 0; i++ {
		n /= 1024
	}
	return strconv.FormatInt(n, 10) + []string{"", "KiB", "MiB", "GiB", "TiB"}[i]
}

// modeValue is a flag of permission bits, always octal: 600, 0600, 0o600.
type modeValue struct{ bits *uint32 }

func (v *modeValue) Type() string { return "MODE" }

func (v *modeValue) String() string {
	if v.bits == nil {
		return ""
	}
	return fmt.Sprintf("%04o", *v.bits)
}

func (v *modeValue) Set(s string) error {
	bits, err := parseMode(s)
	if err == nil {
		v.bits = &bits
	}
	return err
}

func parseMode(s string) (uint32, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "0o"), 8, 32)
	if err != nil || n > 0o7777 {
		return 0, usageError("write permission bits in octal, like 0644", "not a mode")
	}
	return uint32(n), nil
}

// choiceValue is a flag that takes one of a few words. T is a string type of
// package transfer.
type choiceValue[T ~string] struct {
	value   *T
	choices []T
}

func (v choiceValue[T]) String() string {
	if v.value == nil {
		return ""
	}
	return string(*v.value)
}

func (v choiceValue[T]) Type() string { return strings.Join(v.words(), "|") }

func (v choiceValue[T]) Set(s string) error {
	if !slices.Contains(v.choices, T(s)) {
		return usageError(didYouMean(s, v.words(), ""), "not one of %s", strings.Join(v.words(), ", "))
	}
	*v.value = T(s)
	return nil
}

func (v choiceValue[T]) words() []string {
	words := make([]string, len(v.choices))
	for i, c := range v.choices {
		words[i] = string(c)
	}
	return words
}
