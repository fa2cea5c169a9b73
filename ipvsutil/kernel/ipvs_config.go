package kernel

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// probeMark is the mark of the server that HasScheduler makes and deletes. Marks
// that have it whole are not to be expected: it is "ipvs" in ASCII.
const probeMark = 0x69707673

// HasScheduler tells whether the kernel has the scheduler, and loads its module
// where it can. A mark server with it is made and deleted at once, in one batch
// that the kernel works off whole even if this process dies; no packet is touched.
func (k *IPVS) HasScheduler(ctx context.Context, name string) (bool, error) {
	server := ipvsutil.VirtualServer{Key: ipvsutil.MarkKey(probeMark, false), Scheduler: name}
	errs := k.Do(ctx, []ipvsutil.Op{
		{Verb: ipvsutil.DeleteVirtualServer, Server: server}, // if it was ever left
		{Verb: ipvsutil.CreateVirtualServer, Server: server},
		{Verb: ipvsutil.DeleteVirtualServer, Server: server},
	})
	if errs == nil {
		return true, nil
	}
	if errors.Is(errs[1], ipvsutil.ErrUnknownScheduler) {
		return false, nil
	}
	if err := errors.Join(errs[1:]...); err != nil {
		return false, fmt.Errorf("probe scheduler %s: %w", name, err)
	}
	return true, nil
}

// Timeouts reads IPVS's idle limits of connections.
func (k *IPVS) Timeouts(ctx context.Context) (ipvsutil.Timeouts, error) {
	var t ipvsutil.Timeouts
	err := k.ask(ctx, cmdGetConfig, func(a netlink.Attribute) (err error) {
		switch a.Type {
		case attrTimeoutTCP:
			t.TCP, err = a.U32()
		case attrTimeoutTCPFin:
			t.TCPFin, err = a.U32()
		case attrTimeoutUDP:
			t.UDP, err = a.U32()
		}
		return err
	})
	if err != nil {
		return t, &ipvsutil.OpError{Op: "read", Object: "IPVS timeouts", Err: outcome(err)}
	}
	return t, nil
}

// SetTimeouts changes IPVS's idle limits of connections; zero leaves one as it is.
// More than ipvsutil.MaxTimeout gives EINVAL.
func (k *IPVS) SetTimeouts(ctx context.Context, t ipvsutil.Timeouts) error {
	var body netlink.Attributes
	body.AppendGenericHeader(cmdSetConfig, ipvsVersion)
	for i, seconds := range []uint32{t.TCP, t.TCPFin, t.UDP} {
		if seconds > ipvsutil.MaxTimeout {
			return &ipvsutil.OpError{Op: "set", Object: "IPVS timeouts", Err: unix.EINVAL}
		}
		if seconds != 0 {
			body.U32(uint16(attrTimeoutTCP+i), seconds)
		}
	}
	if _, err := k.socket.Do(ctx, netlink.Request{Type: k.family, Body: body}); err != nil {
		return &ipvsutil.OpError{Op: "set", Object: "IPVS timeouts", Err: outcome(err)}
	}
	return nil
}

// Version is the version of IPVS, such as "1.2.1".
func (k *IPVS) Version(ctx context.Context) (string, error) {
	var version uint32
	err := k.ask(ctx, cmdGetInfo, func(a netlink.Attribute) (err error) {
		if a.Type == infoVersion {
			version, err = a.U32()
		}
		return err
	})
	if err != nil {
		return "", &ipvsutil.OpError{Op: "read", Object: "IPVS version", Err: outcome(err)}
	}
	return fmt.Sprintf("%d.%d.%d", version>>16&0xff, version>>8&0xff, version&0xff), nil
}

// ask sends a command without attributes and hands those of the one reply to read.
func (k *IPVS) ask(ctx context.Context, command uint8, read func(netlink.Attribute) error) error {
	var body netlink.Attributes
	body.AppendGenericHeader(command, ipvsVersion)
	replies, err := k.socket.Do(ctx, netlink.Request{Type: k.family, Body: body})
	if err != nil {
		return err
	}
	if len(replies) != 1 || len(replies[0]) < netlink.GenericHeader {
		return fmt.Errorf("%d replies: %w", len(replies), netlink.ErrTruncated)
	}
	for a, err := range netlink.Parse(replies[0][netlink.GenericHeader:]) {
		if err == nil {
			err = read(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
