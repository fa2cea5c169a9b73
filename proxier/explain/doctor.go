package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Level is how bad a finding is.
type Level string

// The levels, the worst first.
const (
	Fault   Level = "fault"   // traffic of Services is lost now
	Warning Level = "warning" // it is at times, or will be
	Note    Level = "note"    // worth knowing
	OK      Level = "ok"
)

// Finding is what the doctor found, and what to do next.
type Finding struct {
	Level Level  `json:"level"`
	What  string `json:"what"`
	// Next is a command or a setting; empty where nothing is to be done.
	Next string `json:"next,omitempty"`
}

// Range is a range of ports, both ends included; zero: none.
type Range struct{ From, To int }

// Way is where packets to a pod leave the node: the device, the largest packet that it
// takes in bytes, and an address behind it.
type Way struct {
	Device string
	MTU    int
	To     string
}

// Facts are what the doctor judges. Numbers that could not be read are zero, and not
// judged.
type Facts struct {
	// Missing are things that the node lacks, each with what to do.
	Missing []Finding
	// Agent says how the agent answered: empty when it was not asked.
	Agent string
	// AgentFine tells whether it is healthy.
	AgentFine   bool
	Differences []Difference
	Unknown     map[Part]error
	// Problems are what is wrong with objects, a line each; Conflicts frontends that
	// several Services claim; LocalOnly Services without a mark for the short circuit.
	Problems, Conflicts, LocalOnly []string
	// Policies are those of built-in chains; OtherMode chains and NFTables tables of
	// kube-proxy's other modes.
	Policies            map[string]string
	AcceptInput         bool
	OtherMode, NFTables []string
	// StrictReversePath are devices whose rp_filter is 1, ReversePathDrops the packets
	// that this dropped since the start of the machine.
	StrictReversePath []string
	ReversePathDrops  uint64
	// PodPath is the way to pods on this node, FarPath the narrowest one to endpoints
	// on others; zero: there is none.
	PodPath, FarPath Way
	// TooBig counts packets that did not fit their way and must not be cut.
	TooBig uint64
	// BoundExternal are addresses of load balancers on kube-ipvs0; ARPIgnore is the
	// setting that keeps the node from answering for them.
	BoundExternal []string
	ARPIgnore     string
	// NodePorts and LocalPorts are the ranges of NodePorts and of the node's own
	// connections; Reserved tells that the latter leave out the former.
	NodePorts, LocalPorts Range
	Reserved              bool
	// ConntrackCount and ConntrackMax are entries; the timeouts are in seconds.
	ConntrackCount, ConntrackMax int
	IPVSTCP, ConntrackTCP        int
	// ConnTabBits: IPVS finds its connections in 2 to the power of so many chains; zero
	// when it does not tell.
	ConnTabBits int
}

// Diagnose returns the findings, the worst first.
func Diagnose(f Facts) []Finding {
	d := diagnosis{facts: f}
	d.found = append(d.found, f.Missing...)
	d.agent()
	d.kernel()
	d.objects()
	d.others()
	d.settings()
	d.paths()
	d.conntrack()
	slices.SortStableFunc(d.found, func(a, b Finding) int { return cmp.Compare(rank(a.Level), rank(b.Level)) })
	return d.found
}

func rank(l Level) int { return slices.Index([]Level{Fault, Warning, Note, OK}, l) }

type diagnosis struct {
	facts Facts
	found []Finding
}

func (d *diagnosis) add(l Level, next, format string, args ...any) {
	d.found = append(d.found, Finding{Level: l, What: fmt.Sprintf(format, args...), Next: next})
}

func (d *diagnosis) agent() {
	switch f := d.facts; {
	case f.Agent == "":
	case f.AgentFine:
		d.add(OK, "", "the agent answers: %s", f.Agent)
	default:
		d.add(Fault, "look at the agent's log",
			"the agent does not answer as a healthy one: %s; changes do not come into the kernel, traffic goes on as it was", f.Agent)
	}
}

// kernel judges the differences.
func (d *diagnosis) kernel() {
	wrong := Wrong(d.facts.Differences)
	switch {
	case len(wrong) > 0:
		w := wrong[0]
		d.add(Fault, "kube-ipvs-proxy verify", "differences of the kernel from the plan: %d; the first: %s %s: %s", len(wrong), w.Kind, w.Object, w.Means)
	case len(d.facts.Unknown) == 0:
		d.add(OK, "", "the kernel equals the plan")
	}
	for _, part := range Parts() {
		if err := d.facts.Unknown[part]; err != nil {
			d.add(Warning, "load what is missing, and run this as root on the node", "%s could not be read: %v", part, err)
		}
	}
}

// shown is how many objects of one kind are named.
const shown = 3

