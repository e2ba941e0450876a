package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sbsync/sbsync/pkg/provider"
)

// yamlDoc is a YAML or JSON file that is read strictly: every error names the
// file and the line, and unknown fields are errors.
type yamlDoc struct {
	name string // as messages show it
	root *yaml.Node
}

// errorf returns a usage error at n.
func (d *yamlDoc) errorf(n *yaml.Node, hint, format string, args ...any) error {
	return d.errorAt(n.Line, hint, fmt.Errorf(format, args...))
}

func (d *yamlDoc) errorAt(line int, hint string, err error) error {
	return &provider.Error{Kind: provider.Usage, Op: fmt.Sprintf("%s:%d", d.name, line), Err: err, Hint: hint}
}

// readDoc parses data, which is JSON if it begins with a bracket and YAML
// otherwise. An empty file has a nil root.
func readDoc(name string, data []byte) (*yamlDoc, error) {
	d := &yamlDoc{name: name}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		return d, d.readJSON(data)
	}
	return d, d.readYAML(data)
}

func (d *yamlDoc) readYAML(data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err == io.EOF {
		return nil
	} else if err != nil {
		return d.syntaxError(err)
	}
	if err := dec.Decode(new(yaml.Node)); err == nil {
		return d.errorf(&doc, "remove everything from the second --- on", "more than one YAML document")
	} else if err != io.EOF {
		return d.syntaxError(err)
	}
	if len(doc.Content) == 1 && doc.Content[0].Tag != "!!null" {
		d.root = doc.Content[0]
		return d.checkNodes(d.root)
	}
	return nil
}

// syntaxError takes the line out of yaml's message.
func (d *yamlDoc) syntaxError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	return d.errorAt(line, "", errors.New(text))
}

// checkNodes refuses what would make a file mean more than what can be seen of
// it: aliases (which can also grow without bound), keys that are no plain
// words, and keys that are given twice.
func (d *yamlDoc) checkNodes(n *yaml.Node) error {
	switch n.Kind {
	case yaml.AliasNode:
		return d.errorf(n, "write the value out", "aliases are not supported")
	case yaml.MappingNode:
		seen := make(map[string]int)
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
				return d.errorf(key, "", "this key is not a plain word")
			}
			if line, twice := seen[key.Value]; twice {
				return d.errorf(key, "", "%q is given twice, first in line %d", key.Value, line)
			}
			seen[key.Value] = key.Line
		}
	}
	for _, child := range n.Content {
		if err := d.checkNodes(child); err != nil {
			return err
		}
	}
	return nil
}

// readJSON builds the nodes itself, since YAML is not quite a superset of
// JSON: tabs and escaped surrogate pairs are refused by yaml's parser.
func (d *yamlDoc) readJSON(data []byte) error {
	p := &jsonNodes{dec: json.NewDecoder(bytes.NewReader(data)), data: data}
	p.dec.UseNumber()
	root, err := p.value()
	if err == nil {
		if _, err = p.dec.Token(); err == io.EOF {
			d.root = root
			return d.checkNodes(root)
		}
		if err == nil {
			err = errors.New("data after the end of the JSON value")
		}
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return d.errorAt(p.line(), "", err)
}

type jsonNodes struct {
	dec     *json.Decoder
	data    []byte
	depth   int
	counted int64 // offset up to which newlines are counted
	lines   int
}

// maxJSONDepth is enough for anything sbsync reads.
const maxJSONDepth = 100

// line is where the decoder stands.
func (p *jsonNodes) line() int {
	at := min(p.dec.InputOffset(), int64(len(p.data)))
	p.lines += bytes.Count(p.data[p.counted:at], []byte("\n"))
	p.counted = at
	return p.lines + 1
}

func (p *jsonNodes) value() (*yaml.Node, error) {
	token, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: p.line()}
	switch token := token.(type) {
	case json.Delim:
		return n, p.children(n, token)
	case string:
		n.Tag, n.Value, n.Style = "!!str", token, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = "!!float", token.String()
		if _, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			n.Tag = "!!int"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(token)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

func (p *jsonNodes) children(n *yaml.Node, open json.Delim) error {
	n.Kind, n.Tag = yaml.MappingNode, "!!map"
	if open == '[' {
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	}
	if p.depth++; p.depth > maxJSONDepth {
		return errors.New("nested too deeply")
	}
	for p.dec.More() {
		child, err := p.value()
		if err != nil {
			return err
		}
		n.Content = append(n.Content, child)
	}
	p.depth--
	_, err := p.dec.Token()
	return err
}

// fields calls f for each field of the mapping n, and refuses what is not in
// known, with a suggestion.
func (d *yamlDoc) fields(n *yaml.Node, what string, known []string, f func(key, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return d.errorf(n, "", "%s must be a mapping of names to values", what)
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if known != nil && !slices.Contains(known, key.Value) {
			return d.errorf(key, didYouMean(key.Value, known, "known here: "+strings.Join(known, ", ")),
				"unknown key %q in %s", key.Value, what)
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

// text returns a scalar's text, whatever its type.
func (d *yamlDoc) text(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", d.errorf(n, "", "%s must be a single value", what)
	}
	return n.Value, nil
}

// texts returns the items of a list of scalars; a single scalar is a list of
// one.
func (d *yamlDoc) texts(n *yaml.Node, what string) ([]string, error) {
	if n.Kind != yaml.SequenceNode {
		s, err := d.text(n, what)
		return []string{s}, err
	}
	items := make([]string, len(n.Content))
	for i, item := range n.Content {
		s, err := d.text(item, "each item of "+what)
		if err != nil {
			return nil, err
		}
		items[i] = s
	}
	return items, nil
}
