package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	insideFlag = "-inside"
	doneFile   = "done" // in the results: the inside went through the whole plan without a failure
)

// runInside runs the plan's suites in the machine, one after the other.
func runInside(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	results := filepath.Dir(file)
	failed := 0
	for _, s := range p.Suites {
		if err := runSuite(s, p, results); err != nil {
			failed++
			fmt.Printf("FAIL  %s: %v\n", s.Package, err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d packages failed", failed, len(p.Suites))
	}
	return os.WriteFile(filepath.Join(results, doneFile), nil, 0o644)
}

// runSuite runs one suite in fresh namespaces; its output goes to a log, and
// to stdout when it fails.
func runSuite(s suite, p plan, results string) error {
	start := time.Now()
	log, err := os.Create(filepath.Join(results, s.name()+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	fmt.Printf("run   %s  %d tests\n", s.Package, len(s.Tests))
	cmd := p.command(s, results)
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return err
	}
	var out io.Writer = log
	if p.Verbose {
		out = io.MultiWriter(log, os.Stdout)
	}
	n, scanErr := scan(r, out)
	if err := errors.Join(scanErr, cmd.Wait(), n.check(s.Tests)); err != nil {
		if !p.Verbose {
			show(log.Name())
		}
		return err
	}
	fmt.Printf("ok    %s  %v, %v\n", s.Package, n, time.Since(start).Round(100*time.Millisecond))
	return nil
}

// command runs the tests of a suite: in fresh namespaces, unless they use a server that
// only the machine itself reaches.
func (p plan) command(s suite, results string) *exec.Cmd {
	tests := []string{s.Binary, "-test.v", "-test.count=1", "-test.timeout", p.Timeout.String(),
		"-test.run", "^(" + strings.Join(s.Tests, "|") + ")$"}
	env := append([]string{"BIN=" + p.Bin}, p.Env...)
	if p.Direct {
		cmd := exec.Command(tests[0], tests[1:]...)
		cmd.Dir, cmd.Env = s.Dir, append(os.Environ(), env...)
		return cmd
	}
	args := []string{"--machine=host", "--results", filepath.Join(results, s.name()), "--timeout", (p.Timeout + 10*time.Second).String()}
	for _, e := range env {
		args = append(args, "--env", e)
	}
	cmd := exec.Command(p.VM, slices.Concat(args, []string{"--"}, tests)...)
	cmd.Dir = s.Dir
	return cmd
}

// counts are the ends of tests, as -test.v tells them: top-level tests that
// passed and failed, and skipped ones at any depth.
type counts struct{ passed, failed, skipped int }

func (c counts) String() string { return fmt.Sprintf("%d tests", c.passed) }

// check tells whether what ran is what was to be run. A skipped test is a
// fault: this is the kernel that can do all.
func (c counts) check(tests []string) error {
	switch {
	case c.failed > 0:
		return fmt.Errorf("%d of %d tests failed", c.failed, len(tests))
	case c.skipped > 0:
		return fmt.Errorf("%d tests skipped: here each must run", c.skipped)
	case c.passed == 0:
		return errors.New("no test ran")
	case c.passed != len(tests):
		return fmt.Errorf("%d tests to run, but %d passed", len(tests), c.passed)
	}
	return nil
}

// scan copies the tests' output and counts; failures are named at once.
func scan(r io.Reader, out io.Writer) (counts, error) {
	var c counts
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if _, werr := io.WriteString(out, line); werr != nil {
			return c, werr
		}
		switch {
		case strings.HasPrefix(line, "--- PASS: "):
			c.passed++
		case strings.HasPrefix(line, "--- FAIL: "):
			c.failed++
		case strings.HasPrefix(strings.TrimLeft(line, " "), "--- SKIP: "):
			c.skipped++
		}
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err != nil {
			return c, err
		}
	}
}

// show prints the last part of a log.
func show(file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return // the failure itself is told by the caller
	}
	lines := strings.SplitAfter(string(text), "\n")
	const most = 300
	if cut := len(lines) - most; cut > 0 {
		fmt.Printf("... %d lines more in %s\n", cut, file)
		lines = lines[cut:]
	}
	fmt.Print(strings.Join(lines, ""))
}
