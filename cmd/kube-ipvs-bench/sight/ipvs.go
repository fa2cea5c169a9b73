package sight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
	"kube-ipvs-proxy/ipsetutil"
	ipsetkernel "kube-ipvs-proxy/ipsetutil/kernel"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/kernel"
)

// Sets of kube-proxy's ipvs mode, which every heir of it has, too: frontends of
// ClusterIPs, and endpoints of the node that may reach themselves.
const (
	clusterIPs = "KUBE-CLUSTER-IP"
	loopBack   = "KUBE-LOOP-BACK"
)

// ipvs sees virtual and real servers, bound addresses and sets.
type ipvs struct {
	servers   *kernel.IPVS
	sets      *ipsetkernel.Conn
	addresses *kernel.Addresses
	routes    *netlink.Handle
	old       int // socket of the old interface, which counts servers
}

// IPVS opens the sight of IPVS proxies in the thread's network namespace.
func IPVS(ctx context.Context) (Sight, error) {
	k := &ipvs{old: -1}
	var err error
	if k.servers, err = kernel.Open(ctx); err != nil {
		return nil, err
	}
	if k.sets, err = ipsetkernel.Open(ctx); err != nil {
		return nil, errors.Join(err, k.servers.Close())
	}
	if k.addresses, err = kernel.OpenAddresses(ctx, ipvsutil.DefaultCaptureRoutes); err != nil {
		return nil, errors.Join(err, k.servers.Close(), k.sets.Close())
	}
	if k.routes, err = netlink.NewHandle(unix.NETLINK_ROUTE); err == nil {
		k.old, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

func (k *ipvs) Close() {
	_ = k.servers.Close() // only read from
	_ = k.sets.Close()
	_ = k.addresses.Close()
	if k.routes != nil {
		k.routes.Close()
	}
	if k.old >= 0 {
		_ = unix.Close(k.old)
	}
}

// count is the number of virtual servers of IPv4, from the old interface
// (IP_VS_SO_GET_INFO of include/uapi/linux/ip_vs.h): it costs the same whatever it is.
func (k *ipvs) count() (int, error) {
	const getInfo = 64 + 1024 + 64 + 1
	var info [3]uint32 // version, size of the table, servers
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(k.old), unix.SOL_IP, getInfo,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("IP_VS_SO_GET_INFO: %w", errno)
	}
	return int(info[2]), nil
}

// size is the number of members of a set, -1 when it is not there.
func (k *ipvs) size(ctx context.Context, set string) (int, error) {
	h, err := k.sets.Header(ctx, set)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ipsetutil.ErrNoSet) {
		return -1, nil
	}
	return int(h.Entries), err
}

// isLocal tells whether an address is the node's own: bound, or by a local route.
func (k *ipvs) isLocal(a netip.Addr) bool {
	routes, err := k.routes.RouteGet(net.IP(a.AsSlice()))
	return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL
}

func (k *ipvs) Seems(ctx context.Context, w *world.World) (bool, string, error) {
	n, err := k.count()
	if err != nil {
		return false, "", err
	}
	want := len(w.Services) + w.Others
	if n != want {
		return false, fmt.Sprintf("%d of %d virtual servers", n, want), nil
	}
	for _, set := range []struct {
		name string
		want int
	}{{clusterIPs, want}, {loopBack, w.Locals()}} {
		n, err := k.size(ctx, set.name)
		if err != nil {
			return false, "", err
		}
		if n < set.want {
			return false, fmt.Sprintf("%d of %d members in %s", n, set.want, set.name), nil
		}
	}
	for _, i := range []int{len(w.Services) - 1, len(w.Services) - 2, len(w.Services) / 2, 0} {
		if ip := w.Services[i].IP; !k.isLocal(ip) {
			return false, fmt.Sprintf("%v is not bound", ip), nil
		}
	}
	return true, "all", nil
}

func (k *ipvs) Verify(ctx context.Context, w *world.World) error {
	bound, err := k.addresses.Bound(ctx)
	if err != nil {
		return err
	}
	has := map[netip.Addr]bool{}
	for _, a := range bound {
		has[a] = true
	}
	members, err := k.sets.Members(ctx, clusterIPs)
	if err != nil {
		return err
	}
	if want := len(w.Services) + w.Others; len(members) != want {
		return fmt.Errorf("%s has %d members, want %d", clusterIPs, len(members), want)
	}
	for _, s := range w.Services {
		if !has[s.IP] {
			return fmt.Errorf("%v is not bound", s.IP)
		}
		ok, err := k.real(ctx, s)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%v has not exactly the endpoints of %s", s.Frontend(), s.Name)
		}
	}
	return nil
}

// real tells whether a virtual server has exactly the Service's endpoints; those of
// weight 0 take nothing new and do not count.
func (k *ipvs) real(ctx context.Context, s world.Service) (bool, error) {
	list, err := k.servers.RealServers(ctx, key(s))
	if err != nil {
		return false, err
	}
	want := s.Backends()
	n := 0
	for _, r := range list {
		if r.Weight == 0 {
			continue
		}
		if !slices.Contains(want, r.Addr) {
			return false, nil
		}
		n++
	}
	return n == len(want), nil
}

func key(s world.Service) ipvsutil.Key {
	return ipvsutil.Key{Addr: s.Frontend(), Protocol: ipvsutil.TCP}
}

func (k *ipvs) Serves(ctx context.Context, w *world.World, s world.Service) (bool, error) {
	ok, err := k.real(ctx, s)
	if !ok || err != nil || !k.isLocal(s.IP) {
		return false, err
	}
	n, err := k.size(ctx, clusterIPs)
	return n == len(w.Services)+w.Others, err
}

func (k *ipvs) Gone(ctx context.Context, w *world.World, s world.Service) (bool, error) {
	n, err := k.count()
	if err != nil || n != len(w.Services)+w.Others || k.isLocal(s.IP) {
		return false, err
	}
	n, err = k.size(ctx, clusterIPs)
	return n == len(w.Services)+w.Others, err
}
