package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"kube-ipvs-proxy/ipvsutil"
)

// selection is what the endpoints of one port in one family come down to. cluster
// serves traffic with policy Cluster, local that with policy Local; any tells that
// some endpoint, on whatever node, could serve.
type selection struct {
	cluster, local []ipvsutil.RealServer
	any            bool
	serving        []netip.AddrPort // see Frontend.Serving
}

// selectEndpoints picks who serves. Ready endpoints are used; where there is none,
// those that are terminating but still serving (KEP-1669); each list falls back on
// its own. Topology hints restrict the ready ones of the cluster list only.
func selectEndpoints(endpoints []Endpoint, node Node, weights map[netip.Addr]uint32) selection {
	var all, local [notServing + 1][]Endpoint // by usability
	if len(endpoints) > 0 && alike(endpoints) {
		all[usable(endpoints[0])] = endpoints
	} else {
		for _, e := range endpoints {
			all[usable(e)] = append(all[usable(e)], e)
		}
	}
	for i := range endpoints {
		if e := &endpoints[i]; isLocal(e, node) {
			local[usable(*e)] = append(local[usable(*e)], *e)
		}
	}
	cluster := hinted(all[ready], node)
	if len(cluster) == 0 {
		cluster = all[finishing]
	}
	here := local[ready]
	if len(here) == 0 {
		here = local[finishing]
	}
	return selection{
		cluster: realServers(cluster, weights), local: realServers(here, weights), any: len(cluster) > 0,
		serving: serving(endpoints),
	}
}

// alike tells whether one can serve as well as another, as they mostly do.
func alike(endpoints []Endpoint) bool {
	first := usable(endpoints[0])
	for i := range endpoints {
		if usable(endpoints[i]) != first {
			return false
		}
	}
	return true
}

// serving are the endpoints without connections (UDP, SCTP) that still serve,
// whatever became of their being chosen.
func serving(endpoints []Endpoint) []netip.AddrPort {
	var addrs []netip.AddrPort
	for i := range endpoints {
		if e := &endpoints[i]; e.Protocol != ipvsutil.TCP && (e.Ready || e.Serving) {
			addrs = append(addrs, e.Addr)
		}
	}
	return addrs
}

func isLocal(e *Endpoint, node Node) bool {
	return e.NodeName != "" && e.NodeName == node.Name
}

// hinted narrows ready endpoints to those meant for this node, or else for its
// zone. A hint counts only if every endpoint has one of its kind and at least one
// names us (KEP-2433; node hints KEP-3015).
func hinted(ready []Endpoint, node Node) []Endpoint {
	if by, ok := narrow(ready, node.Name, func(e Endpoint) []string { return e.Nodes }); ok {
		return by
	}
	if by, ok := narrow(ready, node.Zone, func(e Endpoint) []string { return e.Zones }); ok {
		return by
	}
	return ready
}

func narrow(ready []Endpoint, name string, hints func(Endpoint) []string) ([]Endpoint, bool) {
	if name == "" {
		return nil, false
	}
	var by []Endpoint
	for _, e := range ready {
		names := hints(e)
		if len(names) == 0 {
			return nil, false
		}
		if slices.Contains(names, name) {
			by = append(by, e)
		}
	}
	return by, len(by) > 0
}

// realServers gives each address its weight, 1 unless the Service says otherwise;
// endpoints are sorted and distinct.
func realServers(endpoints []Endpoint, weights map[netip.Addr]uint32) []ipvsutil.RealServer {
	servers := make([]ipvsutil.RealServer, len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		servers[i] = ipvsutil.RealServer{Addr: e.Addr, Weight: 1}
		if weight, ok := weights[e.Addr.Addr()]; ok {
			servers[i].Weight = weight
		}
	}
	return servers
}

// portGroups are the endpoints of each port: of one only, as most Services have, or of more.
type portGroups struct {
	port PortKey
	only []Endpoint
	more map[PortKey][]Endpoint
}

// of returns the endpoints of a port.
func (g portGroups) of(port PortKey) []Endpoint {
	if g.more == nil && port == g.port {
		return g.only
	}
	return g.more[port]
}

// groupByPort gives each port of the Service its endpoints, sorted by address and
// each address once: while a Pod's address moves on to another Pod, two slices may
// have it, and the entry that is ready counts.
func groupByPort(endpoints []Endpoint) portGroups {
	if len(endpoints) == 0 {
		return portGroups{}
	}
	if first := portOf(&endpoints[0]); runOf(endpoints) == len(endpoints) {
		return portGroups{port: first, only: distinct(endpoints)}
	}
	more := map[PortKey][]Endpoint{}
	for len(endpoints) > 0 {
		key, n := portOf(&endpoints[0]), runOf(endpoints)
		run := endpoints[:n:n] // mostly all of the port
		if before := more[key]; before != nil {
			run = append(before, run...)
		}
		more[key], endpoints = run, endpoints[n:]
	}
	for key, group := range more {
		more[key] = distinct(group)
	}
	return portGroups{more: more}
}

// runOf counts the endpoints at the begin of a list that are of the first one's port.
func runOf(endpoints []Endpoint) int {
	n, first := 1, portOf(&endpoints[0])
	for n < len(endpoints) && portOf(&endpoints[n]) == first {
		n++
	}
	return n
}

// distinct sorts by address and leaves one of each; the list that is given stays as it is.
func distinct(endpoints []Endpoint) []Endpoint {
	if ascending(endpoints) {
		return endpoints
	}
	sorted := slices.SortedFunc(slices.Values(endpoints), compareEndpoints)
	return slices.CompactFunc(sorted, func(a, b Endpoint) bool { return a.Addr == b.Addr })
}

// ascending tells endpoints that are sorted by address, with each address once.
func ascending(endpoints []Endpoint) bool {
	for i := 1; i < len(endpoints); i++ {
		if endpoints[i-1].Addr.Compare(endpoints[i].Addr) >= 0 {
			return false
		}
	}
	return true
}

func portOf(e *Endpoint) PortKey { return PortKey{e.PortName, e.Protocol, e.Addr.Addr().Is6()} }

// compareEndpoints sorts by address, and the entry of an address that counts
// first. The rest only makes the choice independent of the order of slices.
func compareEndpoints(a, b Endpoint) int {
	if c := a.Addr.Compare(b.Addr); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(usable(a), usable(b)),
		cmp.Compare(a.NodeName, b.NodeName),
		slices.Compare(a.Zones, b.Zones),
		slices.Compare(a.Nodes, b.Nodes),
	)
}

// usability says how far an endpoint can serve.
type usability uint8

const (
	ready      usability = iota // or not known to be unready
	finishing                   // terminating, but it still serves
	notServing                  // never used
)

func usable(e Endpoint) usability {
	switch {
	case e.Ready:
		return ready
	case e.Serving && e.Terminating:
		return finishing
	}
	return notServing
}

// localReadyAddrs counts the distinct addresses of ready endpoints on the node, for
// IPv4 and IPv6; a pod with two ports counts once.
func localReadyAddrs(endpoints []Endpoint, node Node) [2]int {
	seen := map[netip.Addr]bool{}
	var count [2]int
	for i := range endpoints {
		e := &endpoints[i]
		addr := e.Addr.Addr()
		if !e.Ready || !isLocal(e, node) || seen[addr] {
			continue
		}
		seen[addr] = true
		count[index(addr.Is6())]++
	}
	return count
}
