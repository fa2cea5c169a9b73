package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// dockerfile reads a Dockerfile with BuildKit's own parser and prints its stages: a
// line "stage NAME FROM" for each, and after it one line for each of its steps, such
// as "RUN go mod download".
func dockerfile(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	parsed, err := parser.Parse(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	var text strings.Builder
	for _, s := range stages {
		fmt.Fprintf(&text, "stage %s %s\n", s.Name, s.BaseName)
		for _, c := range s.Commands {
			line, ok := c.(fmt.Stringer)
			if !ok {
				return "", fmt.Errorf("%s: step %s cannot be printed", file, c.Name())
			}
			fmt.Fprintln(&text, line)
		}
	}
	return text.String(), nil
}
