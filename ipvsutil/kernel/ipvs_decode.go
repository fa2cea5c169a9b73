package kernel

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// nested returns the data of the attribute of that kind behind the generic header,
// nil when there is none.
func nested(body []byte, kind uint16) ([]byte, error) {
	if len(body) < netlink.GenericHeader {
		return nil, netlink.ErrTruncated
	}
	for a, err := range netlink.Parse(body[netlink.GenericHeader:]) {
		if err != nil {
			return nil, err
		}
		if a.Type == kind {
			return a.Data, nil
		}
	}
	return nil, fmt.Errorf("attribute %d is missing: %w", kind, netlink.ErrTruncated)
}

// serverFields are the attributes of a virtual server before they are put together:
// what the address means depends on the family, which may come later.
type serverFields struct {
	family, protocol, port uint16
	addr                   []byte
	mark, flags            uint32
	timeout, netmask       uint32
	scheduler, engine      []byte
}

// decodeVirtualServer reads one reply to cmdGetService. The scheduler of the
// server before it is used again when it has the same name.
func decodeVirtualServer(body []byte, before string) (ipvsutil.VirtualServer, error) {
	data, err := nested(body, attrService)
	if err != nil {
		return ipvsutil.VirtualServer{}, err
	}
	var f serverFields
	for a, err := range netlink.Parse(data) {
		if err == nil {
			err = f.set(a)
		}
		if err != nil {
			return ipvsutil.VirtualServer{}, err
		}
	}
	return f.server(before)
}

func (f *serverFields) set(a netlink.Attribute) (err error) {
	switch a.Type {
	case svcFamily:
		f.family, err = a.U16()
	case svcProtocol:
		f.protocol, err = a.U16()
	case svcAddr:
		f.addr = a.Data
	case svcPort:
		f.port, err = a.U16BE()
	case svcMark:
		f.mark, err = a.U32()
	case svcScheduler:
		f.scheduler = text(a.Data)
	case svcFlags:
		f.flags, err = a.U32() // the mask behind it says nothing in a reply
	case svcTimeout:
		f.timeout, err = a.U32()
	case svcNetmask:
		f.netmask, err = a.U32()
	case svcEngine:
		f.engine = text(a.Data)
	}
	return err
}

func (f *serverFields) server(before string) (ipvsutil.VirtualServer, error) {
	v := ipvsutil.VirtualServer{Scheduler: before, Flags: ipvsutil.Flags(f.flags &^ (flagPersistent | flagHashed))}
	if v.Scheduler != string(f.scheduler) {
		v.Scheduler = string(f.scheduler)
	}
	if f.family != unix.AF_INET && f.family != unix.AF_INET6 {
		return v, fmt.Errorf("virtual server of family %d: %w", f.family, unix.EAFNOSUPPORT)
	}
	if f.mark != 0 {
		v.Key = ipvsutil.MarkKey(f.mark, f.family == unix.AF_INET6)
	} else {
		addr, err := address(f.family, f.addr)
		if err != nil {
			return v, err
		}
		v.Key = ipvsutil.Key{Addr: netip.AddrPortFrom(addr, f.port), Protocol: ipvsutil.Protocol(f.protocol)}
	}
	if err := v.Key.Check(); err != nil {
		return v, err
	}
	v.Foreign = len(f.engine) > 0
	if f.flags&flagPersistent != 0 {
		v.Persistence = f.timeout
		v.Foreign = v.Foreign || f.timeout == 0 || f.netmask != netmask(v.Key)
	}
	return v, nil
}

// decodeRealServer reads one reply to cmdGetDest. Kernels before 3.18 name no
// family: there it is that of the virtual server, whatever the address looks like.
func decodeRealServer(body []byte, key ipvsutil.Key) (ipvsutil.RealServerState, error) {
	var state ipvsutil.RealServerState
	data, err := nested(body, attrDest)
	if err != nil {
		return state, err
	}
	af, addr := family(key.Addr.Addr()), []byte(nil)
	var port uint16
	var forwarding, upper, lower uint32
	for a, err := range netlink.Parse(data) {
		if err != nil {
			return state, err
		}
		switch a.Type {
		case destAddr:
			addr = a.Data
		case destPort:
			port, err = a.U16BE()
		case destFamily:
			af, err = a.U16()
		case destForwarding:
			forwarding, err = a.U32()
		case destWeight:
			state.Weight, err = a.U32()
		case destUpper:
			upper, err = a.U32()
		case destLower:
			lower, err = a.U32()
		case destActive:
			state.Connections.Active, err = a.U32()
		case destInactive:
			state.Connections.Inactive, err = a.U32()
		case destPersistent:
			state.Connections.Persistent, err = a.U32()
		}
		if err != nil {
			return state, err
		}
	}
	state.Foreign = forwarding&forwardingMask != forwardingMasquerade
	state.Thresholds(upper, lower)
	ip, err := address(af, addr)
	state.Addr = netip.AddrPortFrom(ip, port)
	return state, err
}

// address reads the address field of a family; it may be longer than the address.
func address(family uint16, field []byte) (netip.Addr, error) {
	switch {
	case family == unix.AF_INET && len(field) >= 4:
		return netip.AddrFrom4([4]byte(field)), nil
	case family == unix.AF_INET6 && len(field) >= 16:
		return netip.AddrFrom16([16]byte(field)), nil
	case family != unix.AF_INET && family != unix.AF_INET6:
		return netip.Addr{}, fmt.Errorf("address of family %d: %w", family, unix.EAFNOSUPPORT)
	}
	return netip.Addr{}, fmt.Errorf("address of %d bytes: %w", len(field), netlink.ErrTruncated)
}

// text is the field up to its zero byte.
func text(field []byte) []byte {
	for i, b := range field {
		if b == 0 {
			return field[:i]
		}
	}
	return field
}
