package explain

import (
	"fmt"
	"strings"
)

// paths judges the ways that packets take through the node.
func (d *diagnosis) paths() {
	f := d.facts
	if devices := strings.Join(f.StrictReversePath, ", "); devices != "" {
		const next = "ip route get CLIENT: answers should leave by the device that requests come by; or sysctl -w net.ipv4.conf.all.rp_filter=2, which accepts any route back"
		if f.ReversePathDrops > 0 {
			d.add(Warning, next, "rp_filter is 1 on %s, and %d packets came by another device than the way back to their source, and were dropped in silence", devices, f.ReversePathDrops)
		} else {
			d.add(Note, next, "rp_filter is 1 on %s: where answers take another device than requests came by, requests are dropped in silence", devices)
		}
	}
	if pod, far := f.PodPath, f.FarPath; pod.MTU > far.MTU && far.MTU > 0 {
		count := ""
		if f.TooBig > 0 {
			count = "; packets that did not fit so far: " + fmt.Sprint(f.TooBig)
		}
		d.add(Warning, "set the MTU of the pods to "+fmt.Sprint(far.MTU)+" or less (the network plugin has it)",
			"pods of this node send packets of up to %d bytes (%s), and the way to %s by %s takes %d: small requests work, large ones hang where no ICMP comes back%s",
			pod.MTU, pod.Device, far.To, far.Device, far.MTU, count)
	}
}
