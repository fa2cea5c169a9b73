package kernel

import (
	"context"
	"slices"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// VirtualServers implements ipvsutil.IPVS; the list is sorted by key. The kernel
// gives long lists in parts, and when another program changes servers between two
// parts some are missing or there twice, without a sign. So the list is read until
// two in a row are equal, with as many servers of IPv4 as the kernel counts: one that
// changes without pause can hide the same ones twice. netlink.ErrInterrupted when that
// does not happen.
func (k *IPVS) VirtualServers(ctx context.Context) ([]ipvsutil.VirtualServer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, err := k.virtualServers(ctx)
	for try := 0; err == nil && try < dumpTries; try++ {
		var now []ipvsutil.VirtualServer
		now, err = k.virtualServers(ctx)
		// A kernel that counted otherwise must not end all listing: the last one needs no count.
		if err == nil && slices.Equal(before, now) && unique(now) && (try == dumpTries-1 || k.asCounted(now)) {
			return now, nil
		}
		before = now
	}
	if err == nil {
		err = netlink.ErrInterrupted
	}
	return nil, listError("virtual servers", err)
}

func (k *IPVS) virtualServers(ctx context.Context) ([]ipvsutil.VirtualServer, error) {
	k.buffer = k.buffer[:0]
	k.buffer.AppendGenericHeader(cmdGetService, ipvsVersion)
	var list []ipvsutil.VirtualServer
	before := ""
	err := k.socket.Dump(ctx, k.request(), func(body []byte) error {
		v, err := decodeVirtualServer(body, before)
		before = v.Scheduler
		list = append(list, v)
		return err
	})
	slices.SortFunc(list, func(a, b ipvsutil.VirtualServer) int { return a.Key.Compare(b.Key) })
	return list, err
}

// asCounted reports that the list has as many servers of IPv4 as the kernel counts, or
// that it does not count them.
func (k *IPVS) asCounted(list []ipvsutil.VirtualServer) bool {
	count, err := k.countIPv4()
	for _, v := range list {
		if !v.Key.IsIPv6() {
			count--
		}
	}
	return err != nil || count == 0
}

// unique reports that no key is there twice in the sorted list.
func unique(list []ipvsutil.VirtualServer) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1].Key == list[i].Key {
			return false
		}
	}
	return true
}

// RealServers implements ipvsutil.IPVS; the list is sorted by address. It is read
// again when a real server is there twice. A real server that another program's
// change hid between two parts of a long list is not noticed: reading all twice
// would double the cost of every refresh for it.
func (k *IPVS) RealServers(ctx context.Context, key ipvsutil.Key) ([]ipvsutil.RealServerState, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	object := "real servers of " + key.String()
	if err := key.Check(); err != nil {
		return nil, listError(object, err)
	}
	for range dumpTries {
		list, err := k.realServers(ctx, key)
		if err != nil {
			return nil, listError(object, err)
		}
		before := len(list)
		list = slices.CompactFunc(list, func(a, b ipvsutil.RealServerState) bool { return a.Addr == b.Addr })
		if len(list) == before {
			return list, nil
		}
	}
	return nil, listError(object, netlink.ErrInterrupted)
}

func (k *IPVS) realServers(ctx context.Context, key ipvsutil.Key) ([]ipvsutil.RealServerState, error) {
	k.buffer = k.buffer[:0]
	appendKey(&k.buffer, cmdGetDest, key)
	var list []ipvsutil.RealServerState
	err := k.small.Dump(ctx, k.request(), func(body []byte) error {
		r, err := decodeRealServer(body, key)
		list = append(list, r)
		return err
	})
	slices.SortFunc(list, func(a, b ipvsutil.RealServerState) int { return a.Addr.Compare(b.Addr) })
	return list, err
}

// request has the buffer as its body.
func (k *IPVS) request() netlink.Request {
	return netlink.Request{Type: k.family, Body: k.buffer}
}

// listError names what was listed.
func listError(object string, err error) error {
	return &ipvsutil.OpError{Op: "list", Object: object, Err: outcome(err)}
}
