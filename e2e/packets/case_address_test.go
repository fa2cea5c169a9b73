//go:build kernel

package packets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// Field reports about addresses.

// onNetwork is an address that hosts on the first network may have besides their own.
func onNetwork(f testbed.Family, last int) (netip.Addr, int) {
	if f == IPv4 {
		return netip.MustParseAddr(fmt.Sprintf("172.30.0.%d", last)), 24
	}
	return netip.MustParseAddr(fmt.Sprintf("fd30::%d", last)), 64
}

// give gives an address to a host until the returned function takes it away, at the
// latest when the test ends.
func (w way) give(host string, a netip.Addr, bits int) (take func()) {
	w.Helper()
	if err := lab.Host(host).AddAddr("eth0", a, bits); err != nil {
		w.Fatal(err)
	}
	given := true
	take = func() {
		if !given {
			return
		}
		given = false
		if err := lab.Host(host).RemoveAddr("eth0", a, bits); err != nil {
			w.Error(err)
		}
	}
	w.Cleanup(take)
	return take
}

// TestCaseA2AddressThatWanders (kubernetes/kubernetes#66966): of a floating address only
// the Service's port is taken, on the host that has it as on all others.
func TestCaseA2AddressThatWanders(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1), ports: []servicePort{{"tcp", TCP, 443, 8443}}, change: func(o *corev1.Service) {
		for _, f := range testbed.Families() {
			a, _ := onNetwork(f, 50)
			o.Spec.ExternalIPs = append(o.Spec.ExternalIPs, a.String())
		}
	}})
	s.eachTCP(func(w way) {
		a, bits := onNetwork(w.f, 50)
		other := netip.AddrPortFrom(a, 6443)
		for _, host := range []string{X, N} {
			s.serve(host, TCP, netip.AddrPortFrom(w.everyAddr(), 6443))
		}
		take := w.give(X, a, bits)
		w.from(N).times(2).to(other).reach(X)
		w.from(c1).times(2).to(other).reach(X)
		w.from(N).times(2).to(v.at(a)).reach(L1)
		w.from(c1).times(2).to(v.at(a)).reach(L1)
		take()
		w.give(N, a, bits)
		w.eventually("N has the address", func() bool {
			return lab.Host(X).Probe.Do(probe.Call{Protocol: TCP, To: other, Timeout: time.Second}).Who == N
		})
		w.from(X).times(2).to(v.at(a)).reach(L1)
		w.from(c1).times(2).to(other).reach(N)
		w.from(c1).times(2).to(v.at(a)).reach(L1)
	})
}

// TestCaseA4AddressThatBecomesTheNodes (kubernetes/kubernetes#114815): a load balancer's
// address that the node gets as well is served with NodePorts and the host's own ports.
func TestCaseA4AddressThatBecomesTheNodes(t *testing.T) { begin(t).becomesTheNodes(60) }

func (s *scene) becomesTheNodes(last int) {
	v := s.service(service{endpoints: ready(L1), loadBalancer: true, nodePort: true, change: func(o *corev1.Service) {
		for i, f := range testbed.Families() {
			a, _ := onNetwork(f, last)
			o.Status.LoadBalancer.Ingress[i].IP = a.String()
		}
	}})
	s.eachTCP(func(w way) {
		a, bits := onNetwork(w.f, last)
		s.serve(N, TCP, netip.AddrPortFrom(w.everyAddr(), uint16(2200+last)))
		w.from(c1).times(2).to(v.at(a)).reach(L1)
		w.give(N, a, bits)
		w.eventually("NodePort on the new address", func() bool {
			return lab.Host(X).Probe.Do(probe.Call{Protocol: TCP, To: v.nodePortAt(a), Timeout: time.Second}).Who == L1
		})
		w.eventually("it is released", func() bool { return !s.bound()[a] })
		w.from(X).times(2).to(v.at(a)).reach(L1)
		w.from(X).times(2).to(v.nodePortAt(a)).reach(L1)
		w.from(X).to(netip.AddrPortFrom(a, uint16(2200+last))).reach(N)
	})
}

// segments dials from N and returns the size of the segments that the socket sends.
func (w way) segments(to netip.AddrPort) (size int, conn net.Conn) {
	w.Helper()
	err := lab.Host(N).Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", to.String(), 5*time.Second)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		w.Fatal(err)
	}
	control := raw.Control(func(fd uintptr) { size, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
	if err := errors.Join(control, err); err != nil {
		w.Fatal(err)
	}
	return size, conn
}

// TestCaseA9SegmentsToAClusterIP (kubernetes/kubernetes#68546): the device with the
// ClusterIPs does not change how much a segment holds, and much data passes.
func TestCaseA9SegmentsToAClusterIP(t *testing.T) {
	const much = 1 << 20
	s := begin(t)
	v := s.service(service{endpoints: ready(Rm), ports: []servicePort{{"tcp", TCP, 80, 7071}}})
	s.eachTCP(func(w way) {
		pod := netip.AddrPortFrom(w.addr(Rm), 7071)
		got := w.swallow(Rm, pod)
		direct, _ := w.segments(pod)
		<-got
		size, conn := w.segments(v.cluster(w))
		if size != direct {
			w.Errorf("segments to the ClusterIP have %d octets, to the pod %d", size, direct)
		}
		if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			w.Fatal(err)
		}
		if _, err := conn.Write(make([]byte, much)); err != nil {
			w.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			w.Fatal(err)
		}
		if n := <-got; n != much {
			w.Errorf("%d octets arrived, want %d", n, much)
		}
	})
}

