package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

// servers compares virtual servers and their real servers.
func (c *comparison) servers() {
	for key, want := range c.desired.Servers() {
		if !led(c.desired, want) {
			continue
		}
		have, there := c.observed.Servers[key]
		if !there {
			c.add(Difference{Kind: "virtual server", Object: key.String(), key: key, Service: want.Owner.String(),
				Want: describe(want.VirtualServer), Have: absent, Means: meaningOfNoServer(want)})
			continue
		}
		c.virtual(want, have)
		c.reals(want, have)
	}
	for key, have := range c.observed.Servers {
		if wanted(c.desired, key) || c.observed.Owns == nil || !c.observed.Owns(key) {
			continue
		}
		d := Difference{Kind: "virtual server", Object: key.String(), key: key, Want: nothing, Have: describe(have.VirtualServer),
			Means: "no Service has it any more, and it still takes connections"}
		if len(have.RealServers) == 0 {
			d.Means = "no Service has it any more; connections to it are refused"
		}
		if c.lingering[key] {
			d.Fine, d.Have = true, "draining"
			d.Means = "its Service is gone; " + connections(have.RealServers) + " may end, new ones are refused"
		}
		c.add(d)
	}
}

// led tells a server that packets can come to. A mark server whose frontends all
// belong to other Services is not made.
func led(desired *ledger.Ledger, want ledger.Server) bool {
	return want.Key.Mark == 0 || slices.ContainsFunc(want.Frontends, func(frontend ipvsutil.Key) bool {
		mark, _ := desired.Member(plan.MemberOf(ipsetutil.ShortCircuit, frontend))
		return mark == want.Key.Mark
	})
}

func wanted(desired *ledger.Ledger, key ipvsutil.Key) bool {
	want, ok := desired.Server(key)
	return ok && led(desired, want)
}

// virtual compares the options of a virtual server.
func (c *comparison) virtual(want ledger.Server, have Server) {
	if want.VirtualServer == have.VirtualServer {
		return
	}
	c.add(Difference{Kind: "virtual server", Object: want.Key.String(), key: want.Key, Service: want.Owner.String(),
		Want: describe(want.VirtualServer), Have: describe(have.VirtualServer), Means: meaningOfOptions(want.VirtualServer, have.VirtualServer)})
}

// reals compares the real servers of one virtual server.
func (c *comparison) reals(want ledger.Server, have Server) {
	found := map[netip.AddrPort]ipvsutil.RealServerState{}
	for _, r := range have.RealServers {
		found[r.Addr] = r
	}
	add := func(addr netip.AddrPort, d Difference) {
		d.Kind, d.Object, d.key, d.addr = "real server", want.Key.String()+" -> "+addr.String(), want.Key, addr.Addr()
		d.Service = want.Owner.String()
		c.add(d)
	}
	for _, w := range want.RealServers {
		h, there := found[w.Addr]
		delete(found, w.Addr)
		switch {
		case !there:
			add(w.Addr, Difference{Want: weight(w.Weight), Have: absent, Means: "this endpoint gets no connections"})
		case h.Foreign:
			add(w.Addr, Difference{Want: weight(w.Weight), Have: "other forwarding or thresholds",
				Means: "packets to this endpoint are not translated, or limited: connections to it fail"})
		case h.Weight == 0:
			add(w.Addr, Difference{Want: weight(w.Weight), Have: weight(0), Means: "this endpoint gets no new connections"})
		case h.Weight != w.Weight:
			add(w.Addr, Difference{Want: weight(w.Weight), Have: weight(h.Weight), Means: "this endpoint gets another share of the connections"})
		}
	}
	for addr, h := range found {
		if h.Weight == 0 {
			add(addr, Difference{Want: nothing, Have: "draining", Fine: true,
				Means: "left the Service; " + connections([]ipvsutil.RealServerState{h}) + " may end, new ones go elsewhere"})
			continue
		}
		add(addr, Difference{Want: nothing, Have: weight(h.Weight),
			Means: "connections go to an endpoint that is none of the Service: they fail or reach a stranger"})
	}
}

func weight(n uint32) string { return fmt.Sprintf("weight %d", n) }

func connections(reals []ipvsutil.RealServerState) string {
	active, inactive := uint32(0), uint32(0)
	for _, r := range reals {
		active += r.Connections.Active
		inactive += r.Connections.Inactive
	}
	return fmt.Sprintf("%d active and %d closing connections", active, inactive)
}

// describe says what a virtual server is, without its key.
func describe(v ipvsutil.VirtualServer) string {
	s := v.Scheduler
	if v.Persistence != 0 {
		s += fmt.Sprintf(" persistent %d", v.Persistence)
	}
	if v.Flags != 0 {
		s += fmt.Sprintf(" flags %#x", uint32(v.Flags))
	}
	if v.Foreign {
		s += " with foreign options"
	}
	return s
}

func meaningOfNoServer(want ledger.Server) string {
	switch {
	case want.Key.Mark != 0:
		return "clients on this node reach only the endpoints on it, or none"
	case len(want.RealServers) == 0:
		return "nothing is refused in its name; the node's own port may answer"
	}
	return "connections are refused, or reach a port of the node"
}

func meaningOfOptions(want, have ipvsutil.VirtualServer) string {
	switch {
	case want.Scheduler != have.Scheduler:
		return "new connections are spread by " + have.Scheduler + " instead of " + want.Scheduler
	case want.Persistence != 0 && have.Persistence == 0:
		return "clients are not kept at one endpoint (session affinity)"
	case want.Persistence == 0 && have.Persistence != 0:
		return "clients stick to one endpoint without session affinity"
	case want.Persistence != have.Persistence:
		return "clients are kept at one endpoint for another time"
	case have.Foreign:
		return "clients are grouped in another way (netmask or engine of persistence)"
	}
	return "the scheduler chooses in another way"
}
