package netfilter

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// Messages and attributes of conntrack (include/uapi/linux/netfilter/nfnetlink.h and
// nfnetlink_conntrack.h).
const (
	subsystemConntrack = 1 << 8
	messageGet         = subsystemConntrack | 1
	messageDelete      = subsystemConntrack | 2

	attrTupleOriginal = 1
	attrTupleReply    = 2
	attrID            = 12
	attrZone          = 18
	attrFilter        = 25

	attrTupleIP       = 1
	attrTupleProtocol = 2
	attrTupleZone     = 3

	attrIPv4Source      = 1
	attrIPv4Destination = 2
	attrIPv6Source      = 3
	attrIPv6Destination = 4

	attrProtocolNumber  = 1
	attrSourcePort      = 2
	attrDestinationPort = 3

	// attrFilterOriginal holds the bits that say which parts of the original tuple
	// count: 1<<1 the destination, 1<<3 the protocol, 1<<5 the destination port.
	attrFilterOriginal = 1
	filterDestination  = 1 << 1
	filterProtocol     = 1 << 3
	filterPort         = 1 << 5
)

// header is struct nfgenmsg: the family, a version and a resource number of zero.
func header(ipv6 bool) netlink.Attributes {
	family := byte(unix.AF_INET)
	if ipv6 {
		family = unix.AF_INET6
	}
	return netlink.Attributes{family, unix.NFNETLINK_V0, 0, 0}
}

// headerLength is the size of struct nfgenmsg.
const headerLength = 4

// dumpRequest asks for the flows of a family and protocol, and of a frontend when
// there is but one. Kernels before 5.8 pass over the filter and list all. An IPv6
// address is no part of it: the kernel compares that the wrong way round (seen on
// 6.18, ctnetlink_filter_match_tuple) and lists all flows but those.
func dumpRequest(key searchKey, s search) netlink.Request {
	body := header(key.ipv6)
	flags := uint32(filterProtocol)
	var port uint16
	tuple := body.Nest(attrTupleOriginal)
	if len(s) == 1 {
		for frontend := range s {
			port = frontend.Port()
			flags |= filterPort
			if !key.ipv6 {
				flags |= filterDestination
				appendDestination(&body, frontend.Addr())
			}
		}
	}
	appendProtocol(&body, key.protocol, port)
	body.End(tuple)
	filter := body.Nest(attrFilter)
	body.U32(attrFilterOriginal, flags)
	body.End(filter)
	return netlink.Request{Type: messageGet, Body: body}
}

func appendDestination(body *netlink.Attributes, addr netip.Addr) {
	nest := body.Nest(attrTupleIP)
	body.Bytes(attrIPv4Destination, addr.AsSlice())
	body.End(nest)
}

func appendProtocol(body *netlink.Attributes, protocol ipvsutil.Protocol, port uint16) {
	nest := body.Nest(attrTupleProtocol)
	body.U8(attrProtocolNumber, uint8(protocol))
	if port != 0 {
		body.U16BE(attrDestinationPort, port)
	}
	body.End(nest)
}

// flow is one entry of the table.
type flow struct {
	protocol ipvsutil.Protocol
	frontend netip.AddrPort // the original destination
	real     netip.AddrPort // where answers come from
	original []byte         // the original tuple as the kernel sent it
	id       []byte         // tells it from a later flow of the same tuple
}

// deletion is the request that deletes the flow.
func (f flow) deletion(ipv6 bool) netlink.Request {
	body := header(ipv6)
	body.Bytes(attrTupleOriginal|netlink.Nested, f.original)
	if f.id != nil {
		body.Bytes(attrID, f.id)
	}
	return netlink.Request{Type: messageDelete, Body: body}
}

// parseFlow reads an entry; ok is false when it belongs to a zone. The flow aliases
// body, its deletion does not.
func parseFlow(body []byte) (f flow, ok bool, err error) {
	if len(body) < headerLength {
		return flow{}, false, netlink.ErrTruncated
	}
	for a, err := range netlink.Parse(body[headerLength:]) {
		if err != nil {
			return flow{}, false, err
		}
		switch a.Type {
		case attrTupleOriginal:
			t, zone, err := parseTuple(a.Data)
			if err != nil || zone {
				return flow{}, false, err
			}
			f.protocol, f.frontend, f.original = t.protocol, t.destination, a.Data
		case attrTupleReply:
			t, zone, err := parseTuple(a.Data)
			if err != nil || zone {
				return flow{}, false, err
			}
			f.real = t.source
		case attrID:
			f.id = a.Data
		case attrZone:
			return flow{}, false, nil
		}
	}
	return f, f.original != nil, nil
}

// tuple is one direction of a flow.
type tuple struct {
	protocol            ipvsutil.Protocol
	source, destination netip.AddrPort
}

// parseTuple reads a direction; zone says that it belongs to one.
func parseTuple(data []byte) (t tuple, zone bool, err error) {
	var source, destination netip.Addr
	var sourcePort, destinationPort uint16
	for a, err := range netlink.Parse(data) {
		if err != nil {
			return tuple{}, false, err
		}
		switch a.Type {
		case attrTupleIP:
			source, destination, err = parseAddresses(a.Data)
		case attrTupleProtocol:
			t.protocol, sourcePort, destinationPort, err = parsePorts(a.Data)
		case attrTupleZone:
			zone = true
		}
		if err != nil {
			return tuple{}, false, err
		}
	}
	t.source = netip.AddrPortFrom(source, sourcePort)
	t.destination = netip.AddrPortFrom(destination, destinationPort)
	return t, zone, nil
}

func parseAddresses(data []byte) (source, destination netip.Addr, err error) {
	for a, err := range netlink.Parse(data) {
		if err != nil {
			return netip.Addr{}, netip.Addr{}, err
		}
		addr, ok := netip.AddrFromSlice(a.Data)
		if !ok {
			return netip.Addr{}, netip.Addr{}, netlink.ErrTruncated
		}
		switch a.Type {
		case attrIPv4Source, attrIPv6Source:
			source = addr
		case attrIPv4Destination, attrIPv6Destination:
			destination = addr
		}
	}
	return source, destination, nil
}

func parsePorts(data []byte) (protocol ipvsutil.Protocol, source, destination uint16, err error) {
	for a, err := range netlink.Parse(data) {
		if err != nil {
			return 0, 0, 0, err
		}
		switch a.Type {
		case attrProtocolNumber:
			var number uint8
			number, err = a.U8()
			protocol = ipvsutil.Protocol(number)
		case attrSourcePort:
			source, err = a.U16BE()
		case attrDestinationPort:
			destination, err = a.U16BE()
		}
		if err != nil {
			return 0, 0, 0, err
		}
	}
	return protocol, source, destination, nil
}
