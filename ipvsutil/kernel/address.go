package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"sync"
	"time"

	vnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// dumpTries is how often a listing is tried that changes interrupt.
const dumpTries = 5

// handleTimeout bounds each wait of the requests about links and rules.
const handleTimeout = 10 * time.Second

// Addresses is the door to the addresses of one network namespace: the one that
// the thread was in which opened it. It may be used by several goroutines.
type Addresses struct {
	routes  ipvsutil.CaptureRoutes
	byRoute bool             // see BindByRoute
	socket  *netlink.Socket  // addresses and routes, in batches
	handle  *vnetlink.Handle // links and rules, one at a time
	sockets *netlink.Socket  // connections of processes

	mu   sync.Mutex
	left map[netip.Addr]bool // addresses with a route of Leave, until they are unbound
}

var _ ipvsutil.Addresses = (*Addresses)(nil)

// OpenAddresses opens the door. Nothing is read or written before the first call.
func OpenAddresses(ctx context.Context, routes ipvsutil.CaptureRoutes) (*Addresses, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := routes.Validate(); err != nil {
		return nil, err
	}
	socket, err := netlink.Open(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	_ = socket.FilterDumps() // without it the listings are longer, not wrong
	handle, err := vnetlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		_ = socket.Close()
		return nil, fmt.Errorf("open netlink socket for links and rules: %w", err)
	}
	if err := handle.SetSocketTimeout(handleTimeout); err != nil {
		_ = socket.Close()
		handle.Close()
		return nil, fmt.Errorf("netlink socket for links and rules: %w", err)
	}
	sockets, err := netlink.Open(unix.NETLINK_SOCK_DIAG)
	if err != nil {
		_ = socket.Close()
		handle.Close()
		return nil, err
	}
	return &Addresses{routes: routes, socket: socket, handle: handle, sockets: sockets}, nil
}

// Close closes the sockets. What is bound and captured stays.
func (a *Addresses) Close() error {
	a.handle.Close()
	return errors.Join(a.socket.Close(), a.sockets.Close())
}

// Ensure implements ipvsutil.Addresses. Where the kernel has no IPv6, the IPv4 rule is enough.
func (a *Addresses) Ensure(ctx context.Context) error {
	if err := a.ensureDevice(ctx); err != nil {
		return err
	}
	return a.ensureRules(ctx)
}

// Bind implements ipvsutil.Addresses.
func (a *Addresses) Bind(ctx context.Context, addrs []netip.Addr) []error {
	if a.byRoute {
		return a.addRoutes(ctx, "bind", a.bindRoutes(), addrs)
	}
	return a.changeAddresses(ctx, "bind", unix.RTM_NEWADDR, addrs, bindError)
}

// Unbind implements ipvsutil.Addresses. What is not bound in the way of this start
// may be bound in the other one, see BindByRoute.
func (a *Addresses) Unbind(ctx context.Context, addrs []netip.Addr) []error {
	ways := []func([]netip.Addr) []error{
		func(addrs []netip.Addr) []error {
			return a.changeAddresses(ctx, "unbind", unix.RTM_DELADDR, addrs, unbindError)
		},
		func(addrs []netip.Addr) []error {
			return a.deleteRoutes(ctx, "unbind", a.bindRoutes(), addrs)
		},
	}
	if a.byRoute {
		slices.Reverse(ways)
	}
	errs := retryMissing(addrs, ways[0](addrs), ways[1])
	if left := a.forget(addrs, errs); len(left) > 0 {
		// A route that stays counts as bound, so that the next listing finds it.
		_ = a.deleteRoutes(ctx, "unbind", a.bindRoutes(), left)
	}
	return errs
}

// changeAddresses sends one RTM_NEWADDR or RTM_DELADDR an address.
func (a *Addresses) changeAddresses(ctx context.Context, op string, kind uint16, addrs []netip.Addr, explain func(netip.Addr, error) error) []error {
	if len(addrs) == 0 {
		return nil
	}
	index, err := a.deviceIndex(ctx)
	if err != nil {
		return failAll(op, addrs, func(addr netip.Addr) error { return explain(addr, err) })
	}
	return a.batch(ctx, op, addrs, func(addr netip.Addr) netlink.Request {
		return addressRequest(kind, index, addr)
	}, explain)
}

