package main

import (
	"strings"
	"testing"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/report"
)

// TestOptions: what cannot work is refused before anything is done.
func TestOptions(t *testing.T) {
	for _, test := range []struct {
		args string
		want string // part of the error
	}{
		{"--sizes 2x2", "size"},
		{"--subjects ours,kube-proxy", "no \"kube-proxy\""},
		{"--subjects floor,ours", "name ours before it"},
		{"--rounds 0", "--rounds"},
		{"-o yaml", "--output"},
		{"--subjects ours --ours /no/such", "/no/such"},
		{"report /no/such", "no such file"},
		{"extra", "unknown command"},
	} {
		cmd := command()
		cmd.SetArgs(strings.Fields(test.args))
		var out strings.Builder
		cmd.SetErr(&out)
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.args, err, test.want)
		}
	}
}

// TestSubjects: each name of the report is a subject, and no other.
func TestSubjects(t *testing.T) {
	for _, name := range []string{report.Ours, report.OursRoute, report.IPTables, report.IPVS, report.NFTables, report.Floor} {
		s, ok := find(name)
		if !ok || s.look == nil || (s.program != "") != (s.args != nil) {
			t.Errorf("subject %s is %+v", name, s)
		}
	}
	if n := len(subjects()); n != 6 {
		t.Errorf("%d subjects", n)
	}
}
