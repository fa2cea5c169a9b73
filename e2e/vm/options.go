package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// machine says where the program runs.
type machine string

const (
	machineAuto machine = "auto" // host when its kernel can do it, else qemu
	machineQEMU machine = "qemu"
	machineHost machine = "host"
)

// options is the command line as one value.
type options struct {
	machine machine
	timeout time.Duration // from the start of the machine; zero: no limit
	memory  string        // as QEMU writes it: 4G, 2048M
	cpus    int
	results string // directory of the host that is /results inside; empty: a directory that is lost
	steady  bool   // one CPU whose clock follows its instructions
	console bool   // show the kernel's console on stderr
	prepare bool   // install and download what is needed, run nothing
	api     int    // port of the host's loopback that the QEMU machine reaches (see forwardTarget); 0: none
	env     []string
	program []string
}

const usage = `usage: vm [flags] -- PROGRAM [ARGS...]

Runs PROGRAM as root on a Linux kernel that has IPVS, ipset and dummy devices:
in namespaces of this host where its kernel has them, else in a QEMU machine
(software emulation) that boots Debian's stock kernel. Inside, /run is empty and
/results is the folder --results. In the machine the host's files can be read,
and what is written elsewhere than to /results is lost; namespaces share the
host's files. Programs are copied to /run/program first; scripts are not.

exit code: the program's own; 3 nothing was run; 124 timeout; 130 interrupted.
example: vm --timeout 2m --results out -- ./bin/x.test -test.v

flags:
`

// parseOptions reads the arguments after the program's own name. The error
// flag.ErrHelp means that the help was asked for and printed on out.
func parseOptions(args []string, out io.Writer) (options, error) {
	o := options{machine: machineAuto}
	fs := flag.NewFlagSet("vm", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		_, _ = io.WriteString(out, usage)
		fs.PrintDefaults()
	}
	fs.Func("machine", "auto, qemu or host (default auto)", func(s string) error {
		o.machine = machine(s)
		return nil
	})
	fs.DurationVar(&o.timeout, "timeout", 30*time.Minute, "end the machine after this time; 0: never")
	fs.StringVar(&o.memory, "memory", "4G", "memory of the QEMU machine")
	fs.IntVar(&o.cpus, "cpus", 2, "CPUs of the QEMU machine")
	fs.StringVar(&o.results, "results", "", "folder that is writable inside as /results (made if missing)")
	fs.BoolVar(&o.steady, "steady", false, "one CPU whose clock follows its instructions, for figures that hold on a busy host")
	fs.IntVar(&o.api, "api", 0, "port on the host's 127.0.0.1 that is "+forwardTarget+" in the QEMU machine, as for an API server")
	fs.BoolVar(&o.console, "console", false, "show the kernel's console on stderr")
	fs.BoolVar(&o.prepare, "prepare", false, "install what is needed, then end")
	fs.Func("env", "KEY=VALUE for the program's environment (repeatable)", func(s string) error {
		if i := strings.IndexByte(s, '='); i < 1 {
			return errors.New("want KEY=VALUE")
		}
		o.env = append(o.env, s)
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.program = fs.Args()
	return o, o.validate()
}

func (o options) validate() error {
	switch o.machine {
	case machineAuto, machineQEMU, machineHost:
	default:
		return fmt.Errorf("--machine %q: want auto, qemu or host", o.machine)
	}
	if o.steady && o.machine == machineHost {
		return errors.New("--steady needs the emulated clock: it can't be had with --machine=host")
	}
	if o.api < 0 || o.api > 65535 {
		return fmt.Errorf("--api %d: want a port", o.api)
	}
	if o.api != 0 && o.machine == machineHost {
		return errors.New("--api is for the QEMU machine: it can't be had with --machine=host")
	}
	if o.cpus < 1 || o.cpus > 64 {
		return fmt.Errorf("--cpus %d: want 1 to 64", o.cpus)
	}
	if o.timeout < 0 {
		return fmt.Errorf("--timeout %v: want 0 or more", o.timeout)
	}
	if n, err := strconv.Atoi(strings.TrimRight(o.memory, "MG")); err != nil || n < 1 || strings.TrimLeft(o.memory, "0123456789") == "" {
		return fmt.Errorf("--memory %q: want a number with M or G, like 4G", o.memory)
	}
	if len(o.program) == 0 && !o.prepare {
		return errors.New("no program named; say: vm [flags] -- PROGRAM [ARGS...]")
	}
	return nil
}
