package watch

import (
	"cmp"
	"fmt"
	"reflect"

	"kube-ipvs-proxy/proxier/plan"
)

// kind is the kind of an object that is read.
type kind uint8

const (
	kindService kind = iota
	kindSlice
	kindNode
)

// String returns the kind as the API spells it.
func (k kind) String() string { return [...]string{"Service", "EndpointSlice", "Node"}[k] }

// objectKey names one object.
type objectKey struct {
	kind            kind
	namespace, name string
}

// String returns "Service default/web" or "Node node-1".
func (k objectKey) String() string {
	if k.kind == kindNode {
		return fmt.Sprintf("%s %s", k.kind, k.name)
	}
	return fmt.Sprintf("%s %s/%s", k.kind, k.namespace, k.name)
}

// object is one object, translated. It is never changed once it is made.
type object struct {
	key objectKey
	// service is nil for a Service that is not for this proxy.
	service *plan.Service
	// owner and endpoints are those of a slice; owner is zero for a slice that
	// belongs to no Service.
	owner     plan.ServiceName
	endpoints []plan.Endpoint
	node      NodeInfo
	problems  []Problem
	// uid is that of a Service of the API server; elsewhere it is empty.
	uid string
}

// owned reports whether the object is a slice of some Service.
func (o *object) owned() bool { return o != nil && o.owner != plan.ServiceName{} }

// same reports whether two objects of this key mean the same for the proxy. Both
// may be nil, which stands for an object that is not there: a Service that is not
// ours and a slice without endpoints mean no more than that.
func (k objectKey) same(a, b *object) bool {
	if k.kind == kindNode && (a == nil || b == nil) {
		return a == b
	}
	switch {
	case a == nil && b == nil:
		return true
	case a == nil || b == nil:
		one := cmp.Or(a, b)
		return one.service == nil && len(one.endpoints) == 0
	}
	switch k.kind {
	case kindService:
		return reflect.DeepEqual(a.service, b.service)
	case kindSlice:
		return equalEndpoints(a.endpoints, b.endpoints) && (a.owner == b.owner || len(a.endpoints) == 0)
	}
	return a.node.equal(b.node)
}
