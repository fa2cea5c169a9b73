//go:build kernel

package packets

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// scene is one test: its Services go when it ends, and a failure leaves a dump.
type scene struct {
	*testing.T
	files  map[string]bool
	dumped bool
}

func begin(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, files: map[string]bool{}}
	t.Cleanup(s.end)
	return s
}

func (s *scene) end() {
	s.dumpFailure()
	for name := range s.files {
		if err := lab.Manifests.Remove(name); err != nil {
			s.Error(err)
		}
	}
}

// dumpsLeft ends the dumps when everything fails: each takes seconds in an emulator.
var dumpsLeft = 8

// dumpFailure shows the state of the nodes, once, if the test has failed.
func (s *scene) dumpFailure() {
	if s.Failed() && !s.dumped && dumpsLeft > 0 {
		s.dumped = true
		dumpsLeft--
		s.dump(N)
		s.dump(M)
	}
}

// dumpLines is how much of a dump is shown besides the file.
const dumpLines = 150

func (s *scene) dump(node string) {
	path, text, err := lab.Dump(node)
	if err != nil {
		s.Errorf("dump of %s: %v", node, err)
	}
	lines := strings.Split(text, "\n")
	s.Logf("state of %s (all of it: %s)\n%s", node, path, strings.Join(lines[:min(dumpLines, len(lines))], "\n"))
}

// service applies a new Service and waits until the nodes have it.
func (s *scene) service(v service) *service {
	s.Helper()
	if v.number = lastNumber.next(); v.number > lastServiceNumber {
		s.Fatalf("more than %d Services: their addresses would overlap", lastServiceNumber)
	}
	s.apply(&v)
	return &v
}

// apply brings a Service to its present value.
func (s *scene) apply(v *service) {
	s.Helper()
	s.write(v.name(), v.objects())
	s.settle()
}

// remove takes a Service and its slices away.
func (s *scene) remove(v *service) {
	s.Helper()
	delete(s.files, v.name())
	if err := lab.Manifests.Remove(v.name()); err != nil {
		s.Fatal(err)
	}
	s.settle()
}

func (s *scene) write(file string, objects []runtime.Object) {
	s.Helper()
	if err := lab.Manifests.Apply(file, objects...); err != nil {
		s.Fatal(err)
	}
	s.files[file] = true
}

func (s *scene) settle() {
	s.Helper()
	if err := lab.Settle(context.Background()); err != nil {
		s.Fatal(err)
	}
}

// flags runs the proxy of N with other flags until the test ends.
func (s *scene) flags(args ...string) {
	s.Helper()
	s.Cleanup(func() {
		s.dumpFailure() // as it was with these flags
		if err := lab.Restart(context.Background(), N); err != nil {
			s.Error(err)
		}
	})
	if err := lab.Restart(context.Background(), N, args...); err != nil {
		s.Fatal(err)
	}
}

// serve starts a server for the rest of the test.
func (s *scene) serve(host string, proto probe.Protocol, at netip.AddrPort) {
	s.Helper()
	server, err := lab.Host(host).Serve(proto, at)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := server.Close(); err != nil {
			s.Error(err)
		}
	})
}

// sniff counts what arrives at a host for the rest of the test.
func (s *scene) sniff(host string) *probe.Sniffer {
	s.Helper()
	n, err := lab.Host(host).Sniff()
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := n.Close(); err != nil {
			s.Error(err)
		}
	})
	return n
}

// way is one family and protocol of a test.
type way struct {
	*testing.T
	f     testbed.Family
	proto probe.Protocol
}

// each runs a part of the test for both families, by TCP and by UDP.
func (s *scene) each(test func(w way)) { s.by([]probe.Protocol{TCP, UDP}, test) }

// eachTCP runs a part of the test for both families.
func (s *scene) eachTCP(test func(w way)) { s.by([]probe.Protocol{TCP}, test) }

func (s *scene) by(protocols []probe.Protocol, test func(w way)) {
	for _, f := range testbed.Families() {
		for _, p := range protocols {
			s.Run(fmt.Sprintf("%v/%v", f, p), func(t *testing.T) { test(way{t, f, p}) })
		}
	}
}

// addr is the main address of a host.
func (w way) addr(host string) netip.Addr { return lab.Host(host).Addr(w.f) }

// nodeAddrs are all addresses of N.
func (w way) nodeAddrs() []netip.Addr { return lab.Host(N).NodeAddrs(w.f) }

// everyAddr is the address that stands for all of a host.
func (w way) everyAddr() netip.Addr {
	if w.f == IPv6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}
