package netfilter

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Errors that callers tell apart; each comes wrapped with the program's own words.
var (
	// ErrNoIPTables: a program of iptables is not installed.
	ErrNoIPTables = errors.New("iptables is not installed")
	// ErrBusy: another program held the lock of the tables; try again soon.
	ErrBusy = errors.New("another program holds the iptables lock")
	// ErrNoSetMatch: the rules cannot match ipsets.
	ErrNoSetMatch = errors.New("the kernel module xt_set is missing")
	// ErrNoSet: a set that the rules name does not exist; sets come before rules.
	ErrNoSet = errors.New("an ipset is missing")
	// ErrUnstable: the rules were written and are again not as they should be.
	ErrUnstable = errors.New("the rules do not stay as written")
)

// CommandError is a program that failed.
type CommandError struct {
	Program string
	// Stderr is what it said, in one line.
	Stderr string
	// Err is the exit status or why it could not run or was ended.
	Err error
	// Kind is one of the errors above, or nil.
	Kind error
}

// Error returns the program, the kind, what it said and how it ended.
func (e *CommandError) Error() string {
	text := e.Program + ": "
	if e.Kind != nil {
		text += e.Kind.Error() + ": "
	}
	if e.Stderr != "" {
		text += e.Stderr + ": "
	}
	return text + e.Err.Error()
}

// Unwrap gives the cause and the kind.
func (e *CommandError) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Kind}
}

// kindOf finds out what a program complained about. The words are those of
// iptables 1.8 and of its set extension, which both back ends share.
func kindOf(stderr string) error {
	for _, k := range []struct {
		words string
		kind  error
	}{
		{"xtables lock", ErrBusy},
		{"Kernel module xt_set is not loaded", ErrNoSetMatch},
		{"Can't open socket to ipset", ErrNoSetMatch},
		{"Extension set revision", ErrNoSetMatch},
		{"load match `set'", ErrNoSetMatch},
		{"load target `SET'", ErrNoSetMatch},
	} {
		if strings.Contains(stderr, k.words) {
			return k.kind
		}
	}
	if strings.Contains(stderr, "Set ") && strings.Contains(stderr, "doesn't exist") {
		return ErrNoSet
	}
	return nil
}

// lookPath finds a program, and names it when it is missing.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoIPTables, err)
	}
	return path, nil
}
