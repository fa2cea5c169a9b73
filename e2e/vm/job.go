package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// defaultPath is PATH inside: a kernel test needs the sbin folders, which a
// user's own PATH often lacks.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// job is what the inside of the machine is told. It travels as JSON, in the
// first file system of the QEMU machine or through a pipe.
type job struct {
	Program string   // absolute path on the host
	Args    []string // without the program's name
	Dir     string   // working directory, a path of the host
	Env     []string // KEY=VALUE, the whole environment
	Modules string   // the host's path of lib/modules for the booted kernel; empty: as it is
	Root    string   // empty directory of the host to build the new root on; namespaces only
	Results string   // absolute host path of /results; empty: none
	Forward bool     // the machine has a network device for forwardTarget
	Keep    []string // files of the host that are read into the machine's memory beforehand
}

// newJob resolves the program, the working directory and the results folder
// as seen by the caller.
func newJob(o options) (job, error) {
	dir, err := os.Getwd()
	if err != nil {
		return job{}, fmt.Errorf("working directory: %w", err)
	}
	j := job{
		Args:    o.program[1:],
		Dir:     dir,
		Forward: o.api != 0,
		Env:     append([]string{"PATH=" + defaultPath, "HOME=/root", "TERM=dumb", "LANG=C.UTF-8"}, o.env...),
	}
	if o.steady {
		j.Keep = kept()
	}
	if j.Program, err = findProgram(o.program[0]); err != nil {
		return job{}, err
	}
	if o.results != "" {
		if j.Results, err = filepath.Abs(o.results); err != nil {
			return job{}, err
		}
		if err := os.MkdirAll(j.Results, 0o755); err != nil {
			return job{}, fmt.Errorf("results folder: %w", err)
		}
	}
	return j, nil
}

// findProgram gives the absolute path of an executable file, by PATH and the
// sbin folders when the name has no slash.
func findProgram(name string) (string, error) {
	if !strings.Contains(name, "/") {
		return lookTool(name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("program: %w", err)
	}
	return filepath.Abs(path)
}

// lookTool finds a command by PATH, then in defaultPath.
func lookTool(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range strings.Split(defaultPath, ":") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("program %s: %w", name, exec.ErrNotFound)
}

func (j job) marshal() ([]byte, error) { return json.Marshal(j) }

func unmarshalJob(data []byte) (job, error) {
	var j job
	if err := json.Unmarshal(data, &j); err != nil {
		return job{}, fmt.Errorf("job: %w", err)
	}
	return j, nil
}
