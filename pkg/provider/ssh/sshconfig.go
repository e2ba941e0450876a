package ssh

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The reader of ssh_config(5). github.com/kevinburke/ssh_config 1.6 was tried
// first: it refuses a whole file for one "Match exec", reads "Match host a user
// b" as three host patterns, and can't list the hosts of included files.

// maxIncludeDepth is OpenSSH's READCONF_MAX_DEPTH.
const maxIncludeDepth = 16

// sshConfig is what the files say, line by line in the order in which OpenSSH
// would read them: for each keyword the first value counts.
type sshConfig struct {
	blocks []block
	// skipped are Match lines whose conditions are not understood; their blocks
	// are left out.
	skipped []string
}

// block is a Host or Match line and what follows it. Of nested ones (an Include
// inside of a Host block) all conditions must hold.
type block struct {
	conditions []condition
	settings   []setting
}

type setting struct {
	key  string // lower case
	args []string
}

// condition is one criterion of a Match line, or the patterns of a Host line.
type condition struct {
	subject  string // "alias", "host", "user", "localuser", "all", "never"
	patterns []string
	negated  bool
}

// readSSHConfig reads the files in order. One that is not there is passed over,
// unless it is required.
func readSSHConfig(home string, required bool, files ...string) (*sshConfig, error) {
	c := &sshConfig{}
	for _, name := range files {
		r := configReader{config: c, home: home, system: strings.HasPrefix(name, "/etc/")}
		err := r.file(name, nil, 0)
		if errors.Is(err, fs.ErrNotExist) && !required {
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// configReader reads one file and what it includes.
type configReader struct {
	config *sshConfig
	home   string
	system bool
}

func (r *configReader) file(name string, outer []condition, depth int) error {
	if depth > maxIncludeDepth {
		return fmt.Errorf("%s: too many nested Include lines", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	current := outer
	r.begin(current)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		key, args, err := splitLine(lines.Text())
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		switch key {
		case "":
		case "host":
			current = append(slices.Clone(outer), condition{subject: "alias", patterns: args})
			r.begin(current)
		case "match":
			current = append(slices.Clone(outer), r.match(fmt.Sprintf("%s:%d", name, n), args)...)
			r.begin(current)
		case "include":
			if err := r.include(args, current, depth); err != nil {
				return err
			}
			r.begin(current)
		default:
			b := &r.config.blocks[len(r.config.blocks)-1]
			b.settings = append(b.settings, setting{key, args})
		}
	}
	return lines.Err()
}

func (r *configReader) begin(conditions []condition) {
	r.config.blocks = append(r.config.blocks, block{conditions: conditions})
}

// include reads the files that the patterns name. Relative ones lie in ~/.ssh,
// or in /etc/ssh for the system's file, wherever the including file is.
func (r *configReader) include(patterns []string, current []condition, depth int) error {
	for _, p := range patterns {
		p = expandHome(p, r.home)
		switch {
		case filepath.IsAbs(p):
		case r.system:
			p = filepath.Join("/etc/ssh", p)
		default:
			p = filepath.Join(r.home, ".ssh", p)
		}
		names, err := filepath.Glob(p)
		if err != nil {
			return fmt.Errorf("include %q: %w", p, err)
		}
		for _, name := range names {
			if err := r.file(name, current, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// match reads the criteria of a Match line. What is not understood never
// matches; commands are not run for it.
func (r *configReader) match(at string, args []string) []condition {
	var all []condition
	for i := 0; i < len(args); i++ {
		word, negated := strings.CutPrefix(strings.ToLower(args[i]), "!")
		switch word {
		case "all":
			all = append(all, condition{subject: "all", negated: negated})
			continue
		case "host", "originalhost", "user", "localuser":
			if i++; i < len(args) {
				if word == "originalhost" {
					word = "alias"
				}
				all = append(all, condition{subject: word, patterns: strings.Split(args[i], ","), negated: negated})
				continue
			}
		}
		r.config.skipped = append(r.config.skipped, at)
		return []condition{{subject: "never"}}
	}
	return all
}

// splitLine reads "Keyword value value", "Keyword=value" and quoted values. A
// word that begins with # begins a comment.
func splitLine(line string) (key string, args []string, err error) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", nil, nil
	}
	end := strings.IndexAny(line, " \t=")
	if end < 0 {
		return "", nil, fmt.Errorf("%q has no value", line)
	}
	key = strings.ToLower(line[:end])
	rest := strings.TrimLeft(line[end:], " \t")
	rest = strings.TrimLeft(strings.TrimPrefix(rest, "="), " \t")
	for rest != "" && rest[0] != '#' {
		var word string
		if word, rest, err = cutWord(rest); err != nil {
			return "", nil, err
		}
		args = append(args, word)
		rest = strings.TrimLeft(rest, " \t")
	}
	if len(args) == 0 {
		return "", nil, fmt.Errorf("%q has no value", line)
	}
	return key, args, nil
}

// cutWord takes one word off a line. Quotes may begin anywhere; a backslash
// stands for itself unless a quote, another backslash or a blank follows.
func cutWord(s string) (word, rest string, err error) {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && (strings.IndexByte(`"'\`, s[i+1]) >= 0 || quote == 0 && s[i+1] == ' '):
			i++
			b.WriteByte(s[i])
		case c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && (c == ' ' || c == '\t'):
			return b.String(), s[i:], nil
		default:
			b.WriteByte(c)
		}
	}
	if quote != 0 {
		return "", "", errors.New("a quote is not closed")
	}
	return b.String(), "", nil
}

// subjects are what conditions are held against.
type subjects struct{ alias, host, user, localUser string }

func (c condition) holds(s subjects) bool {
	switch c.subject {
	case "all":
		return !c.negated
	case "alias":
		return matchList(c.patterns, s.alias) != c.negated
	case "host":
		return matchList(c.patterns, s.host) != c.negated
	case "user":
		return matchList(c.patterns, s.user) != c.negated
	case "localuser":
		return matchList(c.patterns, s.localUser) != c.negated
	}
	return false
}

// matchList says whether a pattern matches and none of those with a ! does.
func matchList(patterns []string, s string) bool {
	found := false
	for _, p := range patterns {
		bare, not := strings.CutPrefix(p, "!")
		if !wildcard(strings.ToLower(bare), strings.ToLower(s)) {
			continue
		}
		if not {
			return false
		}
		found = true
	}
	return found
}

// wildcard matches * and ? as OpenSSH does: no classes, no escapes.
func wildcard(pattern, s string) bool {
	for pattern != "" {
		switch {
		case pattern[0] == '*':
			for i := 0; i <= len(s); i++ {
				if wildcard(pattern[1:], s[i:]) {
					return true
				}
			}
			return false
		case s == "", pattern[0] != '?' && pattern[0] != s[0]:
			return false
		}
		pattern, s = pattern[1:], s[1:]
	}
	return s == ""
}

func expandHome(p, home string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return filepath.Join(home, rest)
	}
	return p
}