func (d *diagnosis) objects() {
	f := d.facts
	d.list(Warning, "mend the object; explain NAMESPACE/NAME shows what is served of it", "cannot be served", f.Problems)
	d.list(Warning, "give one of the Services another address or port", "claimed by several Services", f.Conflicts)
	d.list(Warning, "use a higher masquerade bit (--iptables-masquerade-bit)", "without a mark for the short circuit: clients on this node reach only endpoints on it", f.LocalOnly)
}

func (d *diagnosis) list(l Level, next, what string, objects []string) {
	if len(objects) == 0 {
		return
	}
	text := strings.Join(objects[:min(shown, len(objects))], "; ")
	if more := len(objects) - shown; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	d.add(l, next, "%s: %s", what, text)
}

// others looks for what other programs do to the same packets.
func (d *diagnosis) others() {
	f := d.facts
	for _, family := range []string{familyName(false), familyName(true)} {
		if f.Policies[family+" filter FORWARD"] == "DROP" {
			d.add(Note, "iptables -S FORWARD", "%s policy of filter FORWARD is DROP: answers of endpoints pass by KUBE-FORWARD, but traffic between pods, and to pods without a Service, needs rules of the network plugin", family)
		}
		if f.Policies[family+" filter INPUT"] == "DROP" && !f.AcceptInput {
			d.add(Warning, "run with --accept-input, or accept the frontends in INPUT", "%s policy of filter INPUT is DROP, and --accept-input is off: clients outside of this node are dropped before IPVS", family)
		}
	}
	if n := len(f.OtherMode); n > 0 {
		d.add(Warning, "stop kube-proxy on this node; run removes its chains at its start", "chains of kube-proxy's iptables mode are here: %d (first: %s): a kube-proxy runs beside this proxy, or was not cleaned up", n, f.OtherMode[0])
	}
	if len(f.NFTables) > 0 {
		d.add(Warning, "stop kube-proxy, then: nft delete table "+f.NFTables[0], "nftables tables of kube-proxy are here (%s): they translate the same packets", strings.Join(f.NFTables, ", "))
	}
}

func (d *diagnosis) settings() {
	f := d.facts
	if len(f.BoundExternal) > 0 && f.ARPIgnore != "1" && f.ARPIgnore != "2" {
		d.add(Warning, "run with --ipvs-strict-arp, or --external-address-mode=capture",
			"load balancers' addresses are bound to kube-ipvs0 (%s) and the node answers ARP for them: it takes them from an L2 load balancer such as MetalLB", f.BoundExternal[0])
	}
	n, l := f.NodePorts, f.LocalPorts
	if n.To != 0 && l.To != 0 && n.From <= l.To && l.From <= n.To && !f.Reserved {
		d.add(Warning, fmt.Sprintf("sysctl -w net.ipv4.ip_local_reserved_ports=%d-%d", n.From, n.To),
			"the node takes ports %d-%d for its own connections, NodePorts are %d-%d: answers to such a connection can be taken for requests to a NodePort", l.From, l.To, n.From, n.To)
	}
}

// Shares of the conntrack table in percent.
const (
	conntrackFull = 95
	conntrackHigh = 80
)

// longChain is the number of connections in one chain of IPVS from which on finding one
// takes noticeably long. Every connection of IPVS is in conntrack too.
const longChain = 16

func (d *diagnosis) conntrack() {
	f := d.facts
	if f.ConntrackMax > 0 {
		const next = "sysctl -w net.netfilter.nf_conntrack_max=N (run sets it by --conntrack-max-per-core)"
		switch percent := f.ConntrackCount * 100 / f.ConntrackMax; {
		case percent >= conntrackFull:
			d.add(Fault, next, "the conntrack table is full (%d of %d): new connections are dropped", f.ConntrackCount, f.ConntrackMax)
		case percent >= conntrackHigh:
			d.add(Warning, next, "the conntrack table is nearly full (%d of %d): beyond that new connections are dropped", f.ConntrackCount, f.ConntrackMax)
		default:
			d.add(OK, "", "the conntrack table holds %d of %d entries", f.ConntrackCount, f.ConntrackMax)
		}
	}
	if f.ConnTabBits > 0 && f.ConntrackCount > longChain<<f.ConnTabBits {
		d.add(Warning, "options ip_vs conn_tab_bits=20 in /etc/modprobe.d, then load ip_vs anew (a restart of the node)",
			"IPVS has %d chains for its connections (conn_tab_bits %d) and conntrack holds %d entries: each packet looks through a long chain",
			1<<f.ConnTabBits, f.ConnTabBits, f.ConntrackCount)
	}
	if f.IPVSTCP > 0 && f.ConntrackTCP > 0 && f.IPVSTCP < f.ConntrackTCP {
		d.add(Warning, fmt.Sprintf("run with --ipvs-tcp-timeout=%ds, or use keepalives", f.ConntrackTCP),
			"IPVS forgets TCP connections that are idle for %d s, conntrack only after %d s: the next packet of such a client is answered by a reset", f.IPVSTCP, f.ConntrackTCP)
	}
}
