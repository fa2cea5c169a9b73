package fake

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	"kube-ipvs-proxy/ipvsutil"
)

// defaultSchedulers are those of the Linux kernel; "none" is a server that never
// schedules.
var defaultSchedulers = append(ipvsutil.Schedulers[:], "none")

// IPVS is the double of ipvsutil/kernel's IPVS: as strict as the kernel, with the
// same errors, and safe for several goroutines. It has no connections but those
// that PutReal gives it, and no trash list: a real server that comes back after it
// was deleted has no connections.
type IPVS struct {
	mu         sync.Mutex
	servers    map[ipvsutil.Key]*server
	schedulers map[string]bool
	timeouts   ipvsutil.Timeouts
	counts     IPVSCounts
	fault      func(IPVSRequest) fault
}

type server struct {
	ipvsutil.VirtualServer
	reals map[netip.AddrPort]ipvsutil.RealServerState
}

var _ ipvsutil.IPVS = (*IPVS)(nil)

// NewIPVS returns the double of an empty namespace whose kernel has all schedulers
// of Linux, or only those given.
func NewIPVS(schedulers ...string) *IPVS {
	if len(schedulers) == 0 {
		schedulers = defaultSchedulers
	}
	f := &IPVS{
		servers:    map[ipvsutil.Key]*server{},
		schedulers: map[string]bool{},
		timeouts:   ipvsutil.Timeouts{TCP: 900, TCPFin: 120, UDP: 300},
	}
	for _, s := range schedulers {
		f.schedulers[s] = true
	}
	return f
}

// Do implements ipvsutil.IPVS.
func (f *IPVS) Do(ctx context.Context, ops []ipvsutil.Op) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for i, op := range ops {
		err := f.request(ctx, op)
		if err == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(ops))
		}
		object := op.Server.Key.String()
		if op.Verb > ipvsutil.DeleteVirtualServer {
			object += " -> " + op.Real.String()
		}
		errs[i] = &ipvsutil.OpError{Op: op.Verb.String(), Object: object, Err: err}
	}
	return errs
}

// request is one op on its way: the program's own check, the fault, the kernel.
func (f *IPVS) request(ctx context.Context, op ipvsutil.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := op.Check(); err != nil {
		f.counts.Invalid++
		return err
	}
	f.counts.Ops[op.Verb]++
	broken := f.breaks(IPVSRequest{Op: op})
	if broken.err != nil && !broken.done {
		return broken.err
	}
	errno := f.do(op)
	if errno == syscall.EEXIST || errno == syscall.ESRCH || errno == syscall.ENOENT && op.Verb >= ipvsutil.UpdateRealServer {
		f.counts.Needless++
	}
	switch {
	case broken.err != nil:
		return broken.err
	case errno != 0:
		return op.Verb.Refusal(errno)
	}
	return nil
}

// do is the kernel (net/netfilter/ipvs/ip_vs_ctl.c, ip_vs_genl_set_cmd): zero is
// success. The order of the checks is the kernel's.
func (f *IPVS) do(op ipvsutil.Op) syscall.Errno {
	key := op.Server.Key
	s, there := f.servers[key]
	if op.Verb != ipvsutil.CreateVirtualServer && !there {
		return syscall.ESRCH
	}
	switch op.Verb {
	case ipvsutil.CreateVirtualServer, ipvsutil.UpdateVirtualServer:
		if op.Verb == ipvsutil.CreateVirtualServer && there {
			return syscall.EEXIST
		}
		if !f.schedulers[op.Server.Scheduler] {
			return syscall.ENOENT
		}
		value := op.Server
		value.Foreign = false
		if !there {
			f.servers[key] = &server{VirtualServer: value, reals: map[netip.AddrPort]ipvsutil.RealServerState{}}
			return 0
		}
		f.needlessIf(s.VirtualServer == value)
		s.VirtualServer = value
	case ipvsutil.DeleteVirtualServer:
		delete(f.servers, key)
	default:
		return f.doReal(op, s)
	}
	return 0
}

func (f *IPVS) doReal(op ipvsutil.Op, s *server) syscall.Errno {
	value := op.Real
	value.Foreign = false
	have, there := s.reals[value.Addr]
	switch op.Verb {
	case ipvsutil.CreateRealServer:
		if there {
			return syscall.EEXIST
		}
		if !usable(value.Addr.Addr()) {
			return syscall.EINVAL
		}
		s.reals[value.Addr] = ipvsutil.RealServerState{RealServer: value}
	case ipvsutil.UpdateRealServer:
		if !there {
			return syscall.ENOENT
		}
		f.needlessIf(have.RealServer == value)
		have.RealServer = value
		s.reals[value.Addr] = have
	case ipvsutil.DeleteRealServer:
		if !there {
			return syscall.ENOENT
		}
		delete(s.reals, value.Addr)
	}
	return 0
}

