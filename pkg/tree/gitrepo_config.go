package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// gitConfig is what the rules need of git's configuration.
type gitConfig struct {
	excludesFile   *string // core.excludesFile; nil if not set
	ignoreCase     bool
	worktreeConfig bool
	hashSize       int // of object names, in bytes
}

const (
	sha1Size   = 20
	sha256Size = 32
	// maxGitConfig bounds a configuration file, in bytes.
	maxGitConfig = 1 << 20
	// maxInclude is how deep includes may nest: git's MAX_INCLUDE_DEPTH.
	maxInclude = 10
)

// readGitConfig reads the configuration that applies at a place, from the
// weakest file to the strongest: system, user, repository, work tree, the
// environment's GIT_CONFIG_COUNT.
func readGitConfig(place gitPlace) (*gitConfig, error) {
	r := configReader{config: &gitConfig{hashSize: sha1Size}, place: place}
	paths := append(systemConfigs(), globalConfigs()...)
	if place.commonDir != "" {
		paths = append(paths, filepath.Join(place.commonDir, "config"))
	}
	for _, path := range paths {
		if err := r.file(path, 0); err != nil {
			return nil, err
		}
	}
	if r.config.worktreeConfig && place.gitDir != "" {
		if err := r.file(filepath.Join(place.gitDir, "config.worktree"), 0); err != nil {
			return nil, err
		}
	}
	return r.config, r.environment()
}

func systemConfigs() []string {
	if off, ok := gitBool(os.Getenv("GIT_CONFIG_NOSYSTEM")); ok && off {
		return nil
	}
	if path, ok := os.LookupEnv("GIT_CONFIG_SYSTEM"); ok {
		return []string{path}
	}
	return []string{"/etc/gitconfig"}
}

func globalConfigs() []string {
	if path, ok := os.LookupEnv("GIT_CONFIG_GLOBAL"); ok {
		return []string{path}
	}
	var paths []string
	if dir := xdgConfigDir(); dir != "" {
		paths = append(paths, filepath.Join(dir, "git", "config"))
	}
	if home := homeDir(); home != "" {
		paths = append(paths, filepath.Join(home, ".gitconfig"))
	}
	return paths
}

func homeDir() string {
	if home := os.Getenv("HOME"); home != "" {
		return home
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home
}

func xdgConfigDir() string {
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return dir
	}
	if home := homeDir(); home != "" {
		return filepath.Join(home, ".config")
	}
	return ""
}

// excludesPath is the path of the user's ignore file, or "".
func (c *gitConfig) excludesPath() string {
	if c.excludesFile != nil {
		return *c.excludesFile
	}
	if dir := xdgConfigDir(); dir != "" {
		return filepath.Join(dir, "git", "ignore")
	}
	return ""
}

// configReader applies configuration files one after the other.
type configReader struct {
	config *gitConfig
	place  gitPlace
}

// file applies one file and what it includes. A missing one is empty.
func (r *configReader) file(path string, depth int) error {
	if depth > maxInclude {
		return fmt.Errorf("read git config %q: includes are nested more than %d deep", path, maxInclude)
	}
	data, err := readRegular(path, maxGitConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = parseGitConfig(data, func(v configValue) error { return r.apply(v, path, depth) })
	if err != nil {
		return fmt.Errorf("read git config %q: %w", path, err)
	}
	return nil
}

// environment applies GIT_CONFIG_COUNT, GIT_CONFIG_KEY_n and GIT_CONFIG_VALUE_n.
func (r *configReader) environment() error {
	count, _ := strconv.Atoi(os.Getenv("GIT_CONFIG_COUNT"))
	for i := range count {
		n := strconv.Itoa(i)
		key, ok := os.LookupEnv("GIT_CONFIG_KEY_" + n)
		if !ok {
			return fmt.Errorf("read git config: GIT_CONFIG_KEY_%d is not set", i)
		}
		v := configValue{value: os.Getenv("GIT_CONFIG_VALUE_" + n)}
		section, name, _ := strings.Cut(key, ".")
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			v.subsection, name = name[:i], name[i+1:]
		}
		v.section, v.name = lowerString(section), lowerString(name)
		if err := r.apply(v, "", 0); err != nil {
			return err
		}
	}
	return nil
}

// apply takes one value from the file at path.
func (r *configReader) apply(v configValue, path string, depth int) error {
	c := r.config
	switch v.section + "." + v.name {
	case "core.excludesfile":
		if v.subsection == "" {
			file := expandHome(v.value)
			c.excludesFile = &file
		}
	case "core.ignorecase":
		if v.subsection == "" {
			return v.setBool(&c.ignoreCase)
		}
	case "extensions.worktreeconfig":
		return v.setBool(&c.worktreeConfig)
	case "extensions.objectformat":
		return c.setObjectFormat(v.value)
	case "include.path":
		if v.subsection == "" {
			return r.include(v.value, path, depth)
		}
	case "includeif.path":
		if r.condition(v.subsection, path) {
			return r.include(v.value, path, depth)
		}
	}
	return nil
}

func (c *gitConfig) setObjectFormat(format string) error {
	switch format {
	case "sha1":
		c.hashSize = sha1Size
	case "sha256":
		c.hashSize = sha256Size
	default:
		return fmt.Errorf("object format %q is not supported", format)
	}
	return nil
}

// include applies the file that one at path names.
func (r *configReader) include(name, path string, depth int) error {
	name = expandHome(name)
	if !filepath.IsAbs(name) {
		if path == "" {
			return fmt.Errorf("relative include %q outside a file", name)
		}
		name = filepath.Join(filepath.Dir(path), name)
	}
	return r.file(name, depth+1)
}

// condition says whether an includeIf applies. Conditions on remotes, and
// those that a newer git may know, do not.
func (r *configReader) condition(text, path string) bool {
	kind, pattern, _ := strings.Cut(text, ":")
	switch kind {
	case "gitdir", "gitdir/i":
		return r.place.gitDir != "" && r.gitDirMatches(pattern, path, kind == "gitdir/i")
	case "onbranch":
		data, err := readRegular(filepath.Join(r.place.gitDir, "HEAD"), maxGitFile)
		branch, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "ref: refs/heads/")
		if err != nil || !ok || r.place.gitDir == "" {
			return false
		}
		return globMatches(wholeDirs(pattern), branch, false)
	}
	return false
}

// gitDirMatches compares the git directory's path with the pattern of a
// "gitdir:" condition in the file at path.
func (r *configReader) gitDirMatches(pattern, path string, fold bool) bool {
	dir := filepath.ToSlash(r.place.gitDir)
	pattern = filepath.ToSlash(expandHome(pattern))
	if rest, ok := strings.CutPrefix(pattern, "./"); ok {
		base, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil || path == "" {
			return false
		}
		below, ok := strings.CutPrefix(dir, filepath.ToSlash(base)+"/")
		return ok && globMatches(wholeDirs(rest), below, fold)
	}
	if !filepath.IsAbs(pattern) {
		pattern = "**/" + pattern
	}
	return globMatches(wholeDirs(pattern), dir, fold)
}

// wholeDirs lets a pattern that ends in "/" match all that is below.
func wholeDirs(pattern string) string {
	if strings.HasSuffix(pattern, "/") {
		return pattern + "**"
	}
	return pattern
}

func globMatches(pattern, text string, fold bool) bool {
	g, err := compileGlob(pattern, fold)
	return err == nil && g.match(text)
}

// expandHome replaces a leading "~/".
func expandHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home := homeDir(); home != "" {
			return strings.TrimSuffix(home, "/") + "/" + rest // a "/" at the end stays
		}
	}
	return path
}
