package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// Explain follows a packet to each frontend of the Service that the question is about.
func Explain(q Question, node Node) []Path {
	claims, _ := plan.For(q.Service, q.Endpoints, node.Node, node.Plan)
	var paths []Path
	for _, f := range claims.Frontends {
		t := traveller{question: q, node: node, frontend: f, key: f.Server.Key}
		if p, ok := t.follow(); ok {
			paths = append(paths, p)
		}
	}
	return paths
}

// traveller is one packet to one frontend.
type traveller struct {
	question Question
	node     Node
	frontend plan.Frontend
	key      ipvsutil.Key
	path     Path
	client   Client
	// mark server of the short circuit, when the packet takes it.
	server ipvsutil.Key
	reals  []ipvsutil.RealServer
}

func (t *traveller) follow() (Path, bool) {
	kind := t.kind()
	port, _ := PortOf(t.question.Service, kind, t.key)
	if !t.asked(port) {
		return Path{}, false
	}
	t.client = t.question.From
	if t.client.Origin == "" {
		t.client.Origin = FromOutside
		if kind == ClusterIP {
			t.client.Origin = FromPod
		}
	}
	if t.client.Addr.IsValid() && t.client.Addr.Is6() != t.key.IsIPv6() {
		return Path{}, false
	}
	t.path = Path{Frontend: t.key.String(), Kind: kind, Port: port.Name, Client: t.client.String(), key: t.key, client: t.client}
	t.server, t.reals = t.key, t.frontend.RealServers
	if owner, ok := t.node.Desired.Server(t.key); ok && owner.Owner != t.question.Name {
		t.path.step("conflict", "Service "+owner.Owner.String()+" has this address and port")
		t.path.end(NotServed, "Service "+owner.Owner.String()+" has this address and port")
		return t.path, true
	}
	t.arrive()
	t.filter()
	t.choose()
	t.candidates()
	t.source()
	t.affinity()
	t.kernel()
	t.evidence()
	t.path.end(Works, "")
	return t.path, true
}

// asked tells whether the question is about this frontend.
func (t *traveller) asked(port plan.Port) bool {
	q := t.question
	if q.To.IsValid() && t.key.Addr.Addr() != q.To {
		return false
	}
	number := fmt.Sprint(t.key.Addr.Port())
	return q.Port == "" || q.Port == port.Name || q.Port == number || q.Port == fmt.Sprint(port.Port)
}

// kind is that of the claim; the ledger may have given the frontend to another Service.
func (t *traveller) kind() Kind {
	switch {
	case t.claims(ipsetutil.ClusterIP):
		return ClusterIP
	case t.claims(ipsetutil.LoadBalancer):
		return LoadBalancer
	case t.claims(ipsetutil.ExternalIP), t.claims(ipsetutil.ExternalIPLocal):
		return ExternalIP
	case t.claims(ipsetutil.Capture):
		return HealthCheck
	}
	return NodePort
}

// claims tells whether the frontend has an entry in the set of a kind.
func (t *traveller) claims(kind ipsetutil.Kind) bool {
	return slices.Contains(t.frontend.Members, plan.MemberOf(kind, t.key))
}

func (t *traveller) set(kind ipsetutil.Kind) string { return kind.Name(t.key.IsIPv6()) }

// onNode: a process on this node, whose packets pass OUTPUT, not PREROUTING and INPUT.
func (t *traveller) onNode() bool { return t.client.Origin == FromNode }

// local tells a client that the rules take for a pod.
func (t *traveller) local() bool {
	return t.client.Origin == FromPod && t.node.Detector[index(t.key.IsIPv6())]
}

// arrive says how the packet comes to IPVS.
func (t *traveller) arrive() {
	addr := t.key.Addr.Addr()
	switch {
	case t.onNode() && t.node.Desired.Bound(addr):
		t.path.step("arrives", "made on this node; the address is bound to "+ipvsutil.Device+", IPVS takes it in OUTPUT")
	case t.onNode():
		t.path.step("arrives", "made on this node; IPVS takes it in OUTPUT, wherever its route leads (there must be one)")
	case t.node.Desired.Bound(addr):
		t.path.step("arrives", "the address is bound to "+ipvsutil.Device+" (which is DOWN on purpose), so the node takes it in")
	case t.leftAlone():
		t.path.step("arrives", "not captured, because nobody serves it: the node would send it on to the address's owner")
	case t.claims(ipsetutil.Capture):
		t.path.step("arrives", "captured: mangle KIPVS-CAPTURE-MARK finds it in "+t.set(ipsetutil.Capture)+" and marks it, a policy route delivers it here; other ports of the address go to its owner")
	default:
		t.path.step("arrives", "an address of the node itself, so it is taken in")
	}
}

// leftAlone tells a request by UDP that nobody serves: it is not captured, because no
// ICMP error could be sent for it.
func (t *traveller) leftAlone() bool {
	return t.claims(ipsetutil.Capture) && t.claims(ipsetutil.Refuse) && t.key.Protocol == ipvsutil.UDP
}

