package netlink

import "golang.org/x/sys/unix"

// FilterDumps asks the kernel to apply the fields of a dump's request header
// (device, table, protocol) instead of listing everything. Kernels before 4.20
// cannot and say so; their dumps are complete, so that who reads one has to check
// those fields anyway.
func (s *Socket) FilterDumps() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
}
