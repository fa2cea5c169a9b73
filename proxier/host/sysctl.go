package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ProcSys and Sys are the roots of kernel settings.
const (
	ProcSys = "/proc/sys"
	Sys     = "/sys"
)

// SysctlRule says what is done when a setting has another value than wanted.
type SysctlRule uint8

// The zero value writes the wanted value.
const (
	SetSysctl    SysctlRule = iota
	RaiseSysctl             // a number: only a smaller one is wrong, and written
	ReportSysctl            // never written, only told
)

// Sysctl is one kernel setting as it should be.
type Sysctl struct {
	Key    string // path below the root, such as net/ipv4/ip_forward
	Want   string
	Rule   SysctlRule
	Breaks string // what goes wrong with another value, as part of a sentence
}

// SysctlProblem is a setting that still has another value than wanted.
type SysctlProblem struct {
	Sysctl
	Have string // empty when it could not be read
	Err  error  // why it could not be read or written; nil when it is only told
}

// String returns one line: the setting, its value, why, and what that breaks.
func (p SysctlProblem) String() string {
	s := strings.ReplaceAll(p.Key, "/", ".")
	if p.Have != "" {
		s += " is " + p.Have + ", want " + p.Want
	} else {
		s += " cannot be read, want " + p.Want
	}
	if p.Err != nil {
		s += " (" + p.Err.Error() + ")"
	}
	return s + ": " + p.Breaks
}

// EnsureSysctls reads each setting below root and writes those that differ: one that
// is right already may be read-only. It returns those that stay wrong, in the order
// given; an empty list means that all is as wanted.
func EnsureSysctls(root string, want []Sysctl) []SysctlProblem {
	var problems []SysctlProblem
	for _, s := range want {
		if p, ok := ensureSysctl(root, s); !ok {
			problems = append(problems, p)
		}
	}
	return problems
}

func ensureSysctl(root string, s Sysctl) (SysctlProblem, bool) {
	path := filepath.Join(root, s.Key)
	have, err := readSetting(path)
	if err != nil {
		return SysctlProblem{Sysctl: s, Err: err}, false
	}
	if s.holds(have) {
		return SysctlProblem{}, true
	}
	if s.Rule == ReportSysctl {
		return SysctlProblem{Sysctl: s, Have: have}, false
	}
	if err := writeSetting(path, s.Want); err != nil {
		return SysctlProblem{Sysctl: s, Have: have, Err: err}, false
	}
	// Some settings take a write without an error and keep their value, and another
	// hand may hold a different opinion: what counts is what is there now.
	have, err = readSetting(path)
	if err != nil || !s.holds(have) {
		return SysctlProblem{Sysctl: s, Have: have, Err: err}, false
	}
	return SysctlProblem{}, true
}

// holds reports whether the value is as wanted.
func (s Sysctl) holds(have string) bool {
	if have == s.Want {
		return true
	}
	if s.Rule != RaiseSysctl {
		return false
	}
	h, errHave := strconv.ParseInt(have, 10, 64)
	w, errWant := strconv.ParseInt(s.Want, 10, 64)
	return errHave == nil && errWant == nil && h >= w
}

func readSetting(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(data)), nil
}

// writeSetting never creates the file: a missing setting is an error.
func writeSetting(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// KernelRelease returns the release of the running kernel, such as "6.1.0-57-amd64".
// root is ProcSys.
func KernelRelease(root string) (string, error) {
	release, err := readSetting(filepath.Join(root, "kernel/osrelease"))
	if err != nil {
		return "", fmt.Errorf("kernel release: %w", err)
	}
	return release, nil
}

// kernelAtLeast compares the first two numbers of a release. What cannot be read as
// a release is taken as newer: all kernels of today are.
func kernelAtLeast(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return true
	}
	return a > major || a == major && b >= minor
}
