package main

import (
	"bufio"
	"net/netip"
	"os"
	"strconv"
	"strings"

	vnetlink "github.com/vishvananda/netlink"

	"kube-ipvs-proxy/proxier/explain"
)

// asked bounds how many endpoints' routes are looked at: those to one node are alike.
const asked = 256

// ways finds the widest way to pods on this node and the narrowest to endpoints on
// others.
func (s *scene) ways() (pod, far explain.Way) {
	known := map[netip.Addr]bool{}
	for _, name := range s.source.Names() {
		_, endpoints := s.source.Service(name)
		for _, e := range endpoints {
			addr := e.Addr.Addr()
			if known[addr] || len(known) == asked || e.NodeName == "" {
				continue
			}
			known[addr] = true
			way, ok := wayTo(addr)
			switch here := e.NodeName == s.Node.Name; {
			case !ok:
			case here && way.MTU > pod.MTU:
				pod = way
			case !here && (far.MTU == 0 || way.MTU < far.MTU):
				far = way
			}
		}
	}
	return pod, far
}

// wayTo asks the kernel for the route; false where there is none, or it is the node's
// own address.
func wayTo(addr netip.Addr) (explain.Way, bool) {
	routes, err := vnetlink.RouteGet(addr.AsSlice())
	if err != nil || len(routes) == 0 {
		return explain.Way{}, false
	}
	link, err := vnetlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil || link.Attrs().Name == "lo" {
		return explain.Way{}, false
	}
	way := explain.Way{Device: link.Attrs().Name, MTU: link.Attrs().MTU, To: addr.String()}
	if mtu := routes[0].MTU; mtu > 0 && mtu < way.MTU {
		way.MTU = mtu
	}
	return way, true
}

// counter reads a counter of /proc/net/netstat or /proc/net/snmp, where a line of names
// stands before one of numbers; zero when it is not there.
func counter(file, group, name string) uint64 {
	f, err := os.Open("/proc/thread-self/net/" + file)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	var names []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0] != group+":" {
			continue
		}
		if names == nil {
			names = words
			continue
		}
		for i, n := range names {
			if n == name && i < len(words) {
				value, _ := strconv.ParseUint(words[i], 10, 64)
				return value
			}
		}
	}
	return 0
}
