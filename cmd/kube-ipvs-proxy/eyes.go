package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"reflect"
	"sync"

	"github.com/moby/ipvs"
	"github.com/sirupsen/logrus"
	vnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/explain"
)

// eyes read IPVS through a library that shares no code with the agent's, so that a
// fault of the agent's codec cannot hide from them. One lock makes them safe for
// several goroutines, which the library is not.
type eyes struct {
	mu     sync.Mutex
	handle *ipvs.Handle
}

// seen is a virtual server in the library's words, with its real servers.
type seen struct {
	service *ipvs.Service
	reals   []*ipvs.Destination
}

// openEyes makes sure that the kernel has IPVS: the library takes every answer of a
// kernel without it for success.
func openEyes() (*eyes, error) { return openEyesOn("IPVS") }

func openEyesOn(family string) (*eyes, error) {
	if _, err := vnetlink.GenlFamilyGet(family); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, ipvsutil.ErrNoIPVS
		}
		return nil, fmt.Errorf("ask the kernel for IPVS: %w", err)
	}
	logrus.SetOutput(io.Discard) // errors are returned as well
	// The kernel has the module: the library's call of modprobe would be for nothing.
	path := os.Getenv("PATH")
	_ = os.Setenv("PATH", "")
	handle, err := ipvs.New("")
	_ = os.Setenv("PATH", path)
	if err != nil {
		return nil, fmt.Errorf("open IPVS: %w", err)
	}
	return &eyes{handle: handle}, nil
}

func (e *eyes) close() { e.handle.Close() }

// lookTries bounds how often a list is read until two in a row have the same servers.
const lookTries = 6

// look lists all virtual servers and their real servers. The kernel gives long lists
// in parts and does not say that another program's change disturbed them: only two
// equal ones in a row are believed. The library waits for ever for an answer that was
// lost; the context ends that.
func (e *eyes) look(ctx context.Context) ([]seen, error) {
	type result struct {
		list []seen
		err  error
	}
	done := make(chan result, 1)
	go func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		list, err := e.steady()
		done <- result{list, err}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case r := <-done:
		return r.list, r.err
	}
}

func (e *eyes) steady() ([]seen, error) {
	before, err := e.services()
	for try := 0; err == nil && try < lookTries; try++ {
		var now []*ipvs.Service
		if now, err = e.services(); err == nil && reflect.DeepEqual(keysOf(before), keysOf(now)) {
			return e.reals(now)
		}
		before = now
	}
	if err == nil {
		err = errors.New("list of virtual servers: others change it all the time; try again")
	}
	return nil, err
}

func (e *eyes) services() ([]*ipvs.Service, error) {
	list, err := e.handle.GetServices()
	if err != nil {
		return nil, fmt.Errorf("list virtual servers: %w", err)
	}
	return list, nil
}

func (e *eyes) reals(services []*ipvs.Service) ([]seen, error) {
	list := make([]seen, len(services))
	for i, s := range services {
		reals, err := e.handle.GetDestinations(s)
		if err != nil {
			return nil, fmt.Errorf("list real servers of %s: %w", keyOf(s), err)
		}
		list[i] = seen{s, reals}
	}
	return list, nil
}

func keysOf(services []*ipvs.Service) []ipvsutil.Key {
	keys := make([]ipvsutil.Key, len(services))
	for i, s := range services {
		keys[i] = keyOf(s)
	}
	return keys
}

// The kernel's bits of a virtual server, and netmasks that cover a whole address
// (include/uapi/linux/ip_vs.h).
const (
	bitPersistent = 0x1
	bitHashed     = 0x2
	wholeIPv4     = 0xffffffff
	wholeIPv6     = 128
)

func keyOf(s *ipvs.Service) ipvsutil.Key {
	ipv6 := s.AddressFamily == unix.AF_INET6
	if s.FWMark != 0 {
		return ipvsutil.MarkKey(s.FWMark, ipv6)
	}
	return ipvsutil.Key{Addr: netip.AddrPortFrom(addrOf(s.Address, ipv6), s.Port), Protocol: ipvsutil.Protocol(s.Protocol)}
}

func addrOf(ip []byte, ipv6 bool) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	if !ipv6 {
		addr = addr.Unmap()
	}
	return addr
}

// server gives what was seen in our words.
func (s seen) server() explain.Server {
	key := keyOf(s.service)
	v := ipvsutil.VirtualServer{
		Key: key, Scheduler: s.service.SchedName,
		Flags: ipvsutil.Flags(s.service.Flags &^ (bitPersistent | bitHashed)),
	}
	whole := uint32(wholeIPv4)
	if key.IsIPv6() {
		whole = wholeIPv6
	}
	if s.service.Flags&bitPersistent != 0 {
		v.Persistence = s.service.Timeout
		v.Foreign = s.service.Timeout == 0 || s.service.Netmask != whole
	}
	server := explain.Server{VirtualServer: v}
	for _, d := range s.reals {
		state := ipvsutil.RealServerState{
			RealServer: ipvsutil.RealServer{
				Addr: netip.AddrPortFrom(addrOf(d.Address, key.IsIPv6()), d.Port), Weight: uint32(d.Weight),
				Foreign: d.ConnectionFlags&ipvs.ConnFwdMask != ipvs.ConnFwdMasq,
			},
			Connections: ipvsutil.Connections{Active: uint32(d.ActiveConnections), Inactive: uint32(d.InactiveConnections)},
		}
		state.Thresholds(d.UpperThreshold, d.LowerThreshold)
		server.RealServers = append(server.RealServers, state)
	}
	return server
}
