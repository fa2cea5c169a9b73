package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// runGuest is the first process of the QEMU machine. It never returns: it ends
// by restarting, which ends QEMU (-no-reboot).
func runGuest() {
	port, err := guestPort()
	if err != nil {
		fmt.Println("vm:", err) // the console: the host shows it when no frame comes
	} else {
		frames := &frameWriter{w: port}
		code, err := guestJob(frames)
		unix.Sync()
		if err != nil {
			_ = frames.write(frameFailed, []byte(err.Error()))
		} else {
			_ = frames.exit(code)
		}
	}
	time.Sleep(time.Second) // the host ends us as soon as it has read the frame
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {}
}

// guestPort loads the boot modules and opens the port to the host.
func guestPort() (*os.File, error) {
	mounts := errors.Join(
		mount("devtmpfs", "/dev", "devtmpfs", 0, ""),
		mount("proc", "/proc", "proc", 0, ""),
		mount("sysfs", "/sys", "sysfs", 0, ""),
		// What udev would make.
		os.Symlink("/proc/self/fd", "/dev/fd"),
		os.Symlink("fd/0", "/dev/stdin"),
		os.Symlink("fd/1", "/dev/stdout"),
		os.Symlink("fd/2", "/dev/stderr"),
	)
	if mounts != nil {
		return nil, mounts
	}
	files, err := filepath.Glob("/modules/*") // sorted: the order to load them in
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := loadModule(file); err != nil {
			return nil, err
		}
	}
	return openPort(portName, 20*time.Second)
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load %s: %w", file, err)
	}
	return nil
}

// openPort opens the virtio-serial port of a name; it appears shortly after
// its driver.
func openPort(name string, limit time.Duration) (*os.File, error) {
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name") // the pattern is valid
		for _, file := range names {
			text, err := os.ReadFile(file)
			if err != nil || strings.TrimSpace(string(text)) != name {
				continue
			}
			dev := filepath.Join("/dev", filepath.Base(filepath.Dir(file)))
			if fd, err := unix.Open(dev, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
				return os.NewFile(uintptr(fd), dev), nil
			}
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("no port %s within %v", name, limit)
		}
	}
}

// guestJob builds the root, runs the program there and sends its output.
func guestJob(frames *frameWriter) (int, error) {
	text, err := os.ReadFile("/job")
	if err != nil {
		return 0, err
	}
	j, err := unmarshalJob(text)
	if err != nil {
		return 0, err
	}
	program, err := guestRoot(j)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(loopbackUp(), raiseLimits(), unix.Sethostname([]byte("machine"))); err != nil {
		return 0, err
	}
	if j.Forward {
		if err := forwardUp(); err != nil {
			return 0, err
		}
	}
	return runFramed(j, program, frames)
}

// guestRoot makes the root: the host's files below, memory above, so that
// everything can be written and nothing reaches the host but /results. It
// returns the path of the program inside.
func guestRoot(j job) (program string, err error) {
	const host, mem, root = "/host", "/mem", "/root"
	const p9 = "trans=virtio,version=9p2000.L,msize=524288"
	if err := errors.Join(
		mount(tagRoot, host, "9p", unix.MS_RDONLY, p9+",cache=loose"),
		mount("tmpfs", mem, "tmpfs", 0, ""),
		os.Mkdir(mem+"/upper", 0o755), os.Mkdir(mem+"/work", 0o755),
		mount("overlay", root, "overlay", 0, "lowerdir="+host+",upperdir="+mem+"/upper,workdir="+mem+"/work"),
		mount("tmpfs", root+"/run", "tmpfs", 0, "mode=755"),
		os.MkdirAll(root+"/run/lock", 0o755),
	); err != nil {
		return "", err
	}
	if err := keep(root, j.Keep); err != nil {
		return "", err
	}
	modules := root + "/lib/modules"
	if target, err := os.Readlink(root + "/lib"); err == nil { // Debian: usr/lib
		modules = filepath.Join(root, target, "modules")
	}
	if err := mount(filepath.Join(host, j.Modules), modules, "", unix.MS_BIND, ""); err != nil {
		return "", err
	}
	if err := os.MkdirAll(root+"/results", 0o755); err != nil {
		return "", err
	}
	if j.Results != "" {
		if err := mount(tagResults, root+"/results", "9p", 0, p9); err != nil {
			return "", err
		}
	}
	if program, err = placeProgram(j, host, root); err != nil {
		return "", err
	}
	for _, dir := range []string{"/dev", "/proc", "/sys"} {
		if err := mount(dir, root+dir, "", unix.MS_MOVE, ""); err != nil {
			return "", err
		}
	}
	return program, errors.Join(
		mount("devpts", root+"/dev/pts", "devpts", 0, "ptmxmode=666"),
		mount("tmpfs", root+"/dev/shm", "tmpfs", 0, "mode=1777"),
		os.Chdir(root),
		// The first root can't be left by pivot_root: move over it instead.
		mount(".", "/", "", unix.MS_MOVE, ""),
		unix.Chroot("."),
		os.Chdir("/"),
	)
}

// raiseLimits allows as many open files as a service manager would.
func raiseLimits() error {
	const files = 1 << 20
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files})
}

// runFramed runs the program with its output sent as frames. When it ends,
// what it left running is killed, so that no output comes after the exit code.
func runFramed(j job, program string, frames *frameWriter) (int, error) {
	outR, outW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	if err := frames.write(frameStarted, nil); err != nil {
		return 0, err
	}
	pid, err := startProgram(j, program, outW, errW)
	_, _ = outW.Close(), errW.Close()
	if err != nil {
		return 0, err
	}
	copied := make(chan struct{}, 2)
	go func() { frames.copyFrom(frameStdout, outR); copied <- struct{}{} }()
	go func() { frames.copyFrom(frameStderr, errR); copied <- struct{}{} }()
	code, err := waitProgram(pid)
	_ = unix.Kill(-1, unix.SIGKILL) // all but us
	<-copied
	<-copied
	return code, err
}
