package plan

import (
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
}

// selectEndpoints picks who serves. Ready endpoints are used; where there is none,
// those that are terminating but still serving (KEP-1669); each list falls back on
// its own. Topology hints restrict the ready ones of the cluster list only.
func selectEndpoints(endpoints []Endpoint, node Node) selection {
	var ready, serving, localReady, localServing []Endpoint
	for _, e := range endpoints {
		local := isLocal(e, node)
		switch {
		case e.Ready:
			ready = append(ready, e)
			if local {
				localReady = append(localReady, e)
			}
		case e.Serving && e.Terminating:
			serving = append(serving, e)
			if local {
				localServing = append(localServing, e)
			}
		}
	}
	cluster, local := hinted(ready, node), localReady
	if len(ready) == 0 {
		cluster = serving
	}
	if len(localReady) == 0 {
		local = localServing
	}
	return selection{
		cluster: realServers(cluster),
		local:   realServers(local),
		any:     len(ready)+len(serving) > 0,
	}
}

func isLocal(e Endpoint, node Node) bool {
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

// realServers gives each address weight 1, sorted and without duplicates.
func realServers(endpoints []Endpoint) []ipvsutil.RealServer {
	servers := make([]ipvsutil.RealServer, 0, len(endpoints))
	for _, e := range endpoints {
		servers = append(servers, ipvsutil.RealServer{Addr: e.Addr, Weight: 1})
	}
	slices.SortFunc(servers, func(a, b ipvsutil.RealServer) int { return a.Addr.Compare(b.Addr) })
	return slices.Compact(servers)
}

// groupByPort sorts endpoints by the port of the Service that they serve.
func groupByPort(endpoints []Endpoint) map[PortKey][]Endpoint {
	byPort := map[PortKey][]Endpoint{}
	for _, e := range endpoints {
		key := PortKey{e.PortName, e.Protocol, e.Addr.Addr().Is6()}
		byPort[key] = append(byPort[key], e)
	}
	return byPort
}

// localReadyAddrs counts the distinct addresses of ready endpoints on the node, for
// IPv4 and IPv6; a pod with two ports counts once.
func localReadyAddrs(endpoints []Endpoint, node Node) [2]int {
	seen := map[netip.Addr]bool{}
	var count [2]int
	for _, e := range endpoints {
		addr := e.Addr.Addr()
		if !e.Ready || !isLocal(e, node) || seen[addr] {
			continue
		}
		seen[addr] = true
		if addr.Is6() {
			count[1]++
		} else {
			count[0]++
		}
	}
	return count
}
