package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds how deep fields are looked for; a configuration has four levels.
const maxDepth = 16

// places finds the line of each field of a document by its path, such as
// "ipvs.scheduler", and the fields that are there twice.
func places(d document) (lines map[string]int, twice []string, err error) {
	var root yaml.Node
	if err := yaml.Unmarshal(d.text, &root); err != nil {
		return nil, nil, err
	}
	p := placer{lines: map[string]int{}, offset: d.line - 1}
	for _, n := range root.Content {
		p.visit(n, "", 0)
	}
	return p.lines, p.twice, nil
}

type placer struct {
	lines  map[string]int
	twice  []string
	offset int
}

// visit walks a node. Aliases are not followed: what they stand for was visited.
func (p *placer) visit(n *yaml.Node, path string, depth int) {
	if depth > maxDepth {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			field := key.Value
			if path != "" {
				field = path + "." + field
			}
			line := key.Line + p.offset
			if first, ok := p.lines[field]; ok {
				p.twice = append(p.twice, fmt.Sprintf("duplicate field %q (lines %d and %d): the last one counts", field, first, line))
			}
			p.lines[field] = line
			p.visit(n.Content[i+1], field, depth+1)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			p.visit(item, fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
	}
}
