package ipvsutil

import (
	"fmt"
	"net/netip"
	"syscall"
)

// Limits of what an Op may say.
const (
	// MaxWeight is the highest weight that every reader of IPVS understands.
	MaxWeight = 65535
	// MaxPersistence is 31 days in seconds, ipvsadm's limit. The kernel's own
	// multiplication to ticks overflows beyond 49 days without an error.
	MaxPersistence = 31 * 24 * 60 * 60
	// maxSchedulerName is the longest name the kernel takes (IP_VS_SCHEDNAME_MAXLEN
	// with its zero byte); a longer one cannot exist.
	maxSchedulerName = 15
)

// Check refuses what the kernel would accept and carry out wrong (a real server of
// the other family, any protocol number, port zero, a weight that readers cut off)
// as well as what no kernel can have. The error is syscall.EINVAL with the reason,
// or ErrUnknownScheduler. Deleting is checked least, so that anything that is there
// can be deleted.
func (o Op) Check() error {
	key := o.Server.Key
	switch o.Verb {
	case DeleteVirtualServer:
		return key.check(true)
	case CreateVirtualServer, UpdateVirtualServer:
		if err := key.check(false); err != nil {
			return err
		}
		return o.Server.checkOptions()
	case CreateRealServer, UpdateRealServer, DeleteRealServer:
		if err := key.check(true); err != nil {
			return err
		}
		return o.Real.check(key, o.Verb == DeleteRealServer)
	}
	return invalid("unknown verb")
}

// Check tells whether k names a server at all, one of ours or not.
func (k Key) Check() error { return k.check(true) }

// check does not look at what only a new server needs when it is lenient.
func (k Key) check(lenient bool) error {
	addr := k.Addr.Addr()
	if err := checkServerAddr(addr, lenient); err != nil {
		return err
	}
	switch {
	case k.Mark != 0 && (!addr.IsUnspecified() || k.Addr.Port() != 0 || k.Protocol != 0):
		return invalid("a mark server has no address, port or protocol")
	case k.Mark != 0:
	case k.Protocol == 0:
		return invalid("neither mark nor protocol")
	case lenient:
	case addr.IsUnspecified():
		return invalid("unspecified address")
	case k.Protocol != TCP && k.Protocol != UDP && k.Protocol != SCTP:
		return invalid("protocol is none of tcp, udp, sctp")
	case k.Addr.Port() == 0:
		return invalid("port is zero")
	}
	return nil
}

func (v VirtualServer) checkOptions() error {
	switch {
	case v.Scheduler == "" || len(v.Scheduler) > maxSchedulerName:
		return ErrUnknownScheduler
	case v.Flags&^SchedulerFlags != 0:
		return invalid("flags that are not the scheduler's")
	case v.Persistence > MaxPersistence:
		return invalid("persistence is longer than 31 days")
	}
	return nil
}

func (r RealServer) check(key Key, deleting bool) error {
	addr := r.Addr.Addr()
	if err := checkServerAddr(addr, deleting); err != nil {
		return err
	}
	switch {
	case deleting:
	case addr.Is6() != key.IsIPv6():
		return invalid("real server of the other family")
	case r.Addr.Port() == 0 && key.Mark == 0:
		return invalid("port is zero")
	case r.Weight > MaxWeight:
		return invalid("weight is above 65535")
	case r.Drained != 0 && (r.Weight != 0 || r.Drained < leastDrained):
		return invalid("a drain with a weight, or of long ago")
	}
	return nil
}

// checkServerAddr wants the one form of an address that == can compare. A strange
// server may have the other, which is no reason not to read or delete it.
func checkServerAddr(addr netip.Addr, lenient bool) error {
	switch {
	case !addr.IsValid():
		return invalid("no address")
	case addr.Is4In6() && !lenient:
		return invalid("IPv4 address in IPv6 form")
	case addr.Zone() != "":
		return invalid("address with a zone")
	}
	return nil
}

func invalid(reason string) error { return fmt.Errorf("%w: %s", syscall.EINVAL, reason) }
