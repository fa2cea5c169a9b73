package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"time"

	vnetlink "github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// listTries is how often a listing is tried that changes interrupt.
const listTries = 5

// Node is the network namespace that the proxy serves, as far as its own addresses
// go. It may be used by several goroutines.
type Node struct {
	space  netns.NsHandle // to subscribe again from any thread
	handle *vnetlink.Handle
	socket *netlink.Socket // for the list of all addresses
	// unbound has capacity one, see went.
	unbound chan []netip.Addr
}

// OpenNode opens the network namespace of the calling thread.
func OpenNode() (*Node, error) {
	space, err := netns.Get()
	if err != nil {
		return nil, fmt.Errorf("network namespace of the node: %w", err)
	}
	handle, err := vnetlink.NewHandle(unix.NETLINK_ROUTE)
	if err == nil {
		err = handle.SetSocketTimeout(10 * time.Second)
	}
	if err != nil {
		_ = space.Close()
		return nil, fmt.Errorf("netlink socket for the node's addresses: %w", err)
	}
	socket, err := netlink.Open(unix.NETLINK_ROUTE)
	if err != nil {
		handle.Close()
		_ = space.Close()
		return nil, fmt.Errorf("netlink socket for the node's addresses: %w", err)
	}
	return &Node{space: space, handle: handle, socket: socket, unbound: make(chan []netip.Addr, 1)}, nil
}

// Close ends the use of the namespace. A Watch that is under way goes on until its
// context ends, but does not recover from errors any more.
func (n *Node) Close() error {
	n.handle.Close()
	return errors.Join(n.socket.Close(), n.space.Close())
}

// subscribe opens a socket that gets the messages of the groups. Only a thread in
// another namespace has to change there, which needs more privilege (CAP_SYS_ADMIN).
func (n *Node) subscribe(groups ...uint) (*nl.NetlinkSocket, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err != nil {
		return nil, err
	}
	defer func() { _ = here.Close() }()
	if here.Equal(n.space) {
		return nl.Subscribe(unix.NETLINK_ROUTE, groups...)
	}
	return nl.SubscribeAt(n.space, here, unix.NETLINK_ROUTE, groups...)
}

// Addresses lists the addresses of all devices but ipvsutil.Device, sorted, each
// once: also loopback and IPv6 link-local ones (without zone), which
// NodePortAddresses tells apart. After an error there is no list at all, so that
// the caller keeps the last good one.
func (n *Node) Addresses(ctx context.Context) ([]netip.Addr, error) {
	var err error
	for range listTries {
		if err = ctx.Err(); err != nil {
			break
		}
		var addrs []netip.Addr
		if addrs, err = n.list(ctx); err == nil {
			return addrs, nil
		}
		if !errors.Is(err, netlink.ErrInterrupted) && !errors.Is(err, errDeviceMoved) {
			break
		}
	}
	return nil, fmt.Errorf("list the node's addresses: %w", err)
}

// errDeviceMoved: the device of the bound addresses came or went during a listing,
// so they may have been taken for addresses of the node.
var errDeviceMoved = errors.New("device " + ipvsutil.Device + " came or went")

// list goes through all addresses, of which most are on the device of the bound ones: a Pod
// that comes or goes is reason enough to do so, and no more is read of those than whose they
// are.
func (n *Node) list(ctx context.Context) ([]netip.Addr, error) {
	own, err := n.ownDevice()
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	all := netlink.Request{Type: unix.RTM_GETADDR, Body: make([]byte, unix.SizeofIfAddrmsg)}
	err = n.socket.Dump(ctx, all, func(body []byte) error {
		if len(body) < unix.SizeofIfAddrmsg || int(nl.DeserializeIfAddrmsg(body).Index) == own {
			return nil
		}
		addr, err := netlink.InterfaceAddress(body)
		if addr.IsValid() {
			addrs = append(addrs, addr.Unmap())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if again, err := n.ownDevice(); err != nil || again != own {
		return nil, errors.Join(err, errDeviceMoved)
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs), nil
}

// ownDevice returns the index of the device of the bound addresses, zero when it is missing.
func (n *Node) ownDevice() (int, error) {
	link, err := n.handle.LinkByName(ipvsutil.Device)
	if errors.As(err, new(vnetlink.LinkNotFoundError)) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return link.Attrs().Index, nil
}
