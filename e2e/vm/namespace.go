package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// hostCan tells why this host's kernel can't run the program, or nil. It loads
// the modules where the host has them.
func hostCan() error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	const ipvs = "/proc/net/ip_vs"
	if _, err := os.Stat(ipvs); err != nil {
		if modprobe, err := lookTool("modprobe"); err == nil {
			_ = runQuiet(exec.Command(modprobe, "-q", "ip_vs")) // the next line finds out
		}
		if _, err := os.Stat(ipvs); err != nil {
			return errors.New("this host's kernel has no ip_vs")
		}
	}
	for _, try := range [][]string{
		{"ip", "link", "add", "try0", "type", "dummy"},
		{"ipset", "create", "try", "hash:ip"},
	} {
		path, err := lookTool(try[0])
		if err != nil {
			return err
		}
		cmd := exec.Command(path, try[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("this host can't do %v: %s", try, lastLines(string(out), 1))
		}
	}
	return nil
}

// runHost runs the job in new network, mount and process namespaces of this
// host. All processes in there end with the first.
func runHost(j job, o options) (outcome, error) {
	var err error
	if j.Root, err = os.MkdirTemp("", "vm-root-"); err != nil {
		return outcome{}, err
	}
	defer func() { _ = os.Remove(j.Root) }() // empty: what is mounted there is seen inside only
	text, err := j.marshal()
	if err != nil {
		return outcome{}, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{insideName, string(text)}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // Ctrl-C reaches us alone, and we say what it did
	}
	if err := cmd.Start(); err != nil {
		return outcome{}, fmt.Errorf("namespaces: %w", err)
	}
	ends := make(chan ending, 1)
	gone, started := make(chan struct{}), make(chan struct{})
	close(started) // nothing boots
	go func() {
		defer close(gone)
		err := cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code >= 0 {
			ends <- ending{outcome: outcome{code: code}}
			return
		}
		ends <- ending{err: fmt.Errorf("first process: %w", err)}
	}()
	out, err := await(ends, started, o.timeout)
	_ = cmd.Process.Kill()
	<-gone
	return out, err
}

// runNamespace is the first process of the namespaces; it returns its exit
// code.
func runNamespace() int {
	if len(os.Args) != 2 {
		return notRun(errors.New("no job"))
	}
	j, err := unmarshalJob([]byte(os.Args[1]))
	if err != nil {
		return notRun(err)
	}
	program, err := namespaceRoot(j)
	if err != nil {
		return notRun(err)
	}
	if err := loopbackUp(); err != nil {
		return notRun(err)
	}
	pid, err := startProgram(j, program, os.Stdout, os.Stderr)
	if err != nil {
		return notRun(err)
	}
	code, err := waitProgram(pid)
	if err != nil {
		return notRun(err)
	}
	return code
}

// ownDirs are the top-level folders that the namespaces do not share with the
// host.
var ownDirs = []string{"proc", "run", "sys", "results"}

// namespaceRoot builds a root of the host's top-level folders with its own
// /run, /proc, /sys and /results, and changes into it. It returns the path of
// the program inside.
func namespaceRoot(j job) (program string, err error) {
	// First of all: from here on no mount reaches the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", fmt.Errorf("private mounts: %w", err)
	}
	if err := mount("tmpfs", j.Root, "tmpfs", 0, "mode=755"); err != nil {
		return "", err
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if slices.Contains(ownDirs, e.Name()) {
			continue
		}
		if err := shareEntry(e, j.Root); err != nil {
			return "", err
		}
	}
	if err := errors.Join(
		mount("proc", filepath.Join(j.Root, "proc"), "proc", 0, ""),
		mount("sysfs", filepath.Join(j.Root, "sys"), "sysfs", 0, ""),
		mount("tmpfs", filepath.Join(j.Root, "run"), "tmpfs", 0, "mode=755"),
		os.MkdirAll(filepath.Join(j.Root, "run/lock"), 0o755),
		os.MkdirAll(filepath.Join(j.Root, "results"), 0o755),
	); err != nil {
		return "", err
	}
	if j.Results != "" {
		if err := mount(j.Results, filepath.Join(j.Root, "results"), "", unix.MS_BIND, ""); err != nil {
			return "", err
		}
	}
	if program, err = placeProgram(j, "/", j.Root); err != nil {
		return "", err
	}
	return program, errors.Join(
		os.Chdir(j.Root),
		unix.PivotRoot(".", "."),
		unix.Unmount(".", unix.MNT_DETACH),
		os.Chdir("/"),
	)
}

// shareEntry makes one top-level entry of the host appear in root.
func shareEntry(e os.DirEntry, root string) error {
	from, to := filepath.Join("/", e.Name()), filepath.Join(root, e.Name())
	switch {
	case e.Type()&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case e.IsDir():
		return mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
	default:
		return nil // a file in / is no business of a test
	}
}
