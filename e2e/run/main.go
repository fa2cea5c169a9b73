// Command run compiles the tests that need a kernel with IPVS (build tag
// "kernel") and runs them, all packages in one boot of the machine of e2e/vm,
// each package in fresh namespaces.
//
//	run [-v] [-run REGEXP] [-timeout D] [-machine auto|qemu|host] [-env KEY=VALUE] [-peers] [PACKAGES]
//
// With -peers it runs those that need the programs of e2e/peers and an API server too
// (build tags "kernel" and "peers"), and only those.
//
// With PROXY=api in the environment the proxies of the lab read a real API server instead
// of a folder; with PROXY=kube-proxy-iptables (or -ipvs, -nftables) the tests that use the
// lab run the real kube-proxy instead of the product (see e2e/judge).
//
// After the packet tests it prints the table of e2e/statements with what they said.
//
// It fails when a test fails or skips, when the machine can't run, and when a
// package ran no test: silence is not success.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"kube-ipvs-proxy/e2e/program"
)

// options is the command line as one value.
type options struct {
	verbose  bool
	filter   *regexp.Regexp
	timeout  time.Duration // for one package
	machine  string
	env      []string // KEY=VALUE for the tests
	peers    bool     // the tests of the tag peers, and only those
	patterns []string
}

// tags are those of the tests that are run, and of those that are not.
func (o options) tags() (with, without string) {
	if o.peers {
		return kernelTag + "," + peersTag, kernelTag
	}
	return kernelTag, ""
}

func main() {
	var err error
	if len(os.Args) == 3 && os.Args[1] == insideFlag {
		err = runInside(os.Args[2])
	} else {
		err = run(os.Args[1:])
	}
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(exit.ExitCode())
	default:
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string) (options, error) {
	o := options{filter: regexp.MustCompile("")}
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	fs.BoolVar(&o.verbose, "v", false, "show the tests' output as it comes")
	fs.DurationVar(&o.timeout, "timeout", 40*time.Minute, "limit for each package")
	fs.StringVar(&o.machine, "machine", "auto", "auto, qemu or host (see e2e/vm)")
	fs.BoolVar(&o.peers, "peers", false, "the tests that need kube-proxy and an API server, and only those")
	fs.Func("run", "run the tests whose names match this regular expression", func(s string) (err error) {
		o.filter, err = regexp.Compile(s)
		return err
	})
	fs.Func("env", "`KEY=VALUE` for the tests; may be repeated", func(s string) error {
		o.env = append(o.env, s)
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.patterns = fs.Args(); len(o.patterns) == 0 {
		o.patterns = []string{"./..."}
	}
	return o, nil
}

// run is the host's side.
func run(args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	root, err := program.ModuleDir()
	if err != nil {
		return err
	}
	with, without := o.tags()
	suites, err := findSuites(o.patterns, o.filter, with, without)
	if err != nil {
		return err
	}
	if os.Getenv(proxyVariable) == apiProxy {
		if suites, err = askableByAPI(os.Stdout, suites); err != nil {
			return err
		}
	}
	if len(suites) == 0 {
		return fmt.Errorf("no test of the build tags %s in %s matches %q", with, strings.Join(o.patterns, " "), o.filter)
	}
	bin := filepath.Join(root, "bin")
	vm := filepath.Join(bin, "vm")
	start := time.Now()
	if err := build(vm, "", "./e2e/vm", root); err != nil {
		return err
	}
	for i := range suites {
		s := &suites[i]
		s.Binary = filepath.Join(bin, "e2e", s.name()+".test")
		if err := build(s.Binary, with, s.Package, root); err != nil {
			return err
		}
	}
	fmt.Printf("compiled the kernel tests of %d packages in %v\n", len(suites), since(start))
	p := plan{Suites: suites, VM: vm, Bin: bin, Env: o.env, Verbose: o.verbose, Timeout: o.timeout}
	results := filepath.Join(bin, "e2e", "results")
	if err := errors.Join(os.RemoveAll(results), os.MkdirAll(results, 0o755)); err != nil {
		return err
	}
	j, err := startJudge(root, o, results)
	if err != nil {
		return err
	}
	if j == nil {
		return boot(o, p, results)
	}
	p.Env, p.Direct = append(p.Env, j.env...), j.api != ""
	return errors.Join(boot(o, p, results, j.options()...), j.close())
}

// build compiles a package statically, as its tests of the tags, or without tags as a
// program. What both import is compiled as "make build" has it, and so once.
func build(out, tags, pkg, dir string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false", "-o", out, pkg}
	if tags != "" {
		args = []string{"test", "-c", "-trimpath", "-tags", tags, "-o", out, pkg}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s: %w\n%s", pkg, err, text)
	}
	return nil
}

// boot runs the plan in the machine, which is started with more options; logs stay in
// results.
func boot(o options, p plan, results string, more ...string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(results, "plan.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	limit := time.Minute + o.timeout*time.Duration(len(p.Suites))
	args := append([]string{"--machine", o.machine, "--results", results, "--timeout", limit.String()}, more...)
	cmd := exec.Command(p.VM, append(args, "--", self, insideFlag, "/results/plan.json")...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	start := time.Now()
	err = cmd.Run()
	if err := errors.Join(err, showStatements(os.Stdout, p.Suites, results, o.filter.String() == "")); err != nil {
		return fmt.Errorf("kernel tests: %w (logs: %s)", err, results)
	}
	// The inside writes this last: without it nothing is proven.
	if _, err := os.Stat(filepath.Join(results, doneFile)); err != nil {
		return fmt.Errorf("the machine said success without running all: %w", err)
	}
	fmt.Printf("kernel tests passed in %v\n", since(start))
	return nil
}

func since(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }
