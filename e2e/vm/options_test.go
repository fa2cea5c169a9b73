package main

import (
	"bytes"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseOptions(t *testing.T) {
	o, err := parseOptions([]string{"--timeout", "90s", "--memory=2048M", "--cpus", "1", "--results", "out",
		"--steady", "--machine=qemu", "--env", "A=b=c", "--env", "D=", "--", "./x.test", "-test.v", "--", "--cpus"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if o.timeout != 90*time.Second || o.memory != "2048M" || o.cpus != 1 || o.results != "out" || !o.steady || o.machine != machineQEMU {
		t.Errorf("got %+v", o)
	}
	if want := []string{"A=b=c", "D="}; !slices.Equal(o.env, want) {
		t.Errorf("env %q, want %q", o.env, want)
	}
	if want := []string{"./x.test", "-test.v", "--", "--cpus"}; !slices.Equal(o.program, want) {
		t.Errorf("program %q, want %q", o.program, want)
	}
}

func TestParseOptionsDefaults(t *testing.T) {
	o, err := parseOptions([]string{"true"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if o.machine != machineAuto || o.timeout == 0 || o.memory != "4G" || o.cpus != 2 || o.steady {
		t.Errorf("got %+v", o)
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "no program"},
		{"--", "no program"},
		{"--machine=vmware -- true", "--machine"},
		{"--machine=host --steady -- true", "--steady"},
		{"--api=70000 -- true", "--api"},
		{"--machine=host --api=6443 -- true", "--api"},
		{"--cpus=0 -- true", "--cpus"},
		{"--cpus=many -- true", "cpus"},
		{"--timeout=-1s -- true", "--timeout"},
		{"--memory=4X -- true", "--memory"},
		{"--memory=M -- true", "--memory"},
		{"--memory=4 -- true", "--memory"},
		{"--env=novalue -- true", "KEY=VALUE"},
		{"--env==x -- true", "KEY=VALUE"},
		{"--kvm -- true", "kvm"},
	} {
		_, err := parseOptions(strings.Fields(c.args), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("vm %s: error %v, want one with %q", c.args, err, c.want)
		}
	}
	var out bytes.Buffer
	if _, err := parseOptions([]string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "exit code") {
		t.Errorf("--help: error %v, text %q", err, out.String())
	}
}
