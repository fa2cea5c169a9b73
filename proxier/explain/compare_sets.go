package explain

import (
	"fmt"
	"net/netip"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// sets compares our sets and their entries.
func (c *comparison) sets() {
	o := c.observed
	for _, set := range ipsetutil.All() {
		if set.Family == ipsetutil.IPv6 && !o.IPv6 {
			continue
		}
		if have, wrong := o.Mismatched[set.Name]; wrong {
			c.add(Difference{Kind: "set", Object: set.Name, Want: string(set.Type), Have: have,
				Means: "entries cannot be kept in it: " + meaningOfEntry(set.Name)})
		} else if _, there := o.Members[set.Name]; !there {
			c.add(Difference{Kind: "set", Object: set.Name, Want: present, Have: absent,
				Means: "rules that name it are gone too: " + meaningOfEntry(set.Name)})
		}
	}
	for m, mark := range c.desired.Members() {
		entries, there := o.Members[m.Set]
		if !there {
			continue // the set says it all
		}
		have, ok := entries[m.Entry]
		switch {
		case !ok:
			c.addMember(m, Difference{Want: wantMark(mark), Have: absent, Means: meaningOfEntry(m.Set)})
		case have != mark:
			c.addMember(m, Difference{Want: wantMark(mark), Have: wantMark(have), Means: "clients on this node are led to the endpoints of another Service, or to none"})
		}
	}
	for _, set := range ipsetutil.All() {
		for entry, mark := range o.Members[set.Name] {
			m := ipsetutil.Member{Set: set.Name, Entry: entry}
			if _, wanted := c.desired.Member(m); wanted {
				continue
			}
			d := Difference{Want: nothing, Have: wantMark(mark), Means: meaningOfExtra(set.Name)}
			if c.lingers(m) {
				d.Fine, d.Means = true, "stays until the last connection of a Service that is gone ends"
			}
			c.addMember(m, d)
		}
	}
}

func (c *comparison) addMember(m ipsetutil.Member, d Difference) {
	d.Kind, d.Object, d.member = "set entry", m.String(), m
	d.addr = m.Entry.Addr
	if s, ok := c.desired.Server(entryKey(m.Entry)); ok {
		d.Service = s.Owner.String()
	}
	c.add(d)
}

// lingers tells entries that a lingering server needs, or is known by.
func (c *comparison) lingers(m ipsetutil.Member) bool {
	e := m.Entry
	for key := range c.lingering {
		switch {
		case key.Mark != 0:
			if mark, _ := c.observed.member(m); mark == key.Mark && e.Addr.Is6() == key.IsIPv6() {
				return true
			}
		case !e.Addr.IsValid():
			if e.Port == key.Addr.Port() {
				return true
			}
		case e.Protocol == 0:
			if e.Addr == key.Addr.Addr() {
				return true
			}
		case entryKey(e) == key:
			return true
		}
	}
	return false
}

// entryKey is the frontend of an entry.
func entryKey(e ipsetutil.Entry) ipvsutil.Key {
	return ipvsutil.Key{Addr: netip.AddrPortFrom(e.Addr, e.Port), Protocol: ipvsutil.Protocol(e.Protocol)}
}

func wantMark(mark uint32) string {
	if mark == 0 {
		return present
	}
	return fmt.Sprintf("mark %#x", mark)
}

// meanings say what traffic comes to without an entry of each kind.
var meanings = []struct {
	kind             ipsetutil.Kind
	missing, surplus string
}{
	{ipsetutil.LoopBack, "an endpoint on this node cannot reach itself through its Service", "no harm: no such endpoint is here"},
	{ipsetutil.ClusterIP, "clients outside of the pods are not masqueraded or are refused: no answer comes", "traffic to it is masqueraded for no Service"},
	{ipsetutil.ExternalIP, "clients are not masqueraded: answers take another way and are dropped", "traffic to it is masqueraded, although its policy may be Local"},
	{ipsetutil.ExternalIPLocal, "a rule of the host's own may take or drop its traffic", "traffic to it is accepted for no Service"},
	{ipsetutil.LoadBalancer, "clients are not masqueraded: answers take another way and are dropped", "traffic to it is masqueraded for no Service"},
	{ipsetutil.LoadBalancerLocal, "clients' source addresses are lost (externalTrafficPolicy Local)", "clients are not masqueraded: answers of endpoints on other nodes are lost"},
	{ipsetutil.LoadBalancerFW, "source ranges are not enforced: everybody gets in", "sources are dropped that no Service restricts"},
	{ipsetutil.LoadBalancerSourceIP, "processes on this node are dropped although the ranges hold them", "a source gets in that no range holds"},
	{ipsetutil.LoadBalancerSourceCIDR, "clients of this source range are dropped", "clients get in that no range holds"},
	{ipsetutil.NodePortTCP, "clients of this NodePort are not masqueraded, or a firewall drops them", "a port of the node is treated as a NodePort"},
	{ipsetutil.NodePortLocalTCP, "clients' source addresses are lost (externalTrafficPolicy Local)", "clients are not masqueraded: answers of endpoints on other nodes are lost"},
	{ipsetutil.NodePortUDP, "clients of this NodePort are not masqueraded, or a firewall drops them", "a port of the node is treated as a NodePort"},
	{ipsetutil.NodePortLocalUDP, "clients' source addresses are lost (externalTrafficPolicy Local)", "clients are not masqueraded: answers of endpoints on other nodes are lost"},
	{ipsetutil.NodePortSCTP, "clients of this NodePort are not masqueraded, or a firewall drops them", "a port of the node is treated as a NodePort"},
	{ipsetutil.NodePortLocalSCTP, "clients' source addresses are lost (externalTrafficPolicy Local)", "clients are not masqueraded: answers of endpoints on other nodes are lost"},
	{ipsetutil.HealthCheckNodePort, "a firewall may drop the load balancer's health checks", "a port of the node is open past the firewall"},
	{ipsetutil.IPVSIPs, "ports of the node answer on this address, and node processes may use it as source", "ports of the node are refused on this address"},
	{ipsetutil.NodeIP, "NodePorts on this address are not masqueraded, or a firewall drops them", "NodePorts count on an address that should not serve them"},
	{ipsetutil.Capture, "clients of this external address are not served here", "packets to this address and port are taken from their true owner"},
	{ipsetutil.ShortCircuit, "clients on this node reach only the endpoints on it, or are dropped", "clients on this node are led past the address's own server"},
	{ipsetutil.DropOutside, "clients from outside are refused instead of dropped: load balancers keep sending them", "clients from outside are dropped although endpoints are here"},
	{ipsetutil.DropAll, "clients are refused instead of dropped", "all clients are dropped although endpoints are here"},
	{ipsetutil.Refuse, "clients of a Service without endpoints wait instead of being refused at once", "all clients are refused although there are endpoints"},
}

func meaningOfEntry(set string) string {
	for _, m := range meanings {
		if m.kind.Name(false) == set || m.kind.Name(true) == set {
			return m.missing
		}
	}
	return ""
}

func meaningOfExtra(set string) string {
	for _, m := range meanings {
		if m.kind.Name(false) == set || m.kind.Name(true) == set {
			return m.surplus
		}
	}
	return ""
}

// meaningOfRules says what a line about the static rules comes to.
func meaningOfRules(line string) string {
	switch {
	case strings.Contains(line, "jumps from"):
		return "rules of others come first, or ours are not reached: Services are masqueraded, accepted or refused wrongly"
	case strings.Contains(line, "of another proxy"):
		return "rules of another proxy may take or refuse traffic of Services"
	case strings.Contains(line, "are wanted"):
		return "rules are missing, or were written with other flags"
	}
	return "Services are masqueraded, accepted, dropped or refused wrongly"
}
