package explain

import (
	"net/netip"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

// Origin is where a client is, as far as rules tell clients apart.
type Origin string

// The origins.
const (
	FromPod     Origin = "pod"
	FromNode    Origin = "node"
	FromOutside Origin = "outside"
)

// Client is who asks.
type Client struct {
	Origin Origin
	// Addr is the client's address; invalid: any of that origin.
	Addr netip.Addr
}

// String returns "pod 10.244.1.5", "any process on this node" and the like.
func (c Client) String() string {
	switch {
	case c.Origin == FromNode && c.Addr.IsValid():
		return "a process on this node with source " + c.Addr.String()
	case c.Origin == FromNode:
		return "any process on this node"
	case c.Origin == FromPod && c.Addr.IsValid():
		return "pod " + c.Addr.String()
	case c.Origin == FromPod:
		return "any pod"
	case c.Addr.IsValid():
		return "outside, " + c.Addr.String()
	}
	return "outside"
}

// Node is what of the node decides about packets, besides the kernel.
type Node struct {
	Desired *ledger.Ledger
	Node    plan.Node
	Plan    plan.Config
	// MasqueradeAll is the operator's choice. Detector tells, for IPv4 and IPv6, whether
	// traffic of pods is recognised.
	MasqueradeAll bool
	Detector      [2]bool
	Observed      Observed
	// Differences are those of Compare.
	Differences []Difference
	// Evidence is nil where it could not be read.
	Evidence *Evidence
}

// Question is what to explain.
type Question struct {
	Name      plan.ServiceName
	Service   *plan.Service
	Endpoints []plan.Endpoint
	Problems  []plan.Problem
	// Port is the name or number of one port; empty: all. To is one address; invalid: all.
	Port string
	To   netip.Addr
	// From is the client; the zero value takes a pod for ClusterIPs, and somebody
	// outside for the others.
	From Client
}

// Path is the way of a packet to one frontend.
type Path struct {
	Frontend string `json:"frontend"`
	Kind     Kind   `json:"kind"`
	Port     string `json:"port,omitempty"`
	Client   string `json:"client"`
	Steps    []Step `json:"steps"`
	// Candidates are all endpoints of the port, the used ones and the others.
	Candidates  []Candidate  `json:"candidates"`
	Differences []Difference `json:"differences,omitempty"`
	// Verdict is works, refused, dropped, not served, or differs from plan.
	Verdict string `json:"verdict"`
	Because string `json:"because,omitempty"`

	key    ipvsutil.Key
	client Client
}

// Step is one thing that happens to the packet.
type Step struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Candidate is an endpoint.
type Candidate struct {
	Address string `json:"address"`
	// Pod is the name of the pod, in the namespace of the Service.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	Used bool   `json:"used"`
	Why  string `json:"why"`
	// Active counts the connections that it has through this server.
	Active uint32 `json:"activeConnections"`
}

// The verdicts.
const (
	Works     = "works"
	Refused   = "refused"
	Dropped   = "dropped"
	NotServed = "not served"
	Differs   = "differs from plan"
)

func (p *Path) step(name, text string) { p.Steps = append(p.Steps, Step{name, text}) }

// end settles the verdict, unless it is settled: the first reason counts.
func (p *Path) end(verdict, because string) {
	if p.Verdict == "" {
		p.Verdict, p.Because = verdict, because
	}
}
