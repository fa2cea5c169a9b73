//go:build kernel

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// These tests run where the kernel has IPVS, as root: the namespaces that a
// host with ip_vs gets instead of the machine.

// TestMain lets this executable be the first process of the namespaces.
func TestMain(m *testing.M) {
	if os.Args[0] == insideName {
		os.Exit(runNamespace())
	}
	os.Exit(m.Run())
}

// inNamespaces runs a shell script by runHost and gives what it wrote to
// /results/out.
func inNamespaces(t *testing.T, script string, timeout time.Duration) (outcome, string) {
	t.Helper()
	if err := hostCan(); err != nil {
		t.Fatal(err)
	}
	results := t.TempDir()
	o := options{timeout: timeout, results: results, env: []string{"COLOUR=green"},
		program: []string{"sh", "-c", "exec >/results/out 2>&1; " + script}}
	j, err := newJob(o)
	if err != nil {
		t.Fatal(err)
	}
	out, err := runHost(j, o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(results, "out"))
	if err != nil {
		t.Fatal(err)
	}
	return out, string(text)
}

func TestNamespacesAreApart(t *testing.T) {
	const name = "apart0"
	out, text := inNamespaces(t, `
		ip link add `+name+` type dummy && ipvsadm -A -t 10.0.0.1:80 -s rr && ipset create apart hash:ip &&
		ip -o link && ls /sys/class/net /run && echo $COLOUR $$ && ip route show table local && exit 7`, time.Minute)
	if out.code != 7 {
		t.Errorf("exit code %d, want 7:\n%s", out.code, text)
	}
	for _, want := range []string{name, "LOOPBACK,UP", "green", "127.0.0.1", "program"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "xtables.lock") {
		t.Errorf("/run is the host's:\n%s", text)
	}
	if err := exec.Command("ip", "link", "show", name).Run(); err == nil {
		t.Errorf("%s is on the host", name)
	}
	if servers, err := os.ReadFile("/proc/net/ip_vs"); err != nil || strings.Contains(string(servers), "0A000001") {
		t.Errorf("the host has the virtual server, or can't tell: %v\n%s", err, servers)
	}
}

// TestNamespacesEnd: the timeout also ends what the program left behind.
func TestNamespacesEnd(t *testing.T) {
	out, text := inNamespaces(t, `setsid sleep 98765 & echo started; wait`, 3*time.Second)
	if out.code != exitTimeout || !strings.Contains(text, "started") {
		t.Errorf("exit code %d, want %d:\n%s", out.code, exitTimeout, text)
	}
	if found, err := exec.Command("pgrep", "-f", "sleep 98765").Output(); err == nil {
		t.Errorf("still there: %s", found)
	}
}

func TestProgramMissing(t *testing.T) {
	if _, err := newJob(options{program: []string{"./no-such-program"}}); err == nil {
		t.Error("no error for a program that is not there")
	}
}
