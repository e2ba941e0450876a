package cmd

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/transfer"
)

// maxOpsBytes bounds an operations file, which is held in memory.
const maxOpsBytes = 64 << 20

// readOps reads the operations file that --ops names.
func (a *app) readOps(name string, dir transfer.Direction) ([]transfer.Operation, error) {
	in := a.In
	if name != stdStream {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError("", "--ops: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxOpsBytes+1))
	if err != nil {
		return nil, usageError("", "--ops %q: %w", name, err)
	}
	if len(data) > maxOpsBytes {
		return nil, &provider.Error{Kind: provider.TooLarge, Op: fmt.Sprintf("--ops %q", name),
			Err: fmt.Errorf("more than %s", formatSize(maxOpsBytes))}
	}
	if name == stdStream {
		name = "<stdin>"
	}
	return parseOps(name, data, dir)
}

// parseOps reads a list of operations, or an object with the list under
// "operations", as docs/contract.md has them. The field names are the JSON
// names of [provider.SyncOperation]. It is strict: what it does not know is an
// error of kind Usage that names the line; a path that is not absolute is one
// of kind Confined.
func parseOps(name string, data []byte, dir transfer.Direction) ([]transfer.Operation, error) {
	doc, err := readDoc(name, data)
	if err != nil {
		return nil, err
	}
	p := &opsParser{yamlDoc: doc, dir: dir}
	list := doc.root
	if list != nil && list.Kind == yaml.MappingNode {
		outer := list
		list = nil
		err = p.fields(outer, "the operations file", []string{"operations"}, func(_, value *yaml.Node) error {
			list = value
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	if list == nil {
		return nil, doc.errorAt(1, "write a list of operations, see docs/contract.md", fmt.Errorf("no operations"))
	}
	return listOf(p, list, "operations", p.operation)
}

type opsParser struct {
	*yamlDoc
	dir transfer.Direction
}

// listOf reads every item of the list n.
func listOf[T any](p *opsParser, n *yaml.Node, what string, read func(*yaml.Node) (T, error)) ([]T, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, p.errorf(n, "", "%s must be a list", what)
	}
	var items []T
	for _, item := range n.Content {
		v, err := read(item)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	return items, nil
}

func (p *opsParser) operation(n *yaml.Node) (op transfer.Operation, err error) {
	known := []string{"operationId", "files", "postUploadCommands"}
	err = p.fields(n, "an operation", known, func(key, v *yaml.Node) (err error) {
		switch key.Value {
		case "operationId":
			op.ID, err = p.str(v, key.Value)
		case "files":
			op.Files, err = listOf(p, v, key.Value, p.mapping)
		case "postUploadCommands":
			if p.dir == transfer.Pull && len(v.Content) > 0 {
				return p.errorf(key, "", "postUploadCommands in a pull")
			}
			op.Commands, err = listOf(p, v, key.Value, p.command)
		}
		return err
	})
	if err == nil && op.ID == "" {
		err = p.errorf(n, "any text will do; it is only shown", "an operation has no operationId")
	}
	if err == nil && op.Files == nil {
		err = p.errorf(n, "", "operation %q has no files", op.ID)
	}
	return op, err
}

func (p *opsParser) mapping(n *yaml.Node) (m transfer.Mapping, err error) {
	known := []string{"sourcePath", "targetPath", "kind", "mode", "exclude", "followSymlinks", "access", "writablePath"}
	given := make(map[string]*yaml.Node)
	err = p.fields(n, "a mapping", known, func(key, v *yaml.Node) (err error) {
		given[key.Value] = key
		switch key.Value {
		case "sourcePath":
			m.Source, err = p.absolute(v, key.Value, p.dir == transfer.Push)
		case "targetPath":
			m.Target, err = p.absolute(v, key.Value, p.dir == transfer.Pull)
		case "kind":
			err = p.kind(v, &m)
		case "mode":
			m.Mode, err = p.mode(v)
		case "exclude":
			m.Exclude, err = listOf(p, v, key.Value, func(n *yaml.Node) (string, error) { return p.str(n, "a pattern") })
		case "followSymlinks":
			var follow bool
			if follow, err = p.boolean(v, key.Value); follow {
				m.Symlinks = transfer.Follow
			}
		}
		return err
	})
	if err != nil {
		return m, err
	}
	return m, p.complete(n, &m, given)
}

// complete checks what a mapping must have, and gives it what the contract
// says for its kind.
func (p *opsParser) complete(n *yaml.Node, m *transfer.Mapping, given map[string]*yaml.Node) error {
	for _, name := range []string{"sourcePath", "targetPath", "kind"} {
		if given[name] == nil {
			return p.errorf(n, "", "a mapping has no %s", name)
		}
	}
	if m.Kind == transfer.DirectoryKind {
		m.Policy = transfer.Replace
		if m.Symlinks == "" {
			m.Symlinks = transfer.Preserve
		}
		return nil
	}
	for _, name := range []string{"exclude", "followSymlinks"} {
		if given[name] != nil && (len(m.Exclude) > 0 || m.Symlinks != "") {
			return p.errorf(given[name], "", "%s is for directory mappings only", name)
		}
	}
	return nil
}

func (p *opsParser) kind(n *yaml.Node, m *transfer.Mapping) error {
	kinds := []string{string(transfer.FileKind), string(transfer.DirectoryKind)}
	s, err := p.str(n, "kind")
	if err == nil && !slices.Contains(kinds, s) {
		err = p.errorf(n, didYouMean(s, kinds, ""), "kind %q: not one of file, directory", s)
	}
	m.Kind = transfer.Kind(s)
	return err
}

// absolute reads a path. Relative ones would depend on where sbsync runs, and
// "-" would be a standard stream.
func (p *opsParser) absolute(n *yaml.Node, what string, onHost bool) (string, error) {
	s, err := p.str(n, what)
	if err != nil {
		return "", err
	}
	if onHost && !filepath.IsAbs(s) || !onHost && !path.IsAbs(s) {
		return "", &provider.Error{Kind: provider.Confined, Op: fmt.Sprintf("%s:%d", p.name, n.Line),
			Err: fmt.Errorf("%s %q is not absolute", what, s)}
	}
	return s, nil
}

// looksOctal lists numbers that are no sensible modes by themselves, but are
// when read as octal digits: somebody left out the quotes.
const looksOctal = " 400 440 444 500 550 555 600 640 644 660 664 666 700 750 755 770 775 777 "

// mode reads permission bits: a number as the contract has it (384 is 0600), or
// octal digits in a string. YAML's 0600 is an octal number.
func (p *opsParser) mode(n *yaml.Node) (*uint32, error) {
	s, err := p.text(n, "mode")
	if err != nil {
		return nil, err
	}
	if n.Tag == "!!str" {
		bits, err := parseMode(s)
		if err != nil {
			return nil, p.errorf(n, provider.HintOf(err), "mode %q: %w", s, plainCause(err))
		}
		return &bits, nil
	}
	number, err := strconv.ParseUint(s, 0, 32)
	if err != nil || number > 0o7777 {
		return nil, p.errorf(n, `write octal digits in a string, like "0644"`, "mode %s: not a mode", s)
	}
	if strings.Contains(looksOctal, " "+s+" ") {
		return nil, p.errorf(n, fmt.Sprintf(`if you mean octal digits, write "0%s"`, s), "mode %s: as a number this is octal %04o", s, number)
	}
	bits := uint32(number)
	return &bits, nil
}

func (p *opsParser) command(n *yaml.Node) (c transfer.PostCommand, err error) {
	err = p.fields(n, "a post-upload command", []string{"command", "cwd", "timeoutMs"}, func(key, v *yaml.Node) (err error) {
		switch key.Value {
		case "command":
			c.Command, err = p.str(v, key.Value)
		case "cwd":
			c.Dir, err = p.absolute(v, key.Value, false)
		case "timeoutMs":
			c.Timeout, err = p.milliseconds(v, key.Value)
		}
		return err
	})
	if err == nil && c.Command == "" {
		err = p.errorf(n, "", "a post-upload command has no command")
	}
	return c, err
}

func (p *opsParser) milliseconds(n *yaml.Node, what string) (time.Duration, error) {
	ms, err := strconv.ParseInt(n.Value, 10, 64)
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || ms < 0 || ms > most {
		return 0, p.errorf(n, "", "%s must be a number of milliseconds", what)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func (p *opsParser) boolean(n *yaml.Node, what string) (bool, error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		return false, p.errorf(n, "", "%s must be true or false", what)
	}
	return strconv.ParseBool(strings.ToLower(n.Value))
}

// str reads a string that is one: YAML's 1.10 and yes are not.
func (p *opsParser) str(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return "", p.errorf(n, "put it in quotes if it looks like something else", "%s must be a string", what)
	}
	return n.Value, nil
}
