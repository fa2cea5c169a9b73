package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// candidates says of each endpoint whether it is used, or why not.
func (t *traveller) candidates() {
	if t.path.Kind == HealthCheck {
		return
	}
	used := map[netip.AddrPort]bool{}
	for _, r := range t.reals {
		used[r.Addr] = true
	}
	active := map[netip.AddrPort]uint32{}
	for _, r := range t.node.Observed.Servers[t.server].RealServers {
		active[r.Addr] = r.Connections.Active
	}
	seen := map[netip.AddrPort]bool{}
	for _, e := range t.question.Endpoints {
		if e.PortName != t.path.Port || e.Protocol != t.key.Protocol || e.Addr.Addr().Is6() != t.key.IsIPv6() || seen[e.Addr] {
			continue
		}
		seen[e.Addr] = true
		c := Candidate{Address: e.Addr.String(), Pod: e.Pod, Node: e.NodeName, Used: used[e.Addr] && t.path.Verdict == "", Active: active[e.Addr], Why: "takes connections"}
		if !c.Used {
			c.Why = t.whyNot(e)
		}
		t.path.Candidates = append(t.path.Candidates, c)
	}
	if len(seen) == 0 {
		t.path.step("endpoints", fmt.Sprintf("no EndpointSlice has an endpoint with port name %q and protocol %s", t.path.Port, t.key.Protocol))
	}
}

// whyNot says why an endpoint is no real server of this way.
func (t *traveller) whyNot(e plan.Endpoint) string {
	here := e.NodeName != "" && e.NodeName == t.node.Node.Name
	switch {
	case !e.Ready && !e.Serving && e.Terminating:
		return "not used: it is terminating and serves no more"
	case !e.Ready && !e.Terminating:
		return "not used: it is not ready"
	case !e.Ready && t.otherReady(e):
		return "not used: it is terminating, and others are ready"
	case t.policyLocal() && t.server == t.key && !here:
		return "not used: it is on " + orUnknown(e.NodeName) + ", and " + t.policy() + " is Local"
	case t.path.Verdict != "":
		return "could serve"
	case len(e.Nodes) > 0 && !slices.Contains(e.Nodes, t.node.Node.Name):
		return fmt.Sprintf("not used: its hints name nodes %v", e.Nodes)
	case len(e.Zones) > 0 && !slices.Contains(e.Zones, t.node.Node.Zone):
		return fmt.Sprintf("not used: its hints name zones %v, and this node is in %s", e.Zones, orUnknown(t.node.Node.Zone))
	}
	for _, p := range t.question.Problems {
		if p.Part == "endpoint "+e.Addr.String() {
			return "not used: it " + p.Reason
		}
	}
	return "not used"
}

// otherReady tells whether some other endpoint of the port is ready.
func (t *traveller) otherReady(e plan.Endpoint) bool {
	return slices.ContainsFunc(t.question.Endpoints, func(o plan.Endpoint) bool {
		return o.Ready && o.PortName == e.PortName && o.Protocol == e.Protocol && o.Addr.Addr().Is6() == e.Addr.Addr().Is6()
	})
}

func orUnknown(name string) string {
	if name == "" {
		return "an unknown place"
	}
	return name
}

// source says which source address the endpoint sees.
func (t *traveller) source() {
	if t.path.Verdict != "" {
		return
	}
	kept := "the client's own"
	if t.client.Addr.IsValid() {
		kept = t.client.Addr.String()
	}
	rule := t.masquerade()
	if rule == "" {
		t.path.step("source", "kept: the endpoint sees "+kept)
	} else {
		t.path.step("source", "the endpoint sees an address of this node, by "+rule)
	}
	own := slices.IndexFunc(t.reals, func(r ipvsutil.RealServer) bool { return r.Addr.Addr() == t.client.Addr })
	switch {
	case own >= 0 && t.isHere(t.reals[own].Addr):
		t.path.step("hairpin", "the client is an endpoint itself; when it is chosen it sees this node's address, by nat KUBE-POSTROUTING ("+t.set(ipsetutil.LoopBack)+")")
	case own >= 0:
		t.path.step("hairpin", "the client is an endpoint itself, on another node: that node's proxy serves it")
	}
}

