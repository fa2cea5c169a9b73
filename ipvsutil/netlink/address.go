package netlink

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// InterfaceAddress reads the host's own address out of the body of an RTM_NEWADDR message
// (include/uapi/linux/if_addr.h): IFA_LOCAL, and where that is missing IFA_ADDRESS, which on a
// point-to-point device is the peer's. It is not valid where there is neither. ErrTruncated:
// the body is no such message.
func InterfaceAddress(body []byte) (netip.Addr, error) {
	if len(body) < unix.SizeofIfAddrmsg {
		return netip.Addr{}, fmt.Errorf("address message of %d bytes: %w", len(body), ErrTruncated)
	}
	var local, address netip.Addr
	for attr, err := range Parse(body[unix.SizeofIfAddrmsg:]) {
		if err != nil {
			return netip.Addr{}, fmt.Errorf("address message: %w", err)
		}
		switch attr.Type {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(attr.Data)
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(attr.Data)
		}
	}
	if local.IsValid() {
		return local, nil
	}
	return address, nil
}
