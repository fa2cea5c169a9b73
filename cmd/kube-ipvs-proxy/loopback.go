package main

import (
	"net/netip"
	"strings"

	"kube-ipvs-proxy/proxier"
	"kube-ipvs-proxy/proxier/forward"
	"kube-ipvs-proxy/proxier/plan"
)

// loopbackPorts brings NodePorts and loopback addresses together. Only the loop sets
// them.
type loopbackPorts struct {
	*forward.Forwarder
	addrs []netip.Addr
	ports map[proxier.LoopbackKey]proxier.LoopbackTarget
}

func newLoopbackPorts(failed func(service string, err error)) *loopbackPorts {
	return &loopbackPorts{Forwarder: forward.New(failed)}
}

// setAddresses says which loopback addresses serve NodePorts.
func (l *loopbackPorts) setAddresses(addrs []netip.Addr) {
	l.addrs = addrs
	l.update()
}

// setPorts says which NodePorts are served there.
func (l *loopbackPorts) setPorts(ports map[proxier.LoopbackKey]proxier.LoopbackTarget) {
	l.ports = ports
	l.update()
}

func (l *loopbackPorts) update() {
	want := map[netip.AddrPort]forward.Target{}
	for _, addr := range l.addrs {
		for key, target := range l.ports {
			if key.IPv6 == addr.Is6() {
				want[netip.AddrPortFrom(addr, key.Port)] = forward.Target{Service: target.Service.String(), To: target.To}
			}
		}
	}
	l.Update(want)
}

// splitLoopback takes the loopback addresses out of a list.
func splitLoopback(addrs []netip.Addr) (loopback, others []netip.Addr) {
	for _, addr := range addrs {
		if addr.IsLoopback() {
			loopback = append(loopback, addr)
		} else {
			others = append(others, addr)
		}
	}
	return loopback, others
}

// serviceName is the name that ServiceName.String has written.
func serviceName(text string) plan.ServiceName {
	namespace, name, _ := strings.Cut(text, "/")
	return plan.ServiceName{Namespace: namespace, Name: name}
}