// batch sends one request an address, leaves out those that no Service can have, and
// puts each error, explained, in its place; what is explained away is none.
func (a *Addresses) batch(ctx context.Context, op string, addrs []netip.Addr, request func(netip.Addr) netlink.Request, explain func(netip.Addr, error) error) []error {
	var errs []error
	fail := func(i int, err error) {
		if errs == nil {
			errs = make([]error, len(addrs))
		}
		errs[i] = &ipvsutil.OpError{Op: op, Object: addrs[i].String(), Err: err}
	}
	requests := make([]netlink.Request, 0, len(addrs))
	places := make([]int, 0, len(addrs))
	for i, addr := range addrs {
		if err := ipvsutil.CheckAddress(addr); err != nil {
			fail(i, err)
			continue
		}
		requests, places = append(requests, request(addr)), append(places, i)
	}
	for n, err := range a.socket.Execute(ctx, requests) {
		if err == nil {
			continue
		}
		if err = explain(addrs[places[n]], err); err != nil {
			fail(places[n], err)
		}
	}
	return errs
}

// failAll gives every address of a batch that could not be sent its error.
func failAll(op string, addrs []netip.Addr, why func(netip.Addr) error) []error {
	errs := make([]error, len(addrs))
	for i, addr := range addrs {
		err := ipvsutil.CheckAddress(addr)
		if err == nil {
			err = why(addr)
		}
		errs[i] = &ipvsutil.OpError{Op: op, Object: addr.String(), Err: err}
	}
	return errs
}

// bindError gives the kernel's answer to RTM_NEWADDR its meaning.
func bindError(addr netip.Addr, err error) error {
	switch {
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: %w", ipvsutil.ErrNoDevice, err)
	case addr.Is6() && isNoIPv6(err), addr.Is6() && errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w on %s: %w", ipvsutil.ErrIPv6Disabled, ipvsutil.Device, err)
	}
	return err
}

// unbindError gives the kernel's answer to RTM_DELADDR its meaning.
func unbindError(_ netip.Addr, err error) error {
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%w (%w)", fs.ErrNotExist, err)
	case errors.Is(err, unix.ENODEV), errors.Is(err, ipvsutil.ErrNoDevice):
		return fmt.Errorf("%w: %w", ipvsutil.ErrNoDevice, fs.ErrNotExist)
	}
	return err
}

// isNoIPv6 reports the kernel's answers when it was booted or built without IPv6.
func isNoIPv6(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)
}

// Bound implements ipvsutil.Addresses; the addresses are sorted. What no Service
// can have, such as the link-local address of IPv6, is left out, and so is whatever
// has not the full length. Both ways of binding count, see BindByRoute.
func (a *Addresses) Bound(ctx context.Context) ([]netip.Addr, error) {
	return a.list(ctx, "bound addresses", func(ctx context.Context) ([]netip.Addr, error) {
		onDevice, err := a.dumpAddresses(ctx)
		if err != nil {
			return nil, err
		}
		byRoute, err := a.dumpRoutes(ctx, a.bindRoutes())
		if err != nil {
			return nil, err
		}
		return append(onDevice, byRoute...), nil
	})
}

// dumpAddresses lists the addresses on the device.
func (a *Addresses) dumpAddresses(ctx context.Context) ([]netip.Addr, error) {
	index, err := a.deviceIndex(ctx)
	if errors.Is(err, ipvsutil.ErrNoDevice) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		err := a.socket.Dump(ctx, addressDump(family, index), func(body []byte) error {
			addr, ok, err := parseAddress(body, family, index)
			if ok {
				addrs = append(addrs, addr)
			}
			return err
		})
		if err != nil && !(family == unix.AF_INET6 && isNoIPv6(err)) {
			return nil, err
		}
	}
	return addrs, nil
}

// list runs a listing until no change interrupts it, nor the device goes away under
// it. It gives all or nothing, sorted.
func (a *Addresses) list(ctx context.Context, what string, dump func(context.Context) ([]netip.Addr, error)) ([]netip.Addr, error) {
	var err error
	for range dumpTries {
		var addrs []netip.Addr
		if err = ctx.Err(); err != nil {
			break
		}
		if addrs, err = dump(ctx); err == nil {
			slices.SortFunc(addrs, netip.Addr.Compare)
			return slices.Compact(addrs), nil
		}
		if !errors.Is(err, netlink.ErrInterrupted) && !errors.Is(err, unix.ENODEV) {
			break
		}
	}
	return nil, &ipvsutil.OpError{Op: "list", Object: what, Err: err}
}
