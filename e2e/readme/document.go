package readme

import (
	"fmt"
	"strings"
)

// Command is a command line out of a document.
type Command struct {
	// Text is the line without a comment, with continued lines joined.
	Text string
	// Where is "README.md:12".
	Where string
}

// Scene is a transcript of the README: what was done to the lab before, the commands, and
// what they print.
type Scene struct {
	Where string
	// Before and After are lines of the HTML comment above: what to do to the lab, and how
	// to take it back.
	Before, After []string
	Steps         []Step
}

// Step is one command of a transcript and the lines that follow it. "..." stands for any
// lines.
type Step struct {
	Command string
	Output  []string
}

// Commands are the lines of indented blocks: each block that follows an empty line and
// has four blanks, in which lines that go on have more, or follow a backslash.
func Commands(name, text string) []Command {
	var list []Command
	fenced, before := false, ""
	for n, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		body, indented := strings.CutPrefix(line, "    ")
		switch {
		case fenced || !indented:
		case strings.HasSuffix(before, "\\"):
			last := &list[len(list)-1]
			last.Text = strings.TrimSuffix(last.Text, "\\") + strings.TrimSpace(withoutComment(body))
		case strings.HasPrefix(body, " ") || body == "" || strings.HasPrefix(body, "#"):
		default:
			list = append(list, Command{Text: withoutComment(body), Where: fmt.Sprintf("%s:%d", name, n+1)})
		}
		before = line
	}
	return list
}

// withoutComment cuts what follows two blanks: the meaning of a command in a table.
func withoutComment(line string) string {
	text, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
	return strings.TrimSpace(text)
}

// labMark begins the comment that says what is done to the lab before a transcript;
// after labBack comes how to take it back.
const (
	labMark = "<!-- lab:"
	labBack = " | "
)

// Scenes are the fenced transcripts under a comment that begins with labMark.
func Scenes(name, text string) []Scene {
	var list []Scene
	var current *Scene
	open := false
	for n, line := range strings.Split(text, "\n") {
		switch comment, ok := strings.CutPrefix(line, labMark); {
		case ok:
			before, after, _ := strings.Cut(strings.TrimSuffix(comment, "-->"), labBack)
			current = &Scene{Where: fmt.Sprintf("%s:%d", name, n+1), Before: parts(before), After: parts(after)}
		case strings.HasPrefix(line, "```") && current != nil && !open:
			open = true
		case strings.HasPrefix(line, "```") && current != nil:
			list = append(list, *current)
			current, open = nil, false
		case open:
			current.add(line)
		}
	}
	return list
}

func (s *Scene) add(line string) {
	last := len(s.Steps) - 1
	if command, ok := strings.CutPrefix(line, "$ "); ok {
		s.Steps = append(s.Steps, Step{Command: command})
		return
	}
	if last < 0 {
		return
	}
	step := &s.Steps[last]
	if before, more := strings.CutSuffix(step.Command, " \\"); more {
		step.Command = before + " " + strings.TrimSpace(line)
		return
	}
	step.Output = append(step.Output, line)
}

func parts(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// cut is the line of a transcript that stands for any lines.
const cut = "..."

// Matches tells whether lines are what a transcript shows.
func Matches(shown, lines []string) bool {
	switch {
	case len(shown) == 0:
		return len(lines) == 0
	case shown[0] == cut:
		for skip := 0; skip <= len(lines); skip++ {
			if Matches(shown[1:], lines[skip:]) {
				return true
			}
		}
		return false
	}
	return len(lines) > 0 && shown[0] == lines[0] && Matches(shown[1:], lines[1:])
}
