package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// internal claims the frontend on the ClusterIP. With internalTrafficPolicy Local
// it serves endpoints on this node only, and drops where there is none but others
// exist elsewhere (KEP-2086).
func (b *builder) internal(addr netip.Addr, port Port, chosen selection) {
	key := keyOf(addr, port.Port, port.Protocol)
	members := []ipsetutil.Member{MemberOf(ipsetutil.ClusterIP, key)}
	servers := chosen.cluster
	if b.service.InternalLocal {
		servers = chosen.local
		if len(servers) == 0 && chosen.any {
			members = append(members, MemberOf(ipsetutil.DropAll, key))
		}
	}
	b.add(Frontend{
		Server: b.server(key), RealServers: servers, Serving: chosen.serving,
		Members: append(members, refusal(key, chosen)...), ClusterIP: true,
	})
}

// membersOf returns the entries that one kind of external frontend has in the sets.
type membersOf func(b *builder, key ipvsutil.Key) []ipsetutil.Member

// external claims one external frontend. With externalTrafficPolicy Local clients
// from outside reach endpoints on this node only, and are dropped where there is
// none; clients on this node take the short circuit to all endpoints. It reports
// whether the port has the frontend.
func (b *builder) external(p place, number uint16, port PortKey, chosen selection) bool {
	key := keyOf(p.addr, number, port.Protocol)
	if b.reserved(key) {
		b.problem("frontend "+key.String(), "is where this node reaches the API server")
		return false
	}
	f := Frontend{
		Server: b.server(key), RealServers: chosen.cluster, Serving: chosen.serving,
		Members: append(p.members(b, key), refusal(key, chosen)...),
		Port:    port,
	}
	if p.captured {
		f.Members = append(f.Members, MemberOf(ipsetutil.Capture, key))
	}
	if b.externalLocal() {
		f.RealServers = chosen.local
		f.ShortCircuit = len(chosen.cluster) > 0
		if len(chosen.local) == 0 && chosen.any {
			f.Members = append(f.Members, MemberOf(ipsetutil.DropOutside, key))
		}
	}
	return b.add(f)
}

// reserved tells a frontend that must stay with the API server; it would also be taken
// from this process, which would then hear of no change any more.
func (b *builder) reserved(key ipvsutil.Key) bool {
	return key.Protocol == ipvsutil.TCP && slices.Contains(b.config.Reserved, key.Addr)
}

// bindsServer tells an address that the node would lose an API server by, if it were
// bound; one that is the node's already would not be.
func (b *builder) bindsServer(addr netip.Addr) bool {
	return !slices.Contains(b.node.Addrs, addr) &&
		slices.ContainsFunc(b.config.Reserved, func(r netip.AddrPort) bool { return r.Addr() == addr })
}

// add keeps one frontend a key. An address that the Service names twice (as
// externalIP and by its load balancer) has the entries of both; where two ports of
// the Service meet (the NodePort of one is the number of another, on an address of
// the node), the first has it. It reports whether the port of f has the frontend.
func (b *builder) add(f Frontend) bool {
	i, ok := b.frontend(f.Server.Key)
	if !ok {
		if b.frontends != nil {
			b.frontends[f.Server.Key] = len(b.claims.Frontends)
		}
		b.claims.Frontends = append(b.claims.Frontends, f)
		return true
	}
	have := &b.claims.Frontends[i]
	if have.Port != f.Port {
		b.problem("frontend "+f.Server.Key.String(), "is claimed by two ports of the Service")
		return false
	}
	for _, m := range f.Members {
		have.Members = appendNew(have.Members, m)
	}
	return true
}

// frontend finds a frontend by its key.
func (b *builder) frontend(key ipvsutil.Key) (i int, ok bool) {
	if b.frontends == nil {
		all := b.claims.Frontends
		if len(all) < few {
			i = slices.IndexFunc(all, func(f Frontend) bool { return f.Server.Key == key })
			return i, i >= 0
		}
		b.frontends = make(map[ipvsutil.Key]int, 2*few)
		for i, f := range all {
			b.frontends[f.Server.Key] = i
		}
	}
	i, ok = b.frontends[key]
	return i, ok
}

// refusal is the entry that has new connections refused at once while no endpoint
// anywhere can serve.
func refusal(key ipvsutil.Key, chosen selection) []ipsetutil.Member {
	if chosen.any {
		return nil
	}
	return []ipsetutil.Member{MemberOf(ipsetutil.Refuse, key)}
}

func externalIPMembers(b *builder, key ipvsutil.Key) []ipsetutil.Member {
	if b.externalLocal() {
		return []ipsetutil.Member{MemberOf(ipsetutil.ExternalIPLocal, key)}
	}
	return []ipsetutil.Member{MemberOf(ipsetutil.ExternalIP, key)}
}

func loadBalancerMembers(b *builder, key ipvsutil.Key) []ipsetutil.Member {
	members := []ipsetutil.Member{MemberOf(ipsetutil.LoadBalancer, key)}
	if b.externalLocal() {
		members = append(members, MemberOf(ipsetutil.LoadBalancerLocal, key))
	}
	return append(members, b.sourceMembers(key)...)
}

// sourceMembers are the entries that let only the source ranges in.
func (b *builder) sourceMembers(key ipvsutil.Key) []ipsetutil.Member {
	if len(b.ranges) == 0 {
		return nil
	}
	members := make([]ipsetutil.Member, 0, len(b.ranges)+2)
	holdsNode := false
	for _, r := range b.ranges {
		m := MemberOf(ipsetutil.LoadBalancerSourceCIDR, key)
		m.Entry.Source = r
		members = append(members, m)
		holdsNode = holdsNode || b.rangeHoldsNode(r)
	}
	if holdsNode {
		// A process on the node may have the address itself as its source.
		m := MemberOf(ipsetutil.LoadBalancerSourceIP, key)
		m.Entry.Source = netip.PrefixFrom(m.Entry.Addr, m.Entry.Addr.BitLen())
		members = append(members, m)
	}
	return append(members, MemberOf(ipsetutil.LoadBalancerFW, key))
}

