// Command vm runs one program as root on a Linux kernel with IPVS: in
// namespaces of this host where its kernel can do it, else in a QEMU machine
// that boots Debian's stock kernel over the host's own, read-only files. It
// installs and downloads what it needs on Debian. See "vm --help".
//
// The same executable is the first process inside: in the machine as /init, in
// namespaces under the name in insideName.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Exit codes that do not come from the program.
const (
	exitNotRun      = 3
	exitTimeout     = 124
	exitInterrupted = 130
)

// insideName is argv[0] of this executable as first process of a namespace.
const insideName = "vm-inside"

func main() {
	switch {
	case os.Getpid() == 1 && os.Args[0] == "/init":
		runGuest()
	case os.Args[0] == insideName:
		os.Exit(runNamespace())
	case len(os.Args) == 3 && os.Args[1] == pipeCommand:
		if err := pipeTo(os.Args[2], os.Stdin, os.Stdout); err != nil {
			os.Exit(notRun(err))
		}
		return
	}
	os.Exit(run(os.Args[1:]))
}

// run is the host's side: it returns the exit code.
func run(args []string) int {
	// Children die with the thread that started them (Pdeathsig): it must
	// be one that lasts as long as the process.
	runtime.LockOSThread()
	dieWithGoRun()
	o, err := parseOptions(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return notRun(err)
	}
	out, err := execute(o)
	if err != nil {
		return notRun(err)
	}
	if out.failure != "" {
		return notRun(errors.New(out.failure))
	}
	return out.code
}

// execute makes sure of all that is needed, then runs the program.
func execute(o options) (outcome, error) {
	if err := ensureTools(userland); err != nil {
		return outcome{}, err
	}
	onHost, err := useHost(o)
	if err != nil {
		return outcome{}, err
	}
	var k kernel
	if !onHost {
		if err := ensureTools(emulator); err != nil {
			return outcome{}, err
		}
		if k, err = ensureKernel(); err != nil {
			return outcome{}, err
		}
	}
	if o.prepare {
		return outcome{}, nil
	}
	j, err := newJob(o)
	if err != nil {
		return outcome{}, err
	}
	if onHost {
		return runHost(j, o)
	}
	return runQEMU(j, k, o)
}

// useHost decides between the host's kernel and the machine.
func useHost(o options) (bool, error) {
	if o.machine == machineQEMU || o.steady || o.api != 0 {
		return false, nil
	}
	err := hostCan()
	if err != nil && o.machine == machineHost {
		return false, fmt.Errorf("--machine=host: %w; use --machine=qemu", err)
	}
	return err == nil, nil
}

// dieWithGoRun ends this process with its parent when "go run" started it:
// that parent does not pass SIGTERM on.
func dieWithGoRun() {
	exe, err := os.Executable()
	if err == nil && strings.Contains(exe, "/go-build") {
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0) // best effort
	}
}

func notRun(err error) int {
	say("%v", err)
	return exitNotRun
}

// say tells the user something; the program's own output stays apart on stdout.
func say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "vm: "+format+"\n", args...)
}
