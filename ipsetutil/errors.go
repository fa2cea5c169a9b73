package ipsetutil

import (
	"errors"
	"io/fs"
)

// ErrFull: the set has maxelem entries already.
var ErrFull = errors.New("set is full")

// ErrMismatch: a set of that name exists with other parameters.
var ErrMismatch = errors.New("set exists with other parameters")

// ErrBusy: a rule or another set refers to the set.
var ErrBusy = errors.New("set is in use by a rule")

// ErrInvalid: the set or member can't exist, whatever the kernel holds: wrong
// family, a field that the type lacks, a /0 source. Trying again is of no use.
var ErrInvalid = errors.New("invalid")

// ErrNoIPSet: this kernel has no ipset, or lacks a set type that was asked for.
var ErrNoIPSet = errors.New("the kernel has no ipset: module ip_set is missing")

// ErrNoSet: there is no set of that name. It is also fs.ErrNotExist.
var ErrNoSet error = missing("set does not exist")

// ErrNoEntry: the set has no such entry. It is also fs.ErrNotExist.
var ErrNoEntry error = missing("entry does not exist")

// missing is an absence that says what is absent.
type missing string

func (m missing) Error() string        { return string(m) }
func (m missing) Is(target error) bool { return target == fs.ErrNotExist }

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
