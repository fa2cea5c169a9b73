package kernel

import (
	"context"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// getInfo is IP_VS_SO_GET_INFO of include/uapi/linux/ip_vs.h.
const getInfo = 64 + 1024 + 64 + 1

// CountIPv4 returns how many virtual servers of IPv4 there are, with those of firewall
// marks, whoever made them. It costs the same however many there are: the older
// interface of IPVS counts them, which knows no IPv6.
func (k *IPVS) CountIPv4(context.Context) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.countIPv4()
}

func (k *IPVS) countIPv4() (int, error) {
	var info [3]uint32 // version, size of the table of connections, servers
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(k.counter), unix.SOL_IP, getInfo,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("count virtual servers: %w", errno)
	}
	return int(info[2]), nil
}
