package kernel

import (
	"context"
	"errors"
	"fmt"

	vnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
)

// deviceIndex looks the device up by name each time: another hand may have deleted
// it, and a new one has another index. It gives ipvsutil.ErrNoDevice when missing.
func (a *Addresses) deviceIndex(ctx context.Context) (int, error) {
	link, err := a.device(ctx)
	if err != nil {
		return 0, err
	}
	return link.Attrs().Index, nil
}

func (a *Addresses) device(ctx context.Context) (vnetlink.Link, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var link vnetlink.Link
	err := retryInterrupted(func() (err error) {
		link, err = a.handle.LinkByName(ipvsutil.Device)
		return err
	})
	if errors.As(err, new(vnetlink.LinkNotFoundError)) {
		return nil, ipvsutil.ErrNoDevice
	}
	return link, err
}

// ensureDevice makes the device when it is missing. One that is there is used as it
// is, whatever its kind and state, as kube-proxy does.
func (a *Addresses) ensureDevice(ctx context.Context) error {
	_, err := a.deviceIndex(ctx)
	if errors.Is(err, ipvsutil.ErrNoDevice) {
		attrs := vnetlink.NewLinkAttrs()
		attrs.Name = ipvsutil.Device
		err = a.handle.LinkAdd(&vnetlink.Dummy{LinkAttrs: attrs})
		if errors.Is(err, unix.EEXIST) { // somebody was faster
			err = nil
		}
		if errors.Is(err, unix.EOPNOTSUPP) {
			err = fmt.Errorf("%w: %w", ipvsutil.ErrNoDummy, err)
		}
	}
	if err != nil {
		return &ipvsutil.OpError{Op: "create device", Object: ipvsutil.Device, Err: err}
	}
	return nil
}

// RemoveDevice deletes the device with all that is bound to it: one request,
// however many addresses. A device of that name which is no dummy is not ours and
// gives an error; a missing one is none.
func (a *Addresses) RemoveDevice(ctx context.Context) error {
	link, err := a.device(ctx)
	if errors.Is(err, ipvsutil.ErrNoDevice) {
		return nil
	}
	if err == nil && link.Type() != "dummy" {
		err = fmt.Errorf("it is of kind %s, not dummy, and stays", link.Type())
	}
	if err == nil {
		err = a.handle.LinkDel(link)
		if errors.Is(err, unix.ENODEV) {
			err = nil
		}
	}
	if err != nil {
		return &ipvsutil.OpError{Op: "delete device", Object: ipvsutil.Device, Err: err}
	}
	return nil
}

// retryInterrupted repeats a listing that changes interrupted, dumpTries times at most.
func retryInterrupted(list func() error) error {
	var err error
	for range dumpTries {
		if err = list(); !errors.Is(err, vnetlink.ErrDumpInterrupted) {
			break
		}
	}
	return err
}
