package kernel

import (
	"errors"
	"io/fs"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
)

// BindByRoute lets Bind add a local route in the kernel's table local instead of an
// address on the device: the n-th address costs the kernel O(n), and removing one of
// IPv6 milliseconds, a route two or three microseconds whatever n is. It is to be
// called before the first Bind.
//
// Bound and Unbind know both ways in either mode, because an earlier start may have
// used the other one. Routes lie on lo, since the kernel accepts no IPv6 route on a
// device that is down. So they need no device and outlive it, unlike what the contract
// of ipvsutil.Addresses says.
func (a *Addresses) BindByRoute() { a.byRoute = true }

// bindRoutes says where routes of bound addresses are; the rule plays no part.
func (a *Addresses) bindRoutes() ipvsutil.CaptureRoutes {
	return ipvsutil.CaptureRoutes{Table: unix.RT_TABLE_LOCAL, Protocol: a.routes.Protocol}
}

// retryMissing does again, in another way, what failed because it was missing. errs
// are the results of the first way, one an address, or nil when all was done.
func retryMissing(addrs []netip.Addr, errs []error, again func([]netip.Addr) []error) []error {
	var missing []netip.Addr
	var places []int
	for i, err := range errs {
		if errors.Is(err, fs.ErrNotExist) {
			missing, places = append(missing, addrs[i]), append(places, i)
		}
	}
	if missing == nil {
		return errs
	}
	results := again(missing)
	for n, i := range places {
		if results == nil {
			errs[i] = nil
		} else if !errors.Is(results[n], fs.ErrNotExist) { // else the first reason says more
			errs[i] = results[n]
		}
	}
	return anyError(errs)
}

// anyError returns errs, or nil when none of them is an error.
func anyError(errs []error) []error {
	for _, err := range errs {
		if err != nil {
			return errs
		}
	}
	return nil
}