// filter says what drops, refuses or accepts.
func (t *traveller) filter() {
	if !t.ranges() {
		return
	}
	chain := "filter KIPVS-NEW"
	switch {
	case t.claims(ipsetutil.Refuse):
		how := "refused by " + chain
		if t.leftAlone() {
			how = "refused by filter KIPVS-REFUSE-FORWARD"
		}
		if t.onNode() {
			how = "redirected by nat KIPVS-REFUSE-OUT and reset"
			if t.key.Protocol != ipvsutil.TCP {
				how = "refused by IPVS (send fails with EPERM)"
			}
		}
		t.path.step("filter", how+": it is in "+t.set(ipsetutil.Refuse))
		t.path.end(Refused, "no endpoint of the port can serve, on any node")
	case t.claims(ipsetutil.DropAll):
		if t.onNode() {
			chain = "mangle KIPVS-OUTPUT"
		}
		t.path.step("filter", "dropped by "+chain+": it is in "+t.set(ipsetutil.DropAll))
		t.path.end(Dropped, "internalTrafficPolicy is Local and no endpoint is on this node")
	case t.claims(ipsetutil.DropOutside) && !t.onNode() && !t.local():
		t.path.step("filter", "dropped by "+chain+": it is in "+t.set(ipsetutil.DropOutside))
		t.path.end(Dropped, "externalTrafficPolicy is Local and no endpoint is on this node"+t.noDetector())
	case t.onNode():
		t.path.step("filter", "no rule is in the way")
	default:
		t.path.step("filter", "let through by filter KIPVS-FRONTENDS")
	}
}

// noDetector explains why a pod counts as somebody outside.
func (t *traveller) noDetector() string {
	if t.client.Origin == FromPod {
		return " (pods are not recognised: no cluster CIDR of this family is configured)"
	}
	return ""
}

// ranges judges loadBalancerSourceRanges; false ends the way.
func (t *traveller) ranges() bool {
	if !t.claims(ipsetutil.LoadBalancerFW) {
		return true
	}
	chain := "filter KUBE-SOURCE-RANGES-FIREWALL"
	if t.onNode() {
		chain = "mangle KIPVS-SOURCE-RANGES"
	}
	var ranges []netip.Prefix
	nodeInside := false
	for _, m := range t.frontend.Members {
		switch m.Set {
		case t.set(ipsetutil.LoadBalancerSourceCIDR):
			ranges = append(ranges, m.Entry.Source)
		case t.set(ipsetutil.LoadBalancerSourceIP):
			nodeInside = true
		}
	}
	inside := slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return t.client.Addr.IsValid() && r.Contains(t.client.Addr) })
	switch {
	case inside, t.onNode() && !t.client.Addr.IsValid() && nodeInside:
		t.path.step("ranges", fmt.Sprintf("inside of the source ranges %v (%s)", ranges, t.set(ipsetutil.LoadBalancerSourceCIDR)))
	case !t.client.Addr.IsValid() && !t.onNode():
		t.path.step("ranges", fmt.Sprintf("only sources in %v get past %s; the others are dropped (name one with --from IP)", ranges, chain))
	default:
		t.path.step("ranges", fmt.Sprintf("dropped by %s: the source ranges are %v", chain, ranges))
		t.path.end(Dropped, "loadBalancerSourceRanges do not hold the client")
		return false
	}
	return true
}

// choose says which server takes the packet.
func (t *traveller) choose() {
	if t.path.Verdict != "" {
		return
	}
	mark, short := t.node.Desired.Member(plan.MemberOf(ipsetutil.ShortCircuit, t.key))
	if t.frontend.ShortCircuit && (t.onNode() || t.local()) && short && mark != 0 {
		t.server = ipvsutil.MarkKey(mark, t.key.IsIPv6())
		want, _ := t.node.Desired.Server(t.server)
		t.reals = want.RealServers
		t.path.step("server", t.server.String()+" "+want.Scheduler+": "+t.set(ipsetutil.ShortCircuit)+" leads clients on this node to all endpoints (externalTrafficPolicy Local binds only those outside)")
	} else {
		text := t.key.String() + " " + describe(t.frontend.Server)
		if t.policyLocal() {
			text += ": only endpoints on this node (" + t.policy() + " Local)"
		}
		t.path.step("server", text)
	}
	if len(t.reals) == 0 {
		t.path.end(Refused, "the server has no endpoint for this client")
	}
}

// policyLocal tells whether the address server has only endpoints on this node.
func (t *traveller) policyLocal() bool {
	s := t.question.Service
	if t.path.Kind == ClusterIP {
		return s.InternalLocal
	}
	return t.frontend.ShortCircuit || t.claims(ipsetutil.DropOutside) || s.ExternalLocal && t.path.Kind != HealthCheck
}

func (t *traveller) policy() string {
	if t.path.Kind == ClusterIP {
		return "internalTrafficPolicy"
	}
	return "externalTrafficPolicy"
}
