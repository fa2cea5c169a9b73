package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// The states in which a socket has a peer that still counts on it (include/net/tcp_states.h):
// SYN-SENT, ESTABLISHED, FIN-WAIT-1, CLOSE-WAIT, LAST-ACK; one of UDP is established once
// it is connected.
const (
	connectedTCP = 1<<2 | 1<<1 | 1<<4 | 1<<8 | 1<<9
	connectedUDP = 1 << 1
)

// Layout of inet_diag_req_v2 and inet_diag_msg (include/uapi/linux/inet_diag.h).
const (
	diagRequest = 56
	diagSource  = 8 // offset of the source's address in a reply
	diagReply   = 72
)

// InUse implements ipvsutil.Addresses. It lists the sockets of each family and protocol once, however
// many addresses are asked for; those of IPv6 may have an address of IPv4.
func (a *Addresses) InUse(ctx context.Context, addrs []netip.Addr) ([]netip.Addr, error) {
	var used []netip.Addr
	if len(addrs) == 0 {
		return nil, nil
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		each := func(source netip.Addr) {
			if slices.Contains(addrs, source) && !slices.Contains(used, source) {
				used = append(used, source)
			}
		}
		err := a.sources(ctx, family, unix.IPPROTO_TCP, connectedTCP, each)
		if err == nil {
			err = a.sources(ctx, family, unix.IPPROTO_UDP, connectedUDP, each)
			if errors.Is(err, unix.ENOENT) {
				err = nil // no module for those of UDP
			}
		}
		if err != nil {
			return nil, &ipvsutil.OpError{Op: "list", Object: "connections of processes", Err: err}
		}
	}
	return used, nil
}

// sources hands over the own address of each socket of a family and protocol in one of the
// states.
func (a *Addresses) sources(ctx context.Context, family, protocol uint8, states uint32, each func(netip.Addr)) error {
	request := netlink.Request{Type: unix.SOCK_DIAG_BY_FAMILY, Body: make([]byte, diagRequest)}
	request.Body[0], request.Body[1] = family, protocol
	binary.NativeEndian.PutUint32(request.Body[4:], states)
	err := a.sockets.Dump(ctx, request, func(body []byte) error {
		if len(body) < diagReply {
			return fmt.Errorf("socket of %d bytes: %w", len(body), netlink.ErrTruncated)
		}
		if family == unix.AF_INET {
			each(netip.AddrFrom4([4]byte(body[diagSource:])))
		} else {
			each(netip.AddrFrom16([16]byte(body[diagSource:])).Unmap())
		}
		return nil
	})
	if errors.Is(err, netlink.ErrInterrupted) {
		return nil // what came is there; others may come or go at any time
	}
	return err
}
