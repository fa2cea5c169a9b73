package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// profile is a seccomp profile in the form of container engines: rules that hold
// under conditions.
type profile struct {
	DefaultAction   string `json:"defaultAction"`
	DefaultErrnoRet *uint  `json:"defaultErrnoRet"`
	ArchMap         []struct {
		Architecture     string   `json:"architecture"`
		SubArchitectures []string `json:"subArchitectures"`
	} `json:"archMap"`
	Syscalls []struct {
		Syscall
		Includes condition `json:"includes"`
		Excludes condition `json:"excludes"`
	} `json:"syscalls"`
}

// condition is about the container and the host. MinKernel is older than every kernel
// that these tests run on.
type condition struct {
	Caps      []string `json:"caps"`
	Arches    []string `json:"arches"`
	MinKernel string   `json:"minKernel"`
}

// errNoRules keeps a file that is no profile from being a filter that allows nothing.
var errNoRules = errors.New("seccomp profile has no rules")

// runtimeDefault makes the filter of a container with these capabilities on amd64, as
// an engine does for seccompProfile RuntimeDefault.
func runtimeDefault(text []byte, caps []string) (*Seccomp, error) {
	var p profile
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("seccomp profile: %w", err)
	}
	if len(p.Syscalls) == 0 {
		return nil, errNoRules
	}
	filter := &Seccomp{DefaultAction: p.DefaultAction, DefaultErrnoRet: p.DefaultErrnoRet}
	for _, a := range p.ArchMap {
		if a.Architecture == "SCMP_ARCH_X86_64" {
			filter.Architectures = append([]string{a.Architecture}, a.SubArchitectures...)
		}
	}
	for _, s := range p.Syscalls {
		if s.Includes.all(caps) && !s.Excludes.any(caps) {
			filter.Syscalls = append(filter.Syscalls, s.Syscall)
		}
	}
	return filter, nil
}

const arch = "amd64"

// all tells whether the container meets every part of the condition.
func (c condition) all(caps []string) bool {
	for _, want := range c.Caps {
		if !slices.Contains(caps, want) {
			return false
		}
	}
	return len(c.Arches) == 0 || slices.Contains(c.Arches, arch)
}

// any tells whether the container meets a part of the condition.
func (c condition) any(caps []string) bool {
	for _, want := range c.Caps {
		if slices.Contains(caps, want) {
			return true
		}
	}
	return slices.Contains(c.Arches, arch)
}
