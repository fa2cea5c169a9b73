package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// chunk is how many ops are encoded before they are sent. It bounds the buffers
// that are kept; the socket cuts it into its own batches.
const chunk = 1024

// IPVS is the door to the virtual servers of one network namespace: the one that
// the thread was in which opened it. It may be used by several goroutines. One lock
// keeps writes out of the listings, because the kernel does not say when a listing
// was disturbed.
type IPVS struct {
	socket  *netlink.Socket
	small   *netlink.Socket // for the real servers of one virtual server
	family  uint16
	counter int // a socket of the older interface; see CountIPv4

	mu       sync.Mutex
	buffer   netlink.Attributes
	ends     []int             // of the bodies in buffer
	sent     []int             // the op of each request
	requests []netlink.Request // with slices of buffer
}

var _ ipvsutil.IPVS = (*IPVS)(nil)

// Open opens the door. The kernel is asked for IPVS, and loads its module where it
// can; ipvsutil.ErrNoIPVS when there is none. Without CAP_NET_ADMIN it fails with
// EPERM here, not at the first change.
func Open(ctx context.Context) (*IPVS, error) { return open(ctx, ipvsFamily) }

func open(ctx context.Context, family string) (*IPVS, error) {
	socket, err := netlink.Open(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	small, err := netlink.OpenSmall(unix.NETLINK_GENERIC)
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	k := &IPVS{socket: socket, small: small, counter: -1}
	k.counter, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		_ = k.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := k.find(ctx, family); err != nil {
		_ = k.Close()
		return nil, err
	}
	return k, nil
}

// find looks up the family and asks it for something: a family number that is
// merely believed would make every change a silent success.
func (k *IPVS) find(ctx context.Context, family string) error {
	id, err := k.socket.GenericFamily(ctx, family)
	if errors.Is(err, fs.ErrNotExist) {
		return ipvsutil.ErrNoIPVS
	}
	if err != nil {
		return err
	}
	k.family = id
	_, err = k.Version(ctx)
	return err
}

// Close closes the door. The servers stay.
func (k *IPVS) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.counter >= 0 {
		_ = unix.Close(k.counter)
		k.counter = -1
	}
	return errors.Join(k.socket.Close(), k.small.Close())
}

// Do implements ipvsutil.IPVS. An op that its Check refuses is not sent.
func (k *IPVS) Do(ctx context.Context, ops []ipvsutil.Op) []error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	fail := func(i int, err error) {
		if errs == nil {
			errs = make([]error, len(ops))
		}
		errs[i] = opError(ops[i], err)
	}
	for start := 0; start < len(ops); start += chunk {
		k.encode(ops, start, min(start+chunk, len(ops)), fail)
		for i, err := range k.socket.Execute(ctx, k.requests) {
			if err != nil {
				fail(k.sent[i], err)
			}
		}
	}
	return errs
}

// encode fills k.requests with ops[from:to], but those that are refused at once.
func (k *IPVS) encode(ops []ipvsutil.Op, from, to int, fail func(int, error)) {
	k.buffer, k.ends, k.sent, k.requests = k.buffer[:0], k.ends[:0], k.sent[:0], k.requests[:0]
	for i := from; i < to; i++ {
		if err := ops[i].Check(); err != nil {
			fail(i, err)
			continue
		}
		appendOp(&k.buffer, ops[i])
		k.ends, k.sent = append(k.ends, len(k.buffer)), append(k.sent, i)
	}
	begin := 0
	for _, end := range k.ends {
		k.requests = append(k.requests, netlink.Request{Type: k.family, Body: k.buffer[begin:end]})
		begin = end
	}
}

// opError names the op and says what the kernel's answer means.
func opError(op ipvsutil.Op, err error) error {
	object := op.Server.Key.String()
	switch op.Verb {
	case ipvsutil.CreateRealServer, ipvsutil.UpdateRealServer, ipvsutil.DeleteRealServer:
		object += " -> " + op.Real.String()
	}
	var refused *netlink.Error
	if errors.As(err, &refused) {
		err = op.Verb.Refusal(refused.Errno)
	}
	return &ipvsutil.OpError{Op: op.Verb.String(), Object: object, Err: outcome(err)}
}

// outcome marks a lost answer in the words of the door's contract.
func outcome(err error) error {
	if errors.Is(err, netlink.ErrLost) {
		return fmt.Errorf("%w: %w", ipvsutil.ErrUnknownOutcome, err)
	}
	return err
}
