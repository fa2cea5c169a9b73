package host

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// everything and nothing are how much of a message a filter lets through.
const (
	everything = 0xffffffff
	nothing    = 0
)

// deafTo has the socket not get the messages about addresses that come to the device of
// this index: they are the proxy's own doing and mean nothing here, and binding thousands
// of addresses would wake the process as often. What goes from the device is told. An
// index of zero lets everything through.
func deafTo(fd, index int) error {
	if index == 0 {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	}
	// Offsets are those of nlmsg_type, and of ifa_index after the header; the kernel
	// hands numbers to a filter as if they were in network order.
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 4},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(network16(unix.RTM_NEWADDR)), Jf: 2},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: unix.SizeofNlMsghdr + 4},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: network32(uint32(index)), Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: everything},
		{Code: unix.BPF_RET | unix.BPF_K, K: nothing},
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}

// network32 is the number whose bytes in network order are those of n on this machine.
func network32(n uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], n)
	return binary.BigEndian.Uint32(b[:])
}

func network16(n uint16) uint16 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], n)
	return binary.BigEndian.Uint16(b[:])
}
