//go:build kernel

package packets

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"kube-ipvs-proxy/e2e/judge"
	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// The roles of the statements.
const (
	X  = testbed.Client
	N  = testbed.Node1
	M  = testbed.Node2
	c1 = testbed.PodC1
	c2 = testbed.PodC2
	L1 = testbed.PodL1
	L2 = testbed.PodL2
	Rm = testbed.PodRm
	R3 = testbed.PodR3
)

const (
	IPv4 = testbed.IPv4
	IPv6 = testbed.IPv6
	TCP  = probe.TCP
	UDP  = probe.UDP
	SCTP = probe.SCTP
)

// lab is the one lab of all tests: it takes seconds to build in an emulator.
var lab *testbed.Lab

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "packets:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	var end func() error
	if lab, end, err = judge.Open(context.Background()); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := servePods(); err != nil {
		return 1, err
	}
	if err := lab.Start(context.Background()); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// podPorts are where all pods but the clients answer, TCP and UDP.
var podPorts = []uint16{8080, 8443, 9090}

func servePods() error {
	for _, pod := range []string{L1, L2, Rm, R3} {
		for _, f := range testbed.Families() {
			for _, port := range podPorts {
				for _, proto := range []probe.Protocol{TCP, UDP} {
					h := lab.Host(pod)
					if _, err := h.Serve(proto, netip.AddrPortFrom(h.Addr(f), port)); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}
