package netfilter

import "kube-ipvs-proxy/ipsetutil"

// Chains of mangle.
const (
	chainCaptureMark  = "KIPVS-CAPTURE-MARK"
	chainInput        = "KIPVS-INPUT"
	chainOutput       = "KIPVS-OUTPUT"
	chainShortCircuit = "KIPVS-SHORT-CIRCUIT"
	chainSourceRanges = "KIPVS-SOURCE-RANGES"
	chainPostrouting  = "KIPVS-POSTROUTING"
	chainRestore      = "KIPVS-RESTORE"
)

// mangle marks what is captured and what is led to a firewall-mark server. It also
// drops for node processes: IPVS takes their packets before filter OUTPUT.
func (r renderer) mangle() Table {
	return Table{
		Name: tableMangle,
		Chains: []Chain{
			r.captureMark(), r.mangleInput(), r.mangleOutput(), r.shortCircuit(),
			{chainSourceRanges, r.sourceRanges()}, r.manglePostrouting(), r.restore(),
		},
		Jumps: []Jump{
			{"PREROUTING", chainCaptureMark, "kube-ipvs-proxy captured addresses"},
			{"INPUT", chainInput, "kube-ipvs-proxy local clients"},
			{"OUTPUT", chainOutput, "kube-ipvs-proxy node processes"},
			{"POSTROUTING", chainPostrouting, "kube-ipvs-proxy marks put back"},
		},
	}
}

// captureMark leads packets to a policy route that delivers them here; not those by UDP
// that nobody serves: IPv4 sends no ICMP error for an address that is captured, because
// it is no address of the host, so they are refused where they are forwarded.
func (r renderer) captureMark() Chain {
	mark := setMark(r.flags.Marks.Capture, r.flags.Marks.Capture)
	captured := r.frontend(ipsetutil.Capture)
	return Chain{chainCaptureMark, []string{
		rule("! -p udp", captured, mark),
		rule("-p udp", captured, r.notFrontend(ipsetutil.Refuse), mark),
	}}
}

// mangleInput clears the capture mark (the packet that IPVS makes of it would be
// delivered here once more), then marks requests of pods for the short circuit.
func (r renderer) mangleInput() Chain {
	m := r.flags.Marks
	c := Chain{chainInput, []string{
		rule(marked(m.Capture, m.Capture), setMark(0, m.Capture)),
	}}
	if r.local != "" {
		c.Rules = append(c.Rules, rule(r.local, r.frontend(ipsetutil.ShortCircuit), "-j "+chainShortCircuit))
	}
	return c
}

// mangleOutput judges requests of node processes. What IPVS sends on, for whomever,
// passes here as well, with the endpoint as its destination.
func (r renderer) mangleOutput() Chain {
	c := Chain{Name: chainOutput}
	if ipvs := r.byIPVS(); ipvs != "" {
		c.Rules = append(c.Rules, rule(ipvs, "-j RETURN"))
	}
	c.Rules = append(c.Rules,
		rule(isNew, r.frontend(ipsetutil.DropAll), "-j DROP"),
		rule(isNew, r.frontend(ipsetutil.LoadBalancerFW), "-j "+chainSourceRanges),
		rule(r.frontend(ipsetutil.ShortCircuit), "-j "+chainShortCircuit),
	)
	return c
}

// byIPVS matches what IPVS has sent on; empty where the host cannot tell.
func (r renderer) byIPVS() string {
	if !r.flags.IPVSMatch {
		return ""
	}
	return "-m ipvs --ipvs"
}

// sourceRanges lets sources through that loadBalancerSourceRanges names.
func (r renderer) sourceRanges() []string {
	return []string{
		rule(r.frontendFrom(ipsetutil.LoadBalancerSourceCIDR), "-j RETURN"),
		rule(r.frontendFrom(ipsetutil.LoadBalancerSourceIP), "-j RETURN"),
		"-j DROP",
	}
}

// shortCircuit overwrites the mark with the member's. IPVS compares all 32 bits, so
// foreign bits are put aside in the connection's mark first, with the capture bit
// there as the sign that they were. A frontend to be refused gets no mark: nat
// redirects what a node process asks, and a firewall-mark server asks for no address.
func (r renderer) shortCircuit() Chain {
	m := r.flags.Marks
	set := ipsetutil.ShortCircuit.Name(r.ipv6)
	foreign := notMarked(0, m.Foreign)
	return Chain{chainShortCircuit, []string{
		rule(r.frontend(ipsetutil.Refuse), "-j RETURN"),
		rule(foreign, "-j CONNMARK --save-mark --nfmask", hexMark(m.Foreign), "--ctmask", hexMark(m.Foreign)),
		rule(foreign, "-j CONNMARK --set-xmark", hexMark(m.Capture)+"/"+hexMark(m.Capture)),
		"-j SET --map-set " + set + " dst,dst --map-mark",
	}}
}

// manglePostrouting finds the packets that a firewall-mark server has sent on.
func (r renderer) manglePostrouting() Chain {
	m := r.flags.Marks
	return Chain{chainPostrouting, []string{
		rule(marked(0, m.Foreign|m.Masquerade), notMarked(0, m.Index), r.byIPVS(), "-j "+chainRestore),
	}}
}

// restore takes the member's mark away and puts foreign bits back. A node process
// gets the node's address. Only the first packet is marked for that: nat, which
// takes the mark off again, sees no other, and a mark left on would masquerade the
// tunnel's own packet (kubernetes/kubernetes#88986).
func (r renderer) restore() Chain {
	m := r.flags.Marks
	aside := "-m connmark --mark " + hexMark(m.Capture) + "/" + hexMark(m.Capture)
	return Chain{chainRestore, []string{
		setMark(0, m.Index|m.Capture),
		rule(aside, "-j CONNMARK --restore-mark --nfmask", hexMark(m.Foreign), "--ctmask", hexMark(m.Foreign)),
		rule(aside, "-j CONNMARK --set-xmark", "0x0/"+hexMark(m.Capture)),
		rule("-m addrtype --src-type LOCAL", isNew, setMark(m.Masquerade, m.Masquerade)),
	}}
}
