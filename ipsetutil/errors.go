package ipsetutil

import "errors"

// ErrFull: the set has maxelem entries already.
var ErrFull = errors.New("set is full")

// ErrMismatch: a set of that name exists with other parameters.
var ErrMismatch = errors.New("set exists with other parameters")

// ErrBusy: a rule or another set refers to the set.
var ErrBusy = errors.New("set is in use by a rule")

// OpError is a request that failed: what was tried, on which set or member, and why.
type OpError struct {
	Op     string
	Object string
	Err    error
}

// Error returns "add KUBE-CLUSTER-IP 10.96.0.1,tcp:443: set is full".
func (e *OpError) Error() string { return e.Op + " " + e.Object + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *OpError) Unwrap() error { return e.Err }
