package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
)

// Event says what may have changed; several can be set at once.
type Event uint8

const (
	// NodeAddresses: an address came to or went from a device other than
	// ipvsutil.Device, or events may have been lost.
	NodeAddresses Event = 1 << iota
	// DeviceGone: ipvsutil.Device was deleted or renamed, and with it all that was bound.
	DeviceGone
	// RuleGone: a policy rule with the priority of the one that captures was deleted.
	RuleGone
	// Missed: events of any kind may have been lost.
	Missed
)

// Has reports whether e contains all of o.
func (e Event) Has(o Event) bool { return e&o == o }

// String returns for example "node addresses, device gone".
func (e Event) String() string {
	var parts []string
	if e.Has(NodeAddresses) {
		parts = append(parts, "node addresses")
	}
	if e.Has(DeviceGone) {
		parts = append(parts, "device gone")
	}
	if e.Has(RuleGone) {
		parts = append(parts, "rule gone")
	}
	if e.Has(Missed) {
		parts = append(parts, "missed")
	}
	return strings.Join(parts, ", ")
}

// watchBuffer is asked for on the kernel's side: room for a few thousand messages,
// because binding thousands of addresses sends as many.
const watchBuffer = 4 << 20

// The wait before subscribing again after an error.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 10 * time.Second
)

// Watch subscribes to changes and returns their events until the context ends, which
// closes the channel. Events that were not taken yet become one, so a slow reader
// is never more than one event behind. What changed before Watch returns is not
// told: list afterwards. Changes of addresses on ipvsutil.Device give no event; those
// that went from it come by Unbound. When
// the subscription breaks it is made anew, and NodeAddresses and Missed are told, because
// changes may have been missed.
func (n *Node) Watch(ctx context.Context) (<-chan Event, error) {
	w := &watcher{node: n, events: make(chan Event, 1)}
	if err := w.subscribe(ctx); err != nil {
		return nil, err
	}
	go w.run(ctx)
	return w.events, nil
}

// watcher is used by one goroutine.
type watcher struct {
	node   *Node
	socket *nl.NetlinkSocket
	stop   func() bool // undoes the closing of socket at the end of the context
	own    int         // index of ipvsutil.Device, zero when it is missing
	events chan Event  // of capacity one, see tell
}

// subscribe opens one socket for links and addresses, so that messages about the
// device and about its addresses come in order; then it looks where the device is.
func (w *watcher) subscribe(ctx context.Context) error {
	socket, err := w.node.subscribe(unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_RULE, rtnlgrpIPv6Rule)
	if err != nil {
		return fmt.Errorf("subscribe to the node's addresses: %w", err)
	}
	if socket.SetReceiveBufferSize(watchBuffer, true) != nil {
		_ = socket.SetReceiveBufferSize(watchBuffer, false) // a smaller one loses more, and says so
	}
	own, err := w.node.ownDevice()
	if err != nil {
		socket.Close()
		return fmt.Errorf("subscribe to the node's addresses: %w", err)
	}
	w.socket, w.stop = socket, context.AfterFunc(ctx, socket.Close)
	w.tell(w.moved(own))
	return nil
}

func (w *watcher) run(ctx context.Context) {
	defer close(w.events)
	wait := firstWait
	for {
		started := time.Now()
		w.receive()
		if w.stop() { // else the end of the context closes it
			w.socket.Close()
		}
		if time.Since(started) > lastWait {
			wait = firstWait
		}
		for again := true; again; again = w.subscribe(ctx) != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			wait = min(2*wait, lastWait)
		}
		w.tell(NodeAddresses | Missed)
	}
}

// receive tells events until the socket fails. A full buffer is no failure: what was
// lost is made good by looking.
func (w *watcher) receive() {
	for {
		messages, from, err := w.socket.Receive()
		if errors.Is(err, unix.ENOBUFS) {
			if own, err := w.node.ownDevice(); err == nil {
				w.tell(w.moved(own))
			}
			w.tell(NodeAddresses | Missed)
			continue
		}
		if err != nil {
			return
		}
		if from.Pid != 0 { // only the kernel is believed
			continue
		}
		var event Event
		for _, m := range messages {
			event |= w.event(m)
		}
		w.tell(event)
	}
}

// event finds out what one message means, and follows the device.
func (w *watcher) event(m syscall.NetlinkMessage) Event {
	if len(m.Data) < unix.SizeofIfAddrmsg {
		return 0
	}
	switch m.Header.Type {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if int(nl.DeserializeIfAddrmsg(m.Data).Index) == w.own {
			if m.Header.Type == unix.RTM_DELADDR {
				w.node.went(m.Data)
			}
			return 0
		}
		return NodeAddresses
	case unix.RTM_DELRULE:
		if priorityOf(m.Data) == ipvsutil.DefaultCaptureRoutes.Priority {
			return RuleGone
		}
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return w.linkEvent(m)
	}
	return 0
}

// linkEvent follows ipvsutil.Device by name and index. Other links give no event:
// when one goes, each of its addresses is told by itself.
func (w *watcher) linkEvent(m syscall.NetlinkMessage) Event {
	// A port that leaves a bridge is told as a deleted link of the bridge family.
	if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] != unix.AF_UNSPEC {
		return 0
	}
	index, name := int(nl.DeserializeIfInfomsg(m.Data).Index), ""
	attrs, err := nl.ParseRouteAttr(m.Data[unix.SizeofIfInfomsg:])
	if err != nil {
		return 0
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.IFLA_IFNAME {
			name = nl.BytesToString(a.Value)
		}
	}
	here := m.Header.Type == unix.RTM_NEWLINK && name == ipvsutil.Device
	switch {
	case here && index != w.own:
		return w.moved(index)
	case !here && index == w.own:
		return w.moved(0)
	}
	return 0
}

// moved takes down where the device is now, and gives DeviceGone when the one that
// was there is no more, even if there is another by now.
func (w *watcher) moved(own int) Event {
	was := w.own
	w.own = own
	_ = deafTo(w.socket.GetFd(), own) // else more is heard than need be
	if was != 0 && was != own {
		return DeviceGone | NodeAddresses // it may be another device of the node by now, with more addresses
	}
	return 0
}

// tell adds the event to the one that was not taken yet. There is no other sender,
// so after taking that out the channel has room and nothing waits.
func (w *watcher) tell(event Event) {
	if event == 0 {
		return
	}
	select {
	case untaken := <-w.events:
		event |= untaken
	default:
	}
	w.events <- event
}
