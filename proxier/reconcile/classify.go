package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// Classes of failures, as the metrics name them.
const (
	classBusy        = "busy"
	classExists      = "exists"
	classFull        = "full"
	classInterrupted = "interrupted"
	classInvalid     = "invalid"
	classMissing     = "missing"
	classPermission  = "permission"
	classScheduler   = "scheduler"
	classTimeout     = "timeout"
	classOther       = "other"
)

// classes says what an error means; the first that fits counts. An unknown
// scheduler and a lost answer come before the errno that they carry.
var classes = []struct {
	class string
	of    []error
}{
	{classScheduler, []error{ipvsutil.ErrUnknownScheduler}},
	{classTimeout, []error{ipvsutil.ErrUnknownOutcome, context.DeadlineExceeded, context.Canceled, syscall.ETIMEDOUT}},
	{classFull, []error{ipsetutil.ErrFull}},
	{classExists, []error{fs.ErrExist, ipsetutil.ErrMismatch}},
	{classMissing, []error{fs.ErrNotExist, ipvsutil.ErrNoDevice}},
	{classInvalid, []error{fs.ErrInvalid, ipsetutil.ErrInvalid, syscall.EINVAL, syscall.ERANGE, syscall.EAFNOSUPPORT}},
	{classPermission, []error{fs.ErrPermission}},
	{classInterrupted, []error{syscall.EINTR}},
	{classBusy, []error{syscall.EBUSY, ipsetutil.ErrBusy, syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN}},
}

// classify names the class of an error.
func classify(err error) string {
	for _, c := range classes {
		for _, of := range c.of {
			if errors.Is(err, of) {
				return c.class
			}
		}
	}
	return classOther
}

// doubt tells whether an error casts doubt on the picture of what it is about, and
// whether somebody else must have changed that. A kernel that is busy or refuses
// has changed nothing.
func doubt(err error) (outside, doubtful bool) {
	switch classify(err) {
	case classExists, classMissing:
		return true, true
	case classTimeout, classOther:
		return false, true
	}
	return false, false
}