func (b *builder) rangeHoldsNode(r netip.Prefix) bool {
	for _, ip := range b.node.IPs {
		if r.Contains(ip) {
			return true
		}
	}
	return false
}

func nodePortMembers(b *builder, key ipvsutil.Key) []ipsetutil.Member {
	var all, local ipsetutil.Kind
	switch key.Protocol {
	case ipvsutil.TCP:
		all, local = ipsetutil.NodePortTCP, ipsetutil.NodePortLocalTCP
	case ipvsutil.UDP:
		all, local = ipsetutil.NodePortUDP, ipsetutil.NodePortLocalUDP
	default:
		all, local = ipsetutil.NodePortSCTP, ipsetutil.NodePortLocalSCTP
	}
	members := []ipsetutil.Member{MemberOf(all, key)}
	if b.externalLocal() {
		members = append(members, MemberOf(local, key))
	}
	return members
}

// healthCheck claims the health-check port of a load balancer with
// externalTrafficPolicy Local (KEP-1514). The agent answers it on the node's own
// addresses; on a captured load-balancer address, which the node does not own, a
// virtual server leads there.
func (b *builder) healthCheck(endpoints []Endpoint) {
	s := b.service
	if s.HealthCheckNodePort == 0 || s.Type != LoadBalancer || !s.ExternalLocal || b.served == [2]bool{} {
		return
	}
	b.claims.HealthCheck = HealthCheck{
		Port:       s.HealthCheckNodePort,
		LocalReady: localReadyAddrs(endpoints, b.node),
	}
	for _, ipv6 := range []bool{false, true} {
		if b.served[index(ipv6)] {
			b.member(ipsetutil.Member{
				Set:   ipsetutil.HealthCheckNodePort.Name(ipv6),
				Entry: ipsetutil.Entry{Port: s.HealthCheckNodePort},
			})
		}
	}
	for _, addr := range s.LoadBalancerIPs {
		own := familyOf(b.node.IPs, addr.Is6())
		if !slices.Contains(b.claims.Captured, addr) || len(own) == 0 {
			continue
		}
		key := keyOf(addr, s.HealthCheckNodePort, ipvsutil.TCP)
		b.add(Frontend{
			Server: ipvsutil.VirtualServer{Key: key, Scheduler: b.scheduler()},
			RealServers: []ipvsutil.RealServer{
				{Addr: netip.AddrPortFrom(own[0], s.HealthCheckNodePort), Weight: 1},
			},
			Members: []ipsetutil.Member{MemberOf(ipsetutil.Capture, key)},
		})
	}
}

// shortCircuit is the firewall-mark server with all endpoints. It is never
// persistent: the kernel would then keep the client's destination port (ip_vs_core.c,
// ip_vs_sched_persist); mh keeps a client at one real server instead.
func (b *builder) shortCircuit(port PortKey, chosen selection) ShortCircuit {
	server := ipvsutil.VirtualServer{Scheduler: b.scheduler(), Flags: b.flags()}
	if b.service.Persistence != 0 {
		server.Scheduler, server.Flags = "mh", 0
	}
	return ShortCircuit{
		Port:        port,
		Server:      server,
		RealServers: chosen.cluster,
		Serving:     chosen.serving,
	}
}

func (b *builder) server(key ipvsutil.Key) ipvsutil.VirtualServer {
	return ipvsutil.VirtualServer{
		Key: key, Scheduler: b.scheduler(), Flags: b.flags(), Persistence: b.service.Persistence,
	}
}

func (b *builder) scheduler() string {
	return cmp.Or(b.own, b.config.Scheduler, "rr")
}

// checkScheduler takes the Service's own scheduler if the kernel has it.
func (b *builder) checkScheduler() {
	own := b.service.Scheduler
	if own != "" && b.config.HasScheduler != nil && !b.config.HasScheduler(own) {
		b.problem("scheduler "+own, "is not in this kernel; "+b.scheduler()+" is used")
		return
	}
	b.own = own
}

// checkFlags reports flags of a scheduler that the Service does not have.
func (b *builder) checkFlags() {
	for scheduler := range b.service.SchedulerFlags {
		if scheduler != b.scheduler() {
			b.problem("scheduler flags of "+scheduler, "have no effect: the scheduler is "+b.scheduler())
		}
	}
}

// flags: kube-proxy has mh hash the source port too, so that the connections of
// one client spread.
func (b *builder) flags() ipvsutil.Flags {
	if b.service.SchedulerFlags != nil {
		return b.service.SchedulerFlags[b.scheduler()]
	}
	if b.scheduler() == "mh" {
		return ipvsutil.FlagSched2
	}
	return 0
}

// MemberOf is the entry of a frontend in the set of a kind: its port for a
// bitmap:port, else address, protocol and port.
func MemberOf(kind ipsetutil.Kind, key ipvsutil.Key) ipsetutil.Member {
	set := kind.For(key.IsIPv6())
	if set.Type == ipsetutil.BitmapPort {
		return ipsetutil.Member{Set: set.Name, Entry: ipsetutil.Entry{Port: key.Addr.Port()}}
	}
	return ipsetutil.Member{Set: set.Name, Entry: ipsetutil.Entry{
		Addr: key.Addr.Addr(), Protocol: uint8(key.Protocol), Port: key.Addr.Port(),
	}}
}
