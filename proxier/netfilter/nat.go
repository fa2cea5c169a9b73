package netfilter

import (
	"fmt"

	"kube-ipvs-proxy/ipsetutil"
)

// Chains of nat; those with KUBE- names are kube-proxy's. KIPVS-REFUSE-OUT is in
// filter as well.
const (
	chainServices     = "KUBE-SERVICES"
	chainLoadBalancer = "KUBE-LOAD-BALANCER"
	chainNodePort     = "KUBE-NODE-PORT"
	chainMarkMasq     = "KUBE-MARK-MASQ"
	chainKubePostrt   = "KUBE-POSTROUTING"
	chainRefuseOut    = "KIPVS-REFUSE-OUT"
)

// refusePort is where a node process's request to a frontend without endpoints is
// redirected, to be reset in filter OUTPUT (tcpmux; nothing listens there).
const refusePort = 1

// nat decides what gets the node's address, and keeps later rules of others, such
// as a hostPort's, away from frontends. It sees the first packet of a connection.
func (r renderer) nat() Table {
	return Table{
		Name: tableNAT,
		Chains: []Chain{
			r.services(),
			{chainLoadBalancer, []string{
				rule(r.frontend(ipsetutil.LoadBalancerLocal), "-j RETURN"),
				"-j " + chainMarkMasq,
			}},
			r.natNodePort(),
			{chainMarkMasq, []string{setMark(r.flags.Marks.Masquerade, r.flags.Marks.Masquerade)}},
			r.natPostrouting(),
			{chainRefuseOut, []string{
				rule("-p tcp", r.frontend(ipsetutil.Refuse), fmt.Sprint("-j REDIRECT --to-ports ", refusePort)),
			}},
		},
		Jumps: []Jump{
			{"PREROUTING", chainServices, "kubernetes service portals"},
			{"OUTPUT", chainRefuseOut, "kube-ipvs-proxy refuse node processes"},
			{"OUTPUT", chainServices, "kubernetes service portals"},
			{"POSTROUTING", chainKubePostrt, "kubernetes postrouting rules"},
		},
	}
}

// services marks requests for masquerading. Frontends with externalTrafficPolicy
// Local are never marked here: the bit would hide them from their firewall-mark
// server, and mangle decides about node processes.
func (r renderer) services() Chain {
	loopback := "127.0.0.0/8"
	if r.ipv6 {
		loopback = "::1/128"
	}
	c := Chain{chainServices, []string{rule("-s", loopback, "-j RETURN")}}
	switch {
	case r.flags.MasqueradeAll:
		c.Rules = append(c.Rules, rule(r.frontend(ipsetutil.ClusterIP), "-j "+chainMarkMasq))
	case r.local != "":
		c.Rules = append(c.Rules, rule(r.notLocal(), r.frontend(ipsetutil.ClusterIP), "-j "+chainMarkMasq))
	}
	c.Rules = append(c.Rules,
		rule(r.frontend(ipsetutil.ClusterIP), "-j ACCEPT"),
		rule(r.frontend(ipsetutil.LoadBalancer), "-j "+chainLoadBalancer),
		rule(r.frontend(ipsetutil.ExternalIP), "-j "+chainMarkMasq),
		rule(r.set(ipsetutil.NodeIP, "dst"), "-j "+chainNodePort),
	)
	for _, k := range frontendKinds[1:] {
		c.Rules = append(c.Rules, rule(r.frontend(k), "-j ACCEPT"))
	}
	return c
}

// frontendKinds are the sets of frontends that are not NodePorts, in the order in which
// they are asked: most requests are to a ClusterIP.
var frontendKinds = [...]ipsetutil.Kind{
	ipsetutil.ClusterIP, ipsetutil.LoadBalancer, ipsetutil.ExternalIP, ipsetutil.ExternalIPLocal,
}

// nodePorts says which sets hold a protocol's NodePorts and how they are matched.
var nodePorts = [...]struct {
	protocol   string
	fields     string
	all, local ipsetutil.Kind
}{
	{"tcp", "dst", ipsetutil.NodePortTCP, ipsetutil.NodePortLocalTCP},
	{"udp", "dst", ipsetutil.NodePortUDP, ipsetutil.NodePortLocalUDP},
	{"sctp", "dst,dst", ipsetutil.NodePortSCTP, ipsetutil.NodePortLocalSCTP},
}

// natNodePort is entered for addresses that serve NodePorts only, so that a port of
// that number elsewhere keeps its source (kubernetes/kubernetes#132068).
func (r renderer) natNodePort() Chain {
	c := Chain{Name: chainNodePort}
	for _, np := range nodePorts {
		protocol := "-p " + np.protocol
		c.Rules = append(c.Rules,
			rule(protocol, r.set(np.local, np.fields), "-j ACCEPT"),
			rule(protocol, r.set(np.all, np.fields), "-j "+chainMarkMasq),
			rule(protocol, r.set(np.all, np.fields), "-j ACCEPT"),
		)
	}
	return c
}

// natPostrouting gives the node's address to endpoints that talk to themselves, to
// what leaves with a bound address as source (a node process to a frontend on
// kube-ipvs0), and to what is marked. The mark comes off, or a tunnel's packet
// would inherit it.
func (r renderer) natPostrouting() Chain {
	m := r.flags.Marks.Masquerade
	return Chain{chainKubePostrt, append([]string{
		rule(r.frontendFrom(ipsetutil.LoopBack), "-j "+chainMarkMasq),
		rule(r.set(ipsetutil.IPVSIPs, "src"), "-j "+chainMarkMasq),
		rule(notMarked(m, m), "-j RETURN"),
		setMark(0, m),
	}, r.masquerade()...)}
}

// masquerade returns the rules that masquerade. A range of ports needs a rule for each
// protocol.
func (r renderer) masquerade() []string {
	target := "-m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE"
	random := ""
	if r.flags.RandomFully {
		random = "--random-fully"
	}
	var rules []string
	if p := r.flags.MasqueradePorts; p != (PortRange{}) {
		for _, np := range nodePorts {
			rules = append(rules, rule("-p "+np.protocol, target, fmt.Sprintf("--to-ports %d-%d", p.From, p.To), random))
		}
	}
	return append(rules, rule(target, random))
}
