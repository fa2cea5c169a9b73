package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// familyOf returns the address family number of addr.
func familyOf(addr netip.Addr) uint8 {
	if addr.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// addressHeader is struct ifaddrmsg (include/uapi/linux/if_addr.h).
func addressHeader(family, bits uint8, index int) []byte {
	header := make([]byte, unix.SizeofIfAddrmsg, 64)
	header[0] = family
	header[1] = bits
	binary.NativeEndian.PutUint32(header[4:], uint32(index))
	return header
}

// addressRequest encodes RTM_NEWADDR (strict: what exists is an error) or
// RTM_DELADDR for the full-length address on the device.
func addressRequest(kind uint16, index int, addr netip.Addr) netlink.Request {
	body := netlink.Attributes(addressHeader(familyOf(addr), uint8(addr.BitLen()), index))
	body.Bytes(unix.IFA_LOCAL, addr.AsSlice())
	body.Bytes(unix.IFA_ADDRESS, addr.AsSlice())
	r := netlink.Request{Type: kind, Body: body}
	if kind == unix.RTM_NEWADDR {
		r.Flags = unix.NLM_F_CREATE | unix.NLM_F_EXCL
		if addr.Is6() {
			// Duplicate detection is work for nothing on this device, and a second
			// route in main makes every removal slower.
			body.U32(unix.IFA_FLAGS, unix.IFA_F_NODAD|unix.IFA_F_NOPREFIXROUTE)
			r.Body = body
		}
	}
	return r
}

// addressDump encodes the request to list the addresses of one family on a device.
func addressDump(family uint8, index int) netlink.Request {
	return netlink.Request{Type: unix.RTM_GETADDR, Body: addressHeader(family, 0, index)}
}

// parseAddress decodes one RTM_NEWADDR of a listing. It is not ok when it is of
// another family or device (old kernels list all, and a family they lack gives the
// others), not of full length, or none that a Service can have.
func parseAddress(body []byte, family uint8, index int) (netip.Addr, bool, error) {
	if len(body) < unix.SizeofIfAddrmsg {
		return netip.Addr{}, false, fmt.Errorf("address message of %d bytes: %w", len(body), netlink.ErrTruncated)
	}
	if body[0] != family || binary.NativeEndian.Uint32(body[4:]) != uint32(index) {
		return netip.Addr{}, false, nil
	}
	address, err := netlink.InterfaceAddress(body)
	if err != nil {
		return netip.Addr{}, false, err
	}
	ok := int(body[1]) == address.BitLen() && ipvsutil.CheckAddress(address) == nil
	return address, ok, nil
}
