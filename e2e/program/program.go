// Package program holds what the commands of e2e share about starting programs.
package program

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// ModuleDir is the folder of the Go module that the working directory is in.
func ModuleDir() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", errors.New("not inside the module's folder")
	}
	return filepath.Dir(file), nil
}

// Tail keeps the end of what is written to it, for error messages. The zero value
// is empty.
type Tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// TailSize is how much a Tail keeps.
const TailSize = 32 << 10

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - TailSize; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

// String returns what is kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
