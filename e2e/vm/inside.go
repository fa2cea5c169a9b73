package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// What both kinds of inside, machine and namespaces, do alike.

// programDir holds the copy of the program.
const programDir = "/run/program"

// mount is mount(2) with the target in the error; it makes the target.
func mount(source, target, fstype string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}

// loopbackUp brings lo up: without it the kernel has no local routes and IPVS
// refuses real servers.
func loopbackUp() error { return linkUp("lo") }

func linkUp(device string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s up: %w", device, err)
	}
	defer func() { _ = unix.Close(fd) }()
	ifr, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("%s up: %w", device, err)
	}
	return nil
}

// placeProgram copies the job's program from the host's files at from into the
// new root's memory: reading it page by page from the host is slow, and the
// host's /run is covered. Scripts stay where they are, since they look for
// their neighbours. It returns the path to run, as seen in the new root.
func placeProgram(j job, from, root string) (string, error) {
	src, err := os.Open(filepath.Join(from, j.Program))
	if err != nil {
		return "", err
	}
	defer func() { _ = src.Close() }()
	magic := make([]byte, len(elf.ELFMAG))
	if _, err := io.ReadFull(src, magic); err != nil || string(magic) != elf.ELFMAG {
		return j.Program, nil
	}
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	path := filepath.Join(programDir, filepath.Base(j.Program))
	if err := os.MkdirAll(filepath.Join(root, programDir), 0o755); err != nil {
		return "", err
	}
	dst, err := os.OpenFile(filepath.Join(root, path), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{dst}, src, make([]byte, 512<<10))
	return path, errors.Join(err, dst.Close())
}

// startProgram starts path as the job says; stdin is empty.
func startProgram(j job, path string, stdout, stderr *os.File) (pid int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }()
	if _, err := os.Stat(j.Dir); err != nil {
		return 0, fmt.Errorf("working directory: %w", err)
	}
	pid, err = syscall.ForkExec(path, append([]string{j.Program}, j.Args...), &syscall.ProcAttr{
		Dir: j.Dir, Env: j.Env, Files: []uintptr{null.Fd(), stdout.Fd(), stderr.Fd()},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", j.Program, err)
	}
	return pid, nil
}

// waitProgram waits for pid as the first process must: it also takes in the
// orphans that end meanwhile. A death by signal n counts as exit code 128+n.
func waitProgram(pid int) (int, error) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case got != pid:
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		case status.Exited():
			return status.ExitStatus(), nil
		}
	}
}

// isStatic says whether an executable needs no interpreter.
func isStatic(exe []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(exe))
	if err != nil {
		return false
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}