func (t *traveller) isHere(addr netip.AddrPort) bool {
	return slices.ContainsFunc(t.question.Endpoints, func(e plan.Endpoint) bool {
		return e.Addr == addr && e.NodeName != "" && e.NodeName == t.node.Node.Name
	})
}

// masquerade names the rule that gives the packet the node's address, or is empty.
func (t *traveller) masquerade() string {
	_, local := t.node.Desired.Member(plan.MemberOf(ipsetutil.LoadBalancerLocal, t.key))
	switch {
	case t.server.Mark != 0 && t.onNode():
		return "mangle KIPVS-RESTORE (a process on this node through a firewall-mark server)"
	case t.server.Mark != 0:
		return ""
	case t.path.Kind == ClusterIP && t.node.MasqueradeAll:
		return "nat KUBE-SERVICES (masqueradeAll)"
	case t.path.Kind == ClusterIP && t.onNode() && !t.node.Detector[index(t.key.IsIPv6())]:
		return "nat KUBE-POSTROUTING (" + t.set(ipsetutil.IPVSIPs) + ": its source was the ClusterIP)"
	case t.path.Kind == ClusterIP && t.node.Detector[index(t.key.IsIPv6())] && !t.local():
		return "nat KUBE-SERVICES (" + t.set(ipsetutil.ClusterIP) + ", the source is no pod)"
	case t.path.Kind == ClusterIP, t.path.Kind == HealthCheck:
		return ""
	case t.path.Kind == LoadBalancer && !local:
		return "nat KUBE-LOAD-BALANCER (" + t.set(ipsetutil.LoadBalancer) + ")"
	case t.claims(ipsetutil.ExternalIP):
		return "nat KUBE-SERVICES (" + t.set(ipsetutil.ExternalIP) + ")"
	case t.path.Kind == NodePort && !t.question.Service.ExternalLocal:
		return "nat KUBE-NODE-PORT"
	}
	return ""
}

func (t *traveller) affinity() {
	s := t.question.Service
	if t.path.Verdict != "" || s.Persistence == 0 || t.path.Kind == HealthCheck {
		return
	}
	how := fmt.Sprintf("a client address stays at one endpoint for %d s", s.Persistence)
	if t.server.Mark != 0 {
		how = "a client address stays at one endpoint, chosen by hash (mh)"
	}
	t.path.step("affinity", how+", at this frontend")
}

// kernel says what of this way is not as planned.
func (t *traveller) kernel() {
	var first string
	for _, d := range t.node.Differences {
		if !t.concerns(d) {
			continue
		}
		t.path.Differences = append(t.path.Differences, d)
		if !d.Fine && first == "" {
			first = d.Kind + " " + d.Object + ": " + d.Means
		}
	}
	for _, part := range Parts() {
		if err := t.node.Observed.Unknown[part]; err != nil {
			t.path.step("kernel", string(part)+" could not be read: "+err.Error())
		}
	}
	if first != "" && t.path.Verdict == "" {
		t.path.end(Differs, first)
	} else if len(t.path.Differences) == 0 && len(t.node.Observed.Unknown) == 0 {
		t.path.step("kernel", "as planned")
	}
}

// concerns tells differences that packets of this way meet: those of its servers,
// address and entries, and those of the whole node.
func (t *traveller) concerns(d Difference) bool {
	addr := t.key.Addr.Addr()
	switch d.Kind {
	case "virtual server", "real server", "flow":
		return d.key == t.key || d.key == t.server
	case "address", "route":
		return d.addr == addr
	case "set entry":
		e := d.member.Entry
		switch {
		case !e.Addr.IsValid():
			return t.path.Kind == NodePort && e.Port == t.key.Addr.Port()
		case e.Protocol == 0:
			return e.Addr == addr
		}
		return entryKey(e) == t.key || slices.ContainsFunc(t.reals, func(r ipvsutil.RealServer) bool { return entryKey(e).Addr == r.Addr })
	case "device":
		return t.node.Desired.Bound(addr)
	case "policy rule":
		return t.claims(ipsetutil.Capture)
	case "rules":
		return !strings.HasPrefix(d.Object, familyName(!t.key.IsIPv6()))
	case "set":
		return slices.ContainsFunc(t.frontend.Members, func(m ipsetutil.Member) bool { return m.Set == d.Object })
	}
	return !d.Fine // settings
}
