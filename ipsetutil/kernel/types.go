package kernel

import (
	"context"
	"fmt"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// types says for each type which revision sets are created with, and which module
// has the type. The revision decides what the ipset program shows and which
// features it believes in, so it is the first that has marks (skbinfo, Linux 3.18):
// also an ipset program older than the kernel can show the set. See the *_REV
// comments in net/netfilter/ipset/ip_set_hash_*.c.
var types = []struct {
	typ      ipsetutil.Type
	revision uint8
	module   string
}{
	{ipsetutil.HashIP, 4, "ip_set_hash_ip"},
	{ipsetutil.HashIPPort, 5, "ip_set_hash_ipport"},
	{ipsetutil.HashIPPortIP, 5, "ip_set_hash_ipportip"},
	{ipsetutil.HashIPPortNet, 7, "ip_set_hash_ipportnet"},
	{ipsetutil.BitmapPort, 3, "ip_set_bitmap_port"},
}

// typeKey is what the kernel has a range of revisions for.
type typeKey struct {
	typ    ipsetutil.Type
	family ipsetutil.Family
}

// revision returns the revision to create a set of this type and family with. The
// kernel is asked once for each; it loads the module of the type on that occasion.
// A kernel that lacks the wanted revision gets the nearest it has.
func (c *Conn) revision(ctx context.Context, s ipsetutil.Set) (uint8, error) {
	key := typeKey{s.Type, s.Family}
	if r, ok := c.revisions[key]; ok {
		return r, nil
	}
	bodies, err := c.socket.Do(ctx, netlink.Request{Type: cmdType, Body: encodeType(s.Type, s.Family)})
	if err != nil {
		return 0, err
	}
	if len(bodies) == 0 {
		return 0, fmt.Errorf("revision of %s: %w", s.Type, netlink.ErrTruncated)
	}
	low, high, err := decodeRange(bodies[0], attrRevisionMin, attrRevision)
	if err != nil {
		return 0, fmt.Errorf("revision of %s: %w", s.Type, err)
	}
	r := nearest(s.Type, low, high)
	c.revisions[key] = r
	return r, nil
}

// nearest returns the wanted revision of a type, or the nearest from low to high.
func nearest(typ ipsetutil.Type, low, high uint8) uint8 {
	var want uint8
	for _, t := range types {
		if t.typ == typ {
			want = t.revision
		}
	}
	return max(low, min(high, want))
}
