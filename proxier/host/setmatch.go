package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// setMatchRevision is the revision of iptables' match "set" that is asked for: the
// first one, which all kernels still have.
const setMatchRevision = 0

// probeSetMatch asks the kernel for the iptables match "set" as iptables itself
// does: the legacy back end by a socket option, the nft one over netlink. One that
// knows it is enough; both load the module when the kernel has it.
func probeSetMatch(context.Context) error {
	legacy := legacyMatch("set", setMatchRevision)
	if legacy == nil {
		return nil
	}
	nft := nftMatch("set", setMatchRevision)
	if nft == nil {
		return nil
	}
	return fmt.Errorf("match set unknown to iptables (nft: %w; legacy: %w)", nft, legacy)
}

// legacyMatch is IPT_SO_GET_REVISION_MATCH (include/uapi/linux/netfilter_ipv4/ip_tables.h).
func legacyMatch(name string, revision uint8) error {
	const getRevisionMatch = 66
	var query struct { // struct xt_get_revision
		name     [29]byte
		revision uint8
	}
	copy(query.name[:len(query.name)-1], name)
	query.revision = revision
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	size := uint32(unsafe.Sizeof(query))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_IP, getRevisionMatch,
		uintptr(unsafe.Pointer(&query)), uintptr(unsafe.Pointer(&size)), 0)
	runtime.KeepAlive(&query)
	if errno != 0 {
		return errno
	}
	return nil
}

// nftMatch is NFNL_MSG_COMPAT_GET (include/uapi/linux/netfilter/nf_tables_compat.h).
func nftMatch(name string, revision uint32) error {
	const (
		subsystem     = 11 // NFNL_SUBSYS_NFT_COMPAT
		attributeName = 1
		attributeRev  = 2
		attributeType = 3 // 0 for a match, 1 for a target
	)
	request := nl.NewNetlinkRequest(subsystem<<8, unix.NLM_F_ACK)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET, Version: nl.NFNETLINK_V0})
	request.AddData(nl.NewRtAttr(attributeName, nl.ZeroTerminated(name)))
	request.AddData(nl.NewRtAttr(attributeRev, binary.BigEndian.AppendUint32(nil, revision)))
	request.AddData(nl.NewRtAttr(attributeType, binary.BigEndian.AppendUint32(nil, 0)))
	_, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if errors.Is(err, unix.EINVAL) {
		err = fmt.Errorf("kernel without nft_compat: %w", err)
	}
	return err
}
