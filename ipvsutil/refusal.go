package ipvsutil

import (
	"io/fs"
	"syscall"
)

// refusal is an answer of IPVS that has a meaning beyond its errno. errors.Is
// finds the sentinel and the errno, errors.As the errno as syscall.Errno. It has
// no Unwrap: through the ENOENT of an unknown scheduler fs.ErrNotExist would be
// found, and an update would be taken for one of a missing server.
type refusal struct {
	text     string
	sentinel error
	errno    syscall.Errno
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) Is(target error) bool { return target == r.sentinel || target == r.errno }

func (r *refusal) As(target any) bool {
	errno, ok := target.(*syscall.Errno)
	if ok {
		*errno = r.errno
	}
	return ok
}

// Refusal gives the meaning of the errno with which IPVS refused v
// (net/netfilter/ipvs/ip_vs_ctl.c): fs.ErrExist, fs.ErrNotExist or
// ErrUnknownScheduler, each with the errno; any other errno is returned as it is.
func (v Verb) Refusal(errno syscall.Errno) error {
	server := v == CreateVirtualServer || v == UpdateVirtualServer || v == DeleteVirtualServer
	switch {
	case errno == syscall.EEXIST && server:
		return &refusal{"virtual server exists already", fs.ErrExist, errno}
	case errno == syscall.EEXIST:
		return &refusal{"real server exists already", fs.ErrExist, errno}
	case errno == syscall.ESRCH:
		return &refusal{"virtual server does not exist", fs.ErrNotExist, errno}
	case errno == syscall.ENOENT && server:
		return &refusal{ErrUnknownScheduler.Error(), ErrUnknownScheduler, errno}
	case errno == syscall.ENOENT:
		return &refusal{"real server does not exist", fs.ErrNotExist, errno}
	}
	return errno
}
