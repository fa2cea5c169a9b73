package kernel

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// Holds tells whether all of these members are there, see ipsetutil.Sets. The kernel is
// silent about those that are, so that as a rule one answer comes for all.
func (c *Conn) Holds(ctx context.Context, members []ipsetutil.Member) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests := make([]netlink.Request, len(members))
	for i, m := range members {
		set, known := ipsetutil.ByName(m.Set)
		if !known {
			h, err := c.Header(ctx, m.Set)
			if errors.Is(err, ipsetutil.ErrNoSet) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			set = h.Set
		}
		if i == len(c.buffers) {
			c.buffers = append(c.buffers, nil)
		}
		body := appendCommand(c.buffers[i][:0], m.Set)
		// As a change that deletes it has no mark.
		c.buffers[i] = appendEntry(body, set, ipsetutil.Change{Delete: true, Member: m}, 0)
		requests[i] = netlink.Request{Type: cmdTest, Body: c.buffers[i]}
	}
	var refused *netlink.Error
	for i, err := range c.small.Execute(ctx, requests) {
		switch {
		case err == nil:
		case errors.As(err, &refused) && (refused.Errno == codeExist || refused.Errno == unix.ENOENT):
			return false, nil
		default:
			return false, fail(opTest, members[i].String(), "", err)
		}
	}
	return true, nil
}
