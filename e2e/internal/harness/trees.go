package harness

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// epoch is when the files of trees were last modified, more or less.
var epoch = time.Unix(1_700_000_000, 123_456_789)

// WriteTrees writes two versions of a tree: much is in both, much has changed,
// and some is in one of them only. Names have the same type in both.
func WriteTrees(rng *rand.Rand, one, two string) error {
	const dirs, files = 12, 15
	for d := range dirs {
		for f := range files {
			rel := fmt.Sprintf("dir %d/sub/file %d", d, f)
			if f%3 == 0 {
				rel = fmt.Sprintf("dir %d/file %d", d, f)
			}
			if err := writeVersions(rng, rel, rng.IntN(20<<10), one, two); err != nil {
				return err
			}
		}
	}
	for _, big := range []string{"big", "dir 1/also big"} {
		if err := writeFile(filepath.Join(one, big), random(rng, 2<<20), 0o644, 0); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(two, big), random(rng, 2<<20+rng.IntN(100)), 0o644, 1); err != nil {
			return err
		}
	}
	for dir, text := range map[string]string{one: "dir 1", two: "dir 2/sub"} {
		if err := os.Symlink(text, filepath.Join(dir, "link")); err != nil {
			return err
		}
	}
	return nil
}

// writeVersions writes a file that is in one version, the other, or both.
func writeVersions(rng *rand.Rand, rel string, size int, one, two string) error {
	content := random(rng, size)
	mode := []os.FileMode{0o644, 0o600, 0o755, 0o444}[rng.IntN(4)]
	fate := rng.IntN(8)
	if fate != 0 {
		if err := writeFile(filepath.Join(one, rel), content, mode, 0); err != nil {
			return err
		}
	}
	age := 0
	switch fate {
	case 1:
		return nil
	case 2, 3, 4:
		content, age = random(rng, size), 1
	case 5:
		mode ^= 0o040
	}
	return writeFile(filepath.Join(two, rel), content, mode, age)
}

// WriteMany writes a tree of n files without much in them.
func WriteMany(root string, n int) error {
	for i := range n {
		rel := fmt.Sprintf("%02d/%03d", i%100, i/100)
		if err := writeFile(filepath.Join(root, rel), []byte(rel), 0o644, 0); err != nil {
			return err
		}
	}
	return nil
}

// WriteFile writes a file of random bytes.
func WriteFile(rng *rand.Rand, name string, size int) error {
	return writeFile(name, random(rng, size), 0o644, rng.IntN(1000))
}

func writeFile(name string, content []byte, mode os.FileMode, age int) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name, content, mode); err != nil {
		return err
	}
	when := epoch.Add(time.Duration(age) * time.Minute)
	return os.Chtimes(name, when, when)
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}
