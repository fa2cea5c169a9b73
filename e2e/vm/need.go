package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// tool is a command and Debian's package that brings it.
type tool struct{ command, pkg string }

// userland is what kernel tests may call inside.
var userland = []tool{
	{"iptables", "iptables"},
	{"ipset", "ipset"},
	{"ipvsadm", "ipvsadm"},
	{"ip", "iproute2"},
	{"conntrack", "conntrack"},
	{"nft", "nftables"},
	{"modprobe", "kmod"},
}

// emulator is what boots a machine.
var emulator = []tool{{"qemu-system-x86_64", "qemu-system-x86"}}

// missing gives the packages of the tools that has does not find, sorted.
func missing(tools []tool, has func(command string) bool) []string {
	var pkgs []string
	for _, t := range tools {
		if !has(t.command) {
			pkgs = append(pkgs, t.pkg)
		}
	}
	slices.Sort(pkgs)
	return slices.Compact(pkgs)
}

func hasTool(command string) bool {
	_, err := lookTool(command)
	return err == nil
}

// ensureTools installs what is missing; it needs root and apt for that.
func ensureTools(tools []tool) error {
	pkgs := missing(tools, hasTool)
	if len(pkgs) == 0 {
		return nil
	}
	list := strings.Join(pkgs, " ")
	hint := "install by hand: apt-get install --no-install-recommends " + list
	if !hasTool("apt-get") {
		return fmt.Errorf("missing: %s; this host has no apt-get: install the commands %s by its own means", list, commands(tools, pkgs))
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("missing: %s; not root; %s", list, "sudo "+strings.TrimPrefix(hint, "install by hand: "))
	}
	unlock, err := lockCache()
	if err != nil {
		return err
	}
	defer unlock()
	if pkgs = missing(tools, hasTool); len(pkgs) == 0 { // another run was quicker
		return nil
	}
	say("installing %s (apt)", list)
	args := append([]string{"install", "-y", "--no-install-recommends"}, pkgs...)
	if err := aptRetry(func() error { return apt("", args...) }); err != nil {
		return fmt.Errorf("%w; %s", err, hint)
	}
	if left := missing(tools, hasTool); len(left) > 0 {
		return fmt.Errorf("installed, but still not found: %s", commands(tools, left))
	}
	return nil
}

// commands names the commands that the packages would bring.
func commands(tools []tool, pkgs []string) string {
	var names []string
	for _, t := range tools {
		if slices.Contains(pkgs, t.pkg) {
			names = append(names, t.command)
		}
	}
	return strings.Join(names, " ")
}

// aptRetry does something with apt; when that fails, it refreshes the package
// lists and does it once more: lists are empty or old on fresh machines.
func aptRetry(do func() error) error {
	if do() == nil {
		return nil
	}
	if os.Geteuid() == 0 {
		if err := apt("", "update"); err != nil {
			return err
		}
	}
	return do()
}

// apt runs apt-get in dir, quietly; the error holds the end of what it said.
func apt(dir string, args ...string) error {
	cmd := exec.Command("apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=600"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	return runQuiet(cmd)
}

// runQuiet runs a command that is killed with us; its output is shown only as
// part of the error.
func runQuiet(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	err := cmd.Run()
	if err == nil {
		return nil
	}
	name := strings.Join(cmd.Args, " ")
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s: %w\n%s", name, err, lastLines(out.String(), 5))
}

// lastLines is the last n lines of s that are not blank.
func lastLines(s string, n int) string {
	lines := slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
