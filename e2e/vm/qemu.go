package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"kube-ipvs-proxy/e2e/program"
)

// Names that the host's and the machine's side agree on.
const (
	tagRoot    = "hostroot"
	tagResults = "results"
	portName   = "kube-ipvs-proxy.vm"
)

// Descriptors of the QEMU process beside stdin, stdout and stderr.
const (
	fdPort   = 3 // our end of the virtio-serial port
	fdInitrd = 4
)

// kernelArgs is the kernel's command line. Only emergencies go to the console:
// IPVS logs each refused connection, and a serial line is slow to emulate. The
// TSC is told to be good: QEMU's CPUs share one, and the kernel would fall back
// to the HPET, whose every reading leaves the emulated CPU. The timer
// is not tried: on a starved host it was late once, and the kernel gave up.
func kernelArgs(steady bool) string {
	args := "console=ttyS0 quiet loglevel=3 panic=-1 oops=panic mitigations=off audit=0 random.trust_cpu=on tsc=reliable clocksource=tsc no_timer_check rdinit=/init"
	if steady {
		return args + " norandmaps nokaslr transparent_hugepage=never"
	}
	return args + clockArgs()
}

// qemuArgs is QEMU's command line: software emulation only, no network but the
// forward, the host's root read-only. self is the path of this executable.
func qemuArgs(o options, image, results, self string) []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", "pc", "-cpu", "max", "-m", o.memory,
	}
	if o.steady {
		args = append(args, "-accel", "tcg,thread=single", "-smp", "1", "-icount", "shift=0,sleep=on")
	} else {
		args = append(args, "-accel", "tcg,thread=multi", "-smp", strconv.Itoa(o.cpus))
	}
	args = append(args,
		"-kernel", image, "-initrd", fmt.Sprintf("/dev/fd/%d", fdInitrd), "-append", kernelArgs(o.steady),
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-device", "virtio-serial-pci",
		"-chardev", fmt.Sprintf("socket,id=port,fd=%d", fdPort),
		"-device", "virtserialport,chardev=port,name="+portName,
		"-virtfs", "local,path=/,mount_tag="+tagRoot+",security_model=none,multidevs=remap,readonly=on",
	)
	if results != "" {
		args = append(args, "-virtfs", "local,path="+strings.ReplaceAll(results, ",", ",,")+
			",mount_tag="+tagResults+",security_model=none,multidevs=remap")
	}
	if o.api != 0 {
		args = append(args, forwardArgs(o.api, self)...)
	}
	return args
}

// runQEMU boots a machine, runs the job in it and ends the machine, whatever
// happens.
func runQEMU(j job, k kernel, o options) (outcome, error) {
	j.Modules = k.modules()
	initrd, err := openInitramfs(j, k)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = initrd.Close() }()
	ours, theirs, err := socketPair()
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = ours.Close() }()

	qemu, err := lookTool(emulator[0].command)
	if err != nil {
		return outcome{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return outcome{}, err
	}
	console := &program.Tail{}
	cmd := exec.Command(qemu, qemuArgs(o, k.image(), j.Results, self)...)
	cmd.ExtraFiles = []*os.File{fdPort - 3: theirs, fdInitrd - 3: initrd}
	cmd.Stdout, cmd.Stderr = io.Writer(console), io.Writer(console)
	if o.console {
		both := io.MultiWriter(console, os.Stderr)
		cmd.Stdout, cmd.Stderr = both, both
	}
	// Its own group: Ctrl-C reaches us alone, and we say what it did.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	err = cmd.Start()
	_ = theirs.Close() // so that the stream ends when QEMU does
	if err != nil {
		return outcome{}, fmt.Errorf("qemu: %w", err)
	}

	started := make(chan struct{})
	ends := make(chan ending, 1)
	go func() {
		out, err := readFrames(ours, os.Stdout, os.Stderr, func() { close(started) })
		ends <- ending{out, err}
	}()
	out, err := await(ends, started, o.timeout)
	_ = cmd.Process.Kill() // the program's files are written: the machine has nothing left to do
	_ = cmd.Wait()
	if err != nil {
		return out, fmt.Errorf("%w; the console's last lines:\n%s", err, lastLines(console.String(), 30))
	}
	return out, nil
}

// openInitramfs makes the first file system as an unnamed file.
func openInitramfs(j job, k kernel) (*os.File, error) {
	files, err := initramfs(j, k)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "vm-initrd-")
	if err != nil {
		return nil, fmt.Errorf("initramfs: %w", err)
	}
	if err := errors.Join(os.Remove(f.Name()), writeArchive(f, files)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// initramfs lists the first file system: this executable as /init, the job and
// the modules that reach the host's files.
func initramfs(j job, k kernel) ([]archiveFile, error) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	if !isStatic(self) {
		return nil, errors.New("this program must be static to be the machine's first process: build it with CGO_ENABLED=0")
	}
	text, err := j.marshal()
	if err != nil {
		return nil, err
	}
	dep, err := k.module("modules.dep")
	if err != nil {
		return nil, err
	}
	builtin, err := k.module("modules.builtin")
	if err != nil {
		return nil, err
	}
	names := bootModules
	if j.Forward {
		names = slices.Concat(bootModules, forwardModules)
	}
	order, err := moduleOrder(string(dep), string(builtin), names)
	if err != nil {
		return nil, err
	}
	files := []archiveFile{
		{name: "init", mode: 0o755, body: self},
		{name: "job", mode: 0o644, body: text},
		{name: "modules", mode: 0o755},
	}
	for i, name := range order {
		body, err := k.module(name)
		if err != nil {
			return nil, err
		}
		// The names' order is the order to load them in.
		files = append(files, archiveFile{name: fmt.Sprintf("modules/%03d", i), mode: 0o644, body: body})
	}
	return files, nil
}

// socketPair makes a connected pair of stream sockets.
func socketPair() (a, b *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "port"), os.NewFile(uintptr(fds[1]), "port"), nil
}