// swallow accepts connections one after the other and tells how much each brought; the
// first is ended at once.
func (w way) swallow(host string, at netip.AddrPort) <-chan int64 {
	w.Helper()
	var l net.Listener
	err := lab.Host(host).Do(func() (err error) {
		l, err = net.Listen("tcp", at.String())
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = l.Close() })
	got := make(chan int64, 4)
	go func() {
		for first := true; ; first = false {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n := int64(0)
			if !first {
				n, _ = io.Copy(io.Discard, conn)
			}
			_ = conn.Close()
			got <- n
		}
	}()
	return got
}

// TestCaseA4AndA13AndD19OtherFlags runs the proxy with other flags: external addresses are
// bound, ClusterIPs are not (aerospike/aerospike-server#16), and UDP flows are kept long
// (kubernetes/kubernetes#120076).
func TestCaseA4AndA13AndD19OtherFlags(t *testing.T) {
	const limit = 400
	s := begin(t)
	limits := []string{"net/netfilter/nf_conntrack_udp_timeout", "net/netfilter/nf_conntrack_udp_timeout_stream"}
	for _, name := range limits {
		s.keep(name)
	}
	t.Cleanup(func() { s.run("ipvsadm", "--set", "0", "0", "300") })
	s.flags("--external-address-mode", "bind", "--cluster-ip-binding", "route", "--ipvs-udp-timeout", fmt.Sprint(limit, "s"))
	if _, udp := s.idleLimits(); udp != limit {
		t.Errorf("IPVS's limit of UDP is %d s, want %d", udp, limit)
	}
	for _, name := range limits {
		if got := s.sysctl(name); got < limit {
			t.Errorf("%s is %d s, IPVS keeps flows for %d", name, got, limit)
		}
	}
	s.becomesTheNodes(61)
	v := s.service(service{endpoints: ready(L1, Rm)})
	s.each(func(w way) {
		if s.bound()[v.clusterIP(w.f)] {
			w.Errorf("%v is an address of kube-ipvs0", v.clusterIP(w.f))
		}
		w.from(c1).times(4).to(v.cluster(w)).reach(L1, Rm).seen(w.addr(c1))
		w.from(N).times(4).to(v.cluster(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
		w.from(c1).to(onPort(v.cluster(w), 81)).refused()
	})
}

// keep puts a setting of N back when the test ends.
func (s *scene) keep(name string) {
	s.Helper()
	before := strconv.Itoa(s.sysctl(name))
	s.Cleanup(func() {
		if err := lab.Host(N).SetSysctl(name, before); err != nil {
			s.Error(err)
		}
	})
}

// sysctl is a number among the sysctls of N.
func (s *scene) sysctl(name string) int {
	s.Helper()
	text, err := lab.Host(N).Sysctl(name)
	if err != nil {
		s.Fatal(err)
	}
	return s.number(text)
}

// number reads a whole number.
func (s *scene) number(text string) int {
	s.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// idleLimits are those of IPVS for TCP and UDP, in seconds.
func (s *scene) idleLimits() (tcp, udp int) {
	s.Helper()
	_, list, _ := strings.Cut(s.run("ipvsadm", "-l", "--timeout"), ":")
	f := strings.Fields(list)
	if len(f) != 3 {
		s.Fatalf("ipvsadm says %q", list)
	}
	return s.number(f[0]), s.number(f[2])
}

// TestCaseL1NoARPForALoadBalancersAddress (metallb/metallb#153): a neighbour that looks
// for a load balancer's address on the wire gets no answer from the node.
func TestCaseL1NoARPForALoadBalancersAddress(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1), loadBalancer: true, external: true})
	s.eachTCP(func(w way) {
		for _, a := range []netip.Addr{v.lbIP(w.f), v.externalIP(w.f)} {
			w.from(X).to(v.at(a)).reach(L1) // by its route to N
			onLink := netip.PrefixFrom(a, a.BitLen())
			if err := lab.Host(X).Route(onLink, "eth0", netip.Addr{}); err != nil {
				w.Fatal(err)
			}
			for _, r := range w.from(X).silent(v.at(a)).results {
				if r.Outcome == probe.OK || r.Outcome == probe.Refused {
					w.Errorf("somebody answered for %v: %v", a, r)
				}
			}
			if _, err := lab.Host(X).Exec(context.Background(), "ip", "route", "del", onLink.String(), "dev", "eth0"); err != nil {
				w.Error(err)
			}
		}
	})
}