func (f *IPVS) needlessIf(equal bool) {
	if equal {
		f.counts.Needless++
	}
}

// usable says whether the kernel takes the address for a new real server: unicast,
// and no IPv6 link-local one. (It refuses the broadcast addresses of local subnets
// too; the double has no subnets.)
func usable(addr netip.Addr) bool {
	if addr.IsUnspecified() || addr.IsMulticast() {
		return false
	}
	if addr.Is4() {
		return addr != netip.AddrFrom4([4]byte{255, 255, 255, 255})
	}
	return !addr.IsLinkLocalUnicast()
}

// VirtualServers implements ipvsutil.IPVS; the list is sorted by key.
func (f *IPVS) VirtualServers(ctx context.Context) ([]ipvsutil.VirtualServer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.ListVirtual++
	if err := f.refuseList(ctx, IPVSRequest{List: "virtual servers"}); err != nil {
		return nil, err
	}
	return f.sorted(), nil
}

func (f *IPVS) sorted() []ipvsutil.VirtualServer {
	var list []ipvsutil.VirtualServer
	for _, s := range f.servers {
		list = append(list, s.VirtualServer)
	}
	slices.SortFunc(list, func(a, b ipvsutil.VirtualServer) int { return a.Key.Compare(b.Key) })
	return list
}

// RealServers implements ipvsutil.IPVS; the list is sorted by address.
func (f *IPVS) RealServers(ctx context.Context, key ipvsutil.Key) ([]ipvsutil.RealServerState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.ListReal++
	r := IPVSRequest{List: "real servers of " + key.String()}
	if err := f.refuseList(ctx, r); err != nil {
		return nil, err
	}
	if err := key.Check(); err != nil {
		return nil, &ipvsutil.OpError{Op: "list", Object: r.List, Err: err}
	}
	if s, ok := f.servers[key]; ok {
		return s.sorted(), nil
	}
	return nil, nil
}

func (s *server) sorted() []ipvsutil.RealServerState {
	return slices.SortedFunc(maps.Values(s.reals), func(a, b ipvsutil.RealServerState) int {
		return a.Addr.Compare(b.Addr)
	})
}

func (f *IPVS) refuseList(ctx context.Context, r IPVSRequest) error {
	err := ctx.Err()
	if err == nil {
		err = f.breaks(r).err
	}
	if err != nil {
		return &ipvsutil.OpError{Op: "list", Object: r.List, Err: err}
	}
	return nil
}

// HasScheduler is that of ipvsutil/kernel.
func (f *IPVS) HasScheduler(ctx context.Context, name string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.schedulers[name], ctx.Err()
}

// Timeouts is that of ipvsutil/kernel.
func (f *IPVS) Timeouts(ctx context.Context) (ipvsutil.Timeouts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.timeouts, ctx.Err()
}

// SetTimeouts is that of ipvsutil/kernel; zero leaves one as it is.
func (f *IPVS) SetTimeouts(ctx context.Context, t ipvsutil.Timeouts) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if max(t.TCP, t.TCPFin, t.UDP) > ipvsutil.MaxTimeout {
		return &ipvsutil.OpError{Op: "set", Object: "IPVS timeouts", Err: syscall.EINVAL}
	}
	f.timeouts.TCP = cmp.Or(t.TCP, f.timeouts.TCP)
	f.timeouts.TCPFin = cmp.Or(t.TCPFin, f.timeouts.TCPFin)
	f.timeouts.UDP = cmp.Or(t.UDP, f.timeouts.UDP)
	return nil
}

// Dump returns one line for each virtual server, then one for each real server,
// sorted: "vs 10.96.0.10:53/udp rr", "rs 10.96.0.10:53/udp 10.244.1.2:53 w1".
func (f *IPVS) Dump() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var virtual, real strings.Builder
	for _, v := range f.sorted() {
		fmt.Fprintln(&virtual, v)
		for _, r := range f.servers[v.Key].sorted() {
			fmt.Fprintln(&real, "rs", v.Key, r.RealServer)
		}
	}
	return virtual.String() + real.String()
}
