package kernel

import (
	"encoding/binary"
	"math"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// appendOp appends the body of the request for op, which has passed its Check.
func appendOp(a *netlink.Attributes, op ipvsutil.Op) {
	key := op.Server.Key
	switch op.Verb {
	case ipvsutil.CreateVirtualServer:
		appendVirtualServer(a, cmdNewService, op.Server)
	case ipvsutil.UpdateVirtualServer:
		appendVirtualServer(a, cmdSetService, op.Server)
	case ipvsutil.DeleteVirtualServer:
		appendKey(a, cmdDelService, key)
	case ipvsutil.CreateRealServer:
		appendRealServer(a, cmdNewDest, key, op.Real)
	case ipvsutil.UpdateRealServer:
		appendRealServer(a, cmdSetDest, key, op.Real)
	case ipvsutil.DeleteRealServer:
		a.AppendGenericHeader(cmdDelDest, ipvsVersion)
		appendServerKey(a, key)
		mark := a.Nest(attrDest)
		appendRealKey(a, op.Real.Addr)
		a.End(mark)
	}
}

// appendKey appends a request that needs no more than the server's name.
func appendKey(a *netlink.Attributes, command uint8, key ipvsutil.Key) {
	a.AppendGenericHeader(command, ipvsVersion)
	appendServerKey(a, key)
}

func appendServerKey(a *netlink.Attributes, key ipvsutil.Key) {
	mark := a.Nest(attrService)
	appendKeyFields(a, key)
	a.End(mark)
}

func appendKeyFields(a *netlink.Attributes, key ipvsutil.Key) {
	a.U16(svcFamily, family(key.Addr.Addr()))
	if key.Mark != 0 {
		a.U32(svcMark, key.Mark)
		return
	}
	a.U16(svcProtocol, uint16(key.Protocol))
	appendAddr(a, svcAddr, key.Addr.Addr())
	a.U16BE(svcPort, key.Addr.Port())
}

// appendVirtualServer appends all fields: the kernel wants them all, also for an
// update. Persistence without netmask would put all clients into one entry.
func appendVirtualServer(a *netlink.Attributes, command uint8, v ipvsutil.VirtualServer) {
	a.AppendGenericHeader(command, ipvsVersion)
	mark := a.Nest(attrService)
	appendKeyFields(a, v.Key)
	a.String(svcScheduler, v.Scheduler)
	flags := uint32(v.Flags)
	if v.Persistence != 0 {
		flags |= flagPersistent
	}
	var field [8]byte // struct ip_vs_flags: the flags, and which of them count: all
	binary.NativeEndian.PutUint32(field[:4], flags)
	binary.NativeEndian.PutUint32(field[4:], math.MaxUint32)
	a.Bytes(svcFlags, field[:])
	a.U32(svcTimeout, v.Persistence)
	a.U32(svcNetmask, netmask(v.Key))
	a.End(mark)
}

func appendRealServer(a *netlink.Attributes, command uint8, key ipvsutil.Key, r ipvsutil.RealServer) {
	a.AppendGenericHeader(command, ipvsVersion)
	appendServerKey(a, key)
	mark := a.Nest(attrDest)
	appendRealKey(a, r.Addr)
	a.U32(destForwarding, forwardingMasquerade)
	a.U32(destWeight, r.Weight)
	a.U32(destUpper, r.Drained)
	a.U32(destLower, 0)
	a.End(mark)
}

// appendRealKey names the family too: without it the kernel would read the address
// in the family of the virtual server.
func appendRealKey(a *netlink.Attributes, addr netip.AddrPort) {
	appendAddr(a, destAddr, addr.Addr())
	a.U16BE(destPort, addr.Port())
	a.U16(destFamily, family(addr.Addr()))
}

func appendAddr(a *netlink.Attributes, kind uint16, addr netip.Addr) {
	var field [addrSize]byte
	if addr.Is4() {
		four := addr.As4()
		copy(field[:], four[:])
	} else {
		field = addr.As16()
	}
	a.Bytes(kind, field[:])
}

func family(addr netip.Addr) uint16 {
	if addr.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// netmask is the whole address: for IPv4 a mask, for IPv6 a length.
func netmask(key ipvsutil.Key) uint32 {
	if key.IsIPv6() {
		return 128
	}
	return math.MaxUint32
}
