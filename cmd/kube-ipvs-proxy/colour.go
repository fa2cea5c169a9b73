package main

import (
	"bytes"
	"io"
	"os"
	"regexp"
)

// colours are what a line gets on a terminal: the first pattern that matches colours
// what it matches, or its group.
var colours = []struct {
	pattern *regexp.Regexp
	code    string
}{
	{regexp.MustCompile(`^fault\b`), "1;31"},
	{regexp.MustCompile(`^warning\b`), "33"},
	{regexp.MustCompile(`^note\b`), "36"},
	{regexp.MustCompile(`^ok\b`), "32"},
	{regexp.MustCompile(`^kernel equals the plan$`), "32"},
	{regexp.MustCompile(`^  verdict +works$`), "32"},
	{regexp.MustCompile(`^  verdict .*`), "1;31"},
	{regexp.MustCompile(`^  differs .*`), "31"},
	{regexp.MustCompile(`^  want .*`), "31"},
	{regexp.MustCompile(`^     draining.*`), "33"},
	{regexp.MustCompile(`^     (not planned|weight not as planned)$`), "31"},
}

// colourful returns out, or a writer that colours lines when somebody looks at it who
// did not forbid that (NO_COLOR, https://no-color.org, or a terminal that is dumb).
func colourful(out io.Writer) io.Writer {
	if !isTerminal(out) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return out
	}
	return &painter{out: out}
}

// painter colours whole lines; what has no end yet waits.
type painter struct {
	out  io.Writer
	rest []byte
}

// Write implements io.Writer.
func (p *painter) Write(text []byte) (int, error) {
	p.rest = append(p.rest, text...)
	for {
		line, rest, ok := bytes.Cut(p.rest, []byte("\n"))
		if !ok {
			return len(text), nil
		}
		if _, err := p.out.Write(append(paint(line), '\n')); err != nil {
			return 0, err
		}
		p.rest = rest
	}
}

func paint(line []byte) []byte {
	for _, c := range colours {
		if at := c.pattern.FindIndex(line); at != nil {
			return bytes.Join([][]byte{line[:at[0]], []byte("\x1b[" + c.code + "m"), line[at[0]:at[1]], []byte("\x1b[0m"), line[at[1]:]}, nil)
		}
	}
	return bytes.Clone(line)
}
