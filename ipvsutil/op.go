package ipvsutil

import (
	"context"
	"errors"
	"fmt"
)

// Verb is what an Op does. All verbs are strict and fail as the kernel does:
// creating what exists gives fs.ErrExist, changing or deleting what is missing
// gives fs.ErrNotExist.
type Verb uint8

// The six changes that IPVS knows.
const (
	CreateVirtualServer Verb = iota + 1
	UpdateVirtualServer
	DeleteVirtualServer
	CreateRealServer
	UpdateRealServer
	DeleteRealServer
)

// String returns for example "create real server".
func (v Verb) String() string {
	switch v {
	case CreateVirtualServer:
		return "create virtual server"
	case UpdateVirtualServer:
		return "update virtual server"
	case DeleteVirtualServer:
		return "delete virtual server"
	case CreateRealServer:
		return "create real server"
	case UpdateRealServer:
		return "update real server"
	case DeleteRealServer:
		return "delete real server"
	}
	return fmt.Sprintf("verb %d", uint8(v))
}

// Op is one change of IPVS. The verbs of a virtual server use Server and ignore
// Real; the verbs of a real server use Server.Key and Real.
type Op struct {
	Verb   Verb
	Server VirtualServer
	Real   RealServer
}

// String returns for example "create real server 10.96.0.1:443/tcp -> 10.244.1.2:6443 w1".
func (o Op) String() string {
	switch o.Verb {
	case CreateRealServer, UpdateRealServer, DeleteRealServer:
		return o.Verb.String() + " " + o.Server.Key.String() + " -> " + o.Real.String()
	}
	return o.Verb.String() + " " + o.Server.Key.String()
}

// OpError is a change or a listing that failed: what was tried, on which object, and why.
// errors.Is finds the errno, and fs.ErrExist or fs.ErrNotExist whatever the errno was.
type OpError struct {
	Op     string
	Object string
	Err    error
}

// Error returns "create real server 10.96.0.1:443/tcp -> ...: no such process".
func (e *OpError) Error() string { return e.Op + " " + e.Object + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *OpError) Unwrap() error { return e.Err }

// ErrUnknownScheduler: the kernel has no scheduler of that name, nor a module for it.
var ErrUnknownScheduler = errors.New("scheduler not in this kernel")

// ErrNoIPVS: the kernel has no ip_vs (module missing or not loadable).
var ErrNoIPVS = errors.New("kernel has no IPVS: module ip_vs is missing (try: modprobe ip_vs)")

// IPVS is the door to the virtual servers of one network namespace. Ops are done
// in order; each is on its own: one that fails does not stop those after it. Do
// returns nil when all succeeded, else one error (or nil) an op, in order.
// RealServers of a virtual server that is missing is an empty list without error,
// as in the kernel.
type IPVS interface {
	Do(ctx context.Context, ops []Op) []error
	VirtualServers(ctx context.Context) ([]VirtualServer, error)
	RealServers(ctx context.Context, key Key) ([]RealServerState, error)
}

// ErrUnknownOutcome: the kernel's answer was lost or did not come in time. The
// change may have been done or not; only reading tells.
var ErrUnknownOutcome = errors.New("outcome unknown: the kernel's answer was lost")
