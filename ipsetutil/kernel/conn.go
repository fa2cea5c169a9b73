// Package kernel carries the values of ipsetutil to the ipsets of the Linux kernel
// (nfnetlink, subsystem ipset), without the ipset program: entries go in bulk, and
// each one that fails is known by its number.
package kernel

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// Conn is a door to the ipsets of one network namespace. It may be used by several
// goroutines.
type Conn struct {
	socket *netlink.Socket
	small  *netlink.Socket // for headers and names
	// mu guards what follows; Do holds it throughout, so changes of two callers do
	// not mix.
	mu        sync.Mutex
	revisions map[typeKey]uint8
	buffers   []netlink.Attributes // bodies of the last batch, to be used again
}

var _ ipsetutil.Sets = (*Conn)(nil)

// Open opens a door to the network namespace of the calling thread. A kernel that
// has no ipset, and can't load it, gives ipsetutil.ErrNoIPSet.
func Open(ctx context.Context) (*Conn, error) {
	socket, err := netlink.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, openError(err)
	}
	small, err := netlink.OpenSmall(unix.NETLINK_NETFILTER)
	if err != nil {
		_ = socket.Close()
		return nil, openError(err)
	}
	c := &Conn{socket: socket, small: small, revisions: map[typeKey]uint8{}}
	if err := c.probe(ctx); err != nil {
		_ = c.Close()
		return nil, openError(err)
	}
	return c, nil
}

// probe asks for the versions that the kernel speaks. The kernel loads ip_set on
// this occasion; nfnetlink answers EINVAL to a subsystem that it can't load.
func (c *Conn) probe(ctx context.Context) error {
	bodies, err := c.socket.Do(ctx, netlink.Request{Type: cmdProtocol, Body: appendCommand(nil, "")})
	if err != nil {
		return err
	}
	if len(bodies) == 0 {
		return netlink.ErrTruncated
	}
	low, high, err := decodeRange(bodies[0], attrProtocolMin, attrProtocol)
	if err != nil {
		return err
	}
	if protocolVersion < low || protocolVersion > high {
		return &netlink.Error{Errno: codeProtocol}
	}
	return nil
}

// openError names the module when its absence is what the error means. The request
// of probe is always the same and valid, so EINVAL can't mean anything else.
func openError(err error) error {
	for _, missing := range []error{unix.EINVAL, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.EOPNOTSUPP} {
		if errors.Is(err, missing) {
			err = &refusal{kind: ipsetutil.ErrNoIPSet, cause: missing}
			break
		}
	}
	return fail(opOpen, "ipset", "", err)
}

// Close closes the door. Later calls fail with os.ErrClosed.
func (c *Conn) Close() error { return errors.Join(c.socket.Close(), c.small.Close()) }

// Create makes a set, see ipsetutil.Sets.
func (c *Conn) Create(ctx context.Context, s ipsetutil.Set) error {
	if err := s.Validate(); err != nil {
		return fail(opCreate, s.Name, s.Type, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.create(ctx, s); err != nil {
		return fail(opCreate, s.Name, s.Type, err)
	}
	return nil
}

func (c *Conn) create(ctx context.Context, s ipsetutil.Set) error {
	revision, err := c.revision(ctx, s)
	if err != nil {
		return err
	}
	r := netlink.Request{Type: cmdCreate, Flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL, Body: encodeCreate(s, revision)}
	if err = c.execute(ctx, r); !errors.Is(err, unix.EEXIST) {
		return err
	}
	// Without NLM_F_EXCL the kernel is content with a set that has the same type,
	// maxelem and extensions, timeout and counters included. It does not compare
	// families (ip_set_create in net/netfilter/ipset/ip_set_core.c).
	r.Flags = unix.NLM_F_CREATE
	if err := c.execute(ctx, r); err != nil {
		return err
	}
	h, err := c.header(ctx, s.Name)
	if err != nil {
		return err
	}
	if h.Set != s || h.Strange {
		return ipsetutil.ErrMismatch
	}
	return nil
}

// Destroy removes a set, see ipsetutil.Sets.
func (c *Conn) Destroy(ctx context.Context, name string) error {
	// An empty name would destroy all sets.
	if name == "" {
		return fail(opDestroy, name, "", ipsetutil.ErrInvalid)
	}
	err := c.execute(ctx, netlink.Request{Type: cmdDestroy, Body: appendCommand(nil, name)})
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fail(opDestroy, name, "", err)
}

// Swap exchanges two sets, see ipsetutil.Sets.
func (c *Conn) Swap(ctx context.Context, a, b string) error {
	err := c.execute(ctx, netlink.Request{Type: cmdSwap, Body: encodeSwap(a, b)})
	if err != nil {
		return fail(opSwap, a+" "+b, "", err)
	}
	return nil
}

// execute sends one request.
func (c *Conn) execute(ctx context.Context, r netlink.Request) error {
	if errs := c.socket.Execute(ctx, []netlink.Request{r}); errs != nil {
		return errs[0]
	}
	return nil
}

// Names lists all sets of the namespace in the kernel's order.
func (c *Conn) Names(ctx context.Context) ([]string, error) {
	var names []string
	err := c.list(ctx, "", flagListNames, func(body []byte) error {
		a, err := find(body, attrSetName)
		if err != nil {
			return err
		}
		names = append(names, a.String())
		return nil
	})
	if err != nil {
		return nil, fail(opList, "names", "", err)
	}
	return names, nil
}

// Members lists one set, see ipsetutil.Sets. An entry that carries what is never
// written here has ipsetutil.StrangeMark. Sets of types that ipsetutil does not
// have can't be listed.
func (c *Conn) Members(ctx context.Context, name string) (map[ipsetutil.Entry]uint32, error) {
	if name == "" {
		return nil, fail(opList, name, "", ipsetutil.ErrInvalid)
	}
	members := map[ipsetutil.Entry]uint32{}
	err := c.list(ctx, name, 0, func(body []byte) error { return decodeMembers(body, members) })
	if err != nil {
		return nil, fail(opList, name, "", err)
	}
	return members, nil
}

// Headers lists all sets without their members, see ipsetutil.Sets.
func (c *Conn) Headers(ctx context.Context) (map[string]ipsetutil.Header, error) {
	headers := map[string]ipsetutil.Header{}
	err := c.list(ctx, "", flagListHeaders, func(body []byte) error {
		h, err := decodeHeader(body)
		headers[h.Set.Name] = h
		return err
	})
	if err != nil {
		return nil, fail(opList, "headers", "", err)
	}
	return headers, nil
}

// Header returns the parameters and the size of one set without listing it. A
// missing set gives ErrNoSet.
func (c *Conn) Header(ctx context.Context, name string) (h ipsetutil.Header, err error) {
	if name == "" {
		return h, fail(opList, name, "", ipsetutil.ErrInvalid)
	}
	if h, err = c.header(ctx, name); err != nil {
		return ipsetutil.Header{}, fail(opList, name, "", err)
	}
	return h, nil
}

func (c *Conn) header(ctx context.Context, name string) (h ipsetutil.Header, err error) {
	err = c.list(ctx, name, flagListHeaders, func(body []byte) (err error) {
		h, err = decodeHeader(body)
		return err
	})
	return h, err
}

// list asks for one set, or all when the name is empty.
func (c *Conn) list(ctx context.Context, name string, flags uint32, each func(body []byte) error) error {
	socket := c.socket
	if flags != 0 {
		socket = c.small // no members
	}
	return socket.Dump(ctx, netlink.Request{Type: cmdList, Body: encodeList(name, flags)}, each)
}
