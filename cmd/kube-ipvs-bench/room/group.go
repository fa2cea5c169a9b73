package room

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Groups is where control groups are made: the folder of the hierarchy that is there,
// or one that was mounted for this.
type Groups struct {
	dir     string
	mounted string // to be unmounted and removed
	next    int
}

// OpenGroups finds a control group hierarchy, version 2, or mounts it below dir.
func OpenGroups(dir string) (*Groups, error) {
	for _, at := range mounts("cgroup2") {
		g := &Groups{dir: at}
		if try, err := g.add(); err == nil {
			try.close()
			return g, nil
		}
	}
	at := filepath.Join(dir, "cgroup")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mount("cgroup2", at, "cgroup2", 0, ""); err != nil {
		return nil, fmt.Errorf("control groups: none that can be written, and mount on %s: %w", at, err)
	}
	return &Groups{dir: at, mounted: at}, nil
}

// mounts lists where a type of file system is mounted.
func mounts(kind string) []string {
	file, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	var out []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) > 2 && f[2] == kind {
			out = append(out, f[1])
		}
	}
	return out
}

// Close unmounts what was mounted.
func (g *Groups) Close() error {
	if g.mounted == "" {
		return nil
	}
	return errors.Join(unix.Unmount(g.mounted, unix.MNT_DETACH), os.Remove(g.mounted))
}

func (g *Groups) add() (*group, error) {
	g.next++
	path := filepath.Join(g.dir, fmt.Sprintf("kube-ipvs-bench-%d-%d", os.Getpid(), g.next))
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	fd, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return &group{path, fd}, nil
}

// group is one control group.
type group struct {
	path string
	fd   *os.File
}

// cpu is the time that all its processes have used, ended ones too, and what of it was
// the kernel's, working for them.
func (g *group) cpu() (all, kernel time.Duration, err error) {
	text, err := os.ReadFile(filepath.Join(g.path, "cpu.stat"))
	if err != nil {
		return 0, 0, err
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		into := map[string]*time.Duration{"usage_usec": &all, "system_usec": &kernel}[name]
		if into == nil {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: cpu.stat: %w", g.path, err)
		}
		*into = time.Duration(n) * time.Microsecond
		found++
	}
	if found != 2 {
		return 0, 0, fmt.Errorf("%s: cpu.stat lacks usage_usec or system_usec", g.path)
	}
	return all, kernel, nil
}

// close kills all its processes, waits for their end, and removes it.
func (g *group) close() {
	_ = os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0) // kernels before 5.14 have none: below
	for range 500 {
		text, _ := os.ReadFile(filepath.Join(g.path, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if unix.Rmdir(g.path) == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = g.fd.Close()
}
