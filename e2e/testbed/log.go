package testbed

import (
	"bytes"
	"strings"
	"sync"
)

// logKept is how many lines of a program's output are remembered.
const logKept = 5000

// Log keeps the last lines that a program wrote.
type Log struct {
	mu    sync.Mutex
	lines []string
	rest  []byte
	fresh chan struct{} // closed at the next line
}

// Write takes output in pieces of any length.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			break
		}
		l.lines = append(l.lines, string(line))
		l.rest = rest
	}
	if cut := len(l.lines) - logKept; cut > 0 {
		l.lines = append([]string(nil), l.lines[cut:]...)
	}
	if l.fresh != nil {
		close(l.fresh)
		l.fresh = nil
	}
	return len(b), nil
}

// Last returns the last n lines that match; nil matches all.
func (l *Log) Last(n int, match func(line string) bool) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for i := len(l.lines) - 1; i >= 0 && len(found) < n; i-- {
		if match == nil || match(l.lines[i]) {
			found = append([]string{l.lines[i]}, found...)
		}
	}
	return found
}

// next is closed when more is written.
func (l *Log) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fresh == nil {
		l.fresh = make(chan struct{})
	}
	return l.fresh
}

// tail is the end of the log for an error message.
func (l *Log) tail() string {
	lines := l.Last(20, nil)
	if len(lines) == 0 {
		return "it wrote nothing"
	}
	return "its last lines:\n" + strings.Join(lines, "\n")
}
