//go:build kernel

package packets

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// alone is a node without neighbours, on which programs of ip6tables only leave a note.
func (s *scene) alone() (h *testbed.Host, called func() bool) {
	s.Helper()
	h, err := testbed.Alone("alone")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := h.Close(); err != nil {
			s.Error(err)
		}
	})
	dir := s.TempDir()
	note := filepath.Join(dir, "called")
	for _, name := range []string{"ip6tables", "ip6tables-nft", "ip6tables-legacy"} {
		for _, kind := range []string{"", "-save", "-restore"} {
			path, err := exec.LookPath(name + kind)
			if err != nil {
				s.Fatal(err)
			}
			text := fmt.Sprintf("#!/bin/sh\necho \"$0 $@\" >> %s\nexec %s \"$@\"\n", note, path)
			if err := os.WriteFile(filepath.Join(dir, name+kind), []byte(text), 0o755); err != nil {
				s.Fatal(err)
			}
		}
	}
	s.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return h, func() bool {
		text, err := os.ReadFile(note)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			s.Fatal(err)
		}
		if len(text) > 0 {
			s.Logf("%s", text)
		}
		return len(text) > 0
	}
}

func TestStatement127WithoutIPv6(t *testing.T) {
	s := begin(t)
	h, called := s.alone()
	for _, kind := range []string{"all", "default", "lo"} {
		if err := h.SetSysctl("net/ipv6/conf/"+kind+"/disable_ipv6", "1"); err != nil {
			t.Fatal(err)
		}
	}
	pod := lab.Host(L1).Addr(IPv4) // here an address of the node itself
	if err := h.AddAddr("lo", pod, 32); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Serve(TCP, netip.AddrPortFrom(pod, 8080)); err != nil {
		t.Fatal(err)
	}
	v := s.service(service{endpoints: ready(L1), nodePort: true})
	program, err := lab.Product()
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.StartProcess(nil, program, "run",
		"--manifests", lab.Manifests.Dir(), "--hostname-override", N, "--cluster-cidr", testbed.ClusterCIDR)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("said:\n%s", strings.Join(p.Log.Last(50, nil), "\n"))
		}
	})
	settled := func(l string) bool { return strings.Contains(l, "msg=settled") }
	for start := time.Now(); len(p.Log.Last(1, settled)) == 0; time.Sleep(100 * time.Millisecond) {
		if time.Since(start) > testbed.StartLimit {
			t.Fatal("the proxy does not settle")
		}
	}
	w := way{t, IPv4, TCP}
	for _, at := range []netip.AddrPort{v.cluster(w), v.nodePortAt(pod)} {
		if r := h.Probe.Do(probe.Call{Protocol: TCP, To: at}); r.Who != "alone" {
			t.Errorf("%v: %v", at, r)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Error(err)
	}
	if called() {
		t.Error("programs of ip6tables were called")
	}
	if failed := p.Log.Last(5, func(l string) bool { return strings.Contains(l, "level=ERROR") }); len(failed) > 0 {
		t.Errorf("said %q", failed)
	}
}
