// Package watch turns the objects of Kubernetes (Service, EndpointSlice, Node)
// into the values of package plan. Types of the Kubernetes API stop here.
//
// A source tells which Services are dirty and is asked for their present state
// when somebody wants to know it: events carry names, never old or new values.
package watch

import (
	"net/netip"
	"slices"
	"time"

	"kube-ipvs-proxy/proxier/plan"
)

// Dirty says what changed since the last Drain.
type Dirty struct {
	// Services are the Services whose values changed, came or went, sorted.
	Services []plan.ServiceName
	// All: every Service must be planned again, because the Node changed or
	// because this is the first complete read.
	All bool
	// Revision names the state that was read; see FolderRevision. It is empty
	// for a source that has no such name.
	Revision string
	// Triggers are the times at which changes of endpoints were caused, as far as
	// slices tell them; only the API server's do.
	Triggers []Trigger
}

// Trigger is the time of the cause of a change of one Service's endpoints (the
// annotation endpoints.kubernetes.io/last-change-trigger-time of a slice).
type Trigger struct {
	Service plan.ServiceName
	IPv6    bool
	At      time.Time
}

// NodeInfo is what the Node object of this node says.
type NodeInfo struct {
	// Name is the node's name, trimmed and lower-cased.
	Name string
	// Zone is the label topology.kubernetes.io/zone, empty when there is none.
	Zone string
	// IPs are the internal addresses, then the external ones; the first is the
	// primary address.
	IPs []netip.Addr
	// PodCIDRs are the pod networks given to this node, masked.
	PodCIDRs []netip.Prefix
	// Leaving: the Node is being deleted, or carries the taint
	// ToBeDeletedByClusterAutoscaler (KEP-3836). New connections of load
	// balancers should go elsewhere.
	Leaving bool
}

// equal reports whether a and b say the same.
func (a NodeInfo) equal(b NodeInfo) bool {
	return a.Name == b.Name && a.Zone == b.Zone && a.Leaving == b.Leaving &&
		slices.Equal(a.IPs, b.IPs) && slices.Equal(a.PodCIDRs, b.PodCIDRs)
}
