package netfilter

import (
	"fmt"

	"kube-ipvs-proxy/ipsetutil"
)

// Chains of filter, besides KUBE-NODE-PORT and KIPVS-REFUSE-OUT.
const (
	chainFirewall       = "KUBE-PROXY-FIREWALL"
	chainFirewallRanges = "KUBE-SOURCE-RANGES-FIREWALL"
	chainFrontends      = "KIPVS-FRONTENDS"
	chainNew            = "KIPVS-NEW"
	chainGuard          = "KUBE-IPVS-FILTER"
	chainForward        = "KUBE-FORWARD"
	chainRefuseForward  = "KIPVS-REFUSE-FORWARD"
)

// filter drops, refuses and accepts requests before IPVS takes them, which is after
// filter INPUT. Requests of node processes pass no INPUT.
func (r renderer) filter() Table {
	return Table{
		Name: tableFilter,
		Chains: []Chain{
			{chainFirewall, []string{
				rule(isNew, r.frontend(ipsetutil.LoadBalancerFW), "-j "+chainFirewallRanges),
			}},
			{chainFirewallRanges, r.sourceRanges()},
			r.frontends(), r.newRequests(),
			{chainNodePort, []string{
				rule("-p tcp", r.set(ipsetutil.HealthCheckNodePort, "dst"), "-j ACCEPT"),
			}},
			r.guard(), r.forward(), r.refuseOut(),
			// What captureMark leaves alone.
			{chainRefuseForward, []string{rule("-p udp", isNew, r.frontend(ipsetutil.Refuse), "-j REJECT")}},
		},
		Jumps: []Jump{
			{"INPUT", chainFirewall, "kube-proxy firewall rules"},
			{"INPUT", chainFrontends, "kube-ipvs-proxy frontends"},
			{"INPUT", chainNodePort, "kubernetes health check rules"},
			{"INPUT", chainGuard, "kubernetes ipvs access filter"},
			{"FORWARD", chainFirewall, "kube-proxy firewall rules"},
			{"FORWARD", chainRefuseForward, "kube-ipvs-proxy refuse what is not captured"},
			{"FORWARD", chainForward, "kubernetes forwarding rules"},
			{"OUTPUT", chainRefuseOut, "kube-ipvs-proxy refuse node processes"},
		},
	}
}

// refuse answers a request at once: with a reset for TCP, since ICMP answers are
// limited to about one a second.
func refuse(match string) []string {
	return []string{
		rule("-p tcp", match, "-j REJECT --reject-with tcp-reset"),
		rule("! -p tcp", match, "-j REJECT"),
	}
}

// newRequests refuses where there is no endpoint at all and drops where the traffic
// policy leaves none for this client.
func (r renderer) newRequests() Chain {
	return Chain{chainNew, append(refuse(r.frontend(ipsetutil.Refuse)),
		rule(r.frontend(ipsetutil.DropAll), "-j DROP"),
		rule(r.notLocal(), r.frontend(ipsetutil.DropOutside), "-j DROP"),
	)}
}

// frontends judges what is new and accepts everything else to a frontend: the host's own
// rules may drop what they do not know.
func (r renderer) frontends() Chain {
	c := Chain{chainFrontends, []string{rule(isNew, "-j "+chainNew)}}
	if !r.flags.AcceptInput {
		return c
	}
	for _, k := range frontendKinds {
		c.Rules = append(c.Rules, rule(r.frontend(k), "-j ACCEPT"))
	}
	for _, np := range nodePorts {
		c.Rules = append(c.Rules, rule("-p "+np.protocol, r.set(ipsetutil.NodeIP, "dst"), r.set(np.all, np.fields), "-j ACCEPT"))
	}
	return c
}

// guard refuses what is no frontend on a bound address: the node's own listeners
// would answer there (kubernetes/kubernetes#72236). Echo requests are answered.
// Neighbour discovery is untracked, so it is never new.
func (r renderer) guard() Chain {
	c := Chain{Name: chainGuard}
	for _, k := range frontendKinds {
		c.Rules = append(c.Rules, rule(r.frontend(k), "-j RETURN"))
	}
	echo := "-p icmp -m icmp --icmp-type 8"
	if r.ipv6 {
		echo = "-p ipv6-icmp -m icmp6 --icmpv6-type 128"
	}
	c.Rules = append(c.Rules,
		rule("-p tcp", r.set(ipsetutil.HealthCheckNodePort, "dst"), "-j RETURN"),
		rule(echo, "-j RETURN"),
	)
	c.Rules = append(c.Rules, refuse(rule(isNew, r.set(ipsetutil.IPVSIPs, "dst")))...)
	return c
}

// forward lets replies of pods through, and what kube-proxy would. A packet that
// conntrack calls invalid was not translated back; the client would reset on it.
func (r renderer) forward() Chain {
	m := r.flags.Marks.Masquerade
	c := Chain{Name: chainForward}
	if !r.flags.TCPBeLiberal {
		c.Rules = append(c.Rules, "-m conntrack --ctstate INVALID -j DROP")
	}
	c.Rules = append(c.Rules,
		rule("-m comment --comment \"kubernetes forwarding rules\"", marked(m, m), "-j ACCEPT"),
		"-m comment --comment \"kubernetes forwarding conntrack rule\" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
	)
	return c
}

// refuseOut resets what nat OUTPUT has redirected. The packet's interface is still
// the one that it had before, so only its address tells.
func (r renderer) refuseOut() Chain {
	loopback := "127.0.0.1/32"
	if r.ipv6 {
		loopback = "::1/128"
	}
	return Chain{chainRefuseOut, []string{
		rule("-d", loopback, fmt.Sprintf("-p tcp -m tcp --dport %d", refusePort), "-m conntrack --ctstate DNAT -j REJECT --reject-with tcp-reset"),
	}}
}
