package takeover

import (
	"fmt"
	"net/netip"
	"strings"

	"kube-ipvs-proxy/e2e/testbed"
)

// leftovers writes, for one family, what kube-proxy's modes leave on a node when they
// end: rules in their shape and with their names, for the Services of the scene.
type leftovers struct {
	lab *testbed.Lab
	f   testbed.Family
	// services are those with endpoints; the one without is always there.
	services []service
}

var protocolNames = []string{"tcp", "udp"}

func (l leftovers) podCIDR() string {
	v4, v6, _ := strings.Cut(testbed.ClusterCIDR, ",")
	return l.pick(v4, v6)
}

func (l leftovers) pick(v4, v6 string) string {
	if l.f == testbed.IPv4 {
		return v4
	}
	return v6
}

// localPods are the pods of a Service that are on the node.
func (l leftovers) localPods(s service) []string {
	var pods []string
	for _, p := range s.pods {
		if l.lab.Host(p).Node == node {
			pods = append(pods, p)
		}
	}
	return pods
}

// iptables is the input of iptables-restore, or ip6tables-restore.
func (l leftovers) iptables() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("*filter")
	for _, c := range []string{"KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-FORWARD", "KUBE-PROXY-FIREWALL", "KUBE-PROXY-CANARY"} {
		line(":%s - [0:0]", c)
	}
	for _, from := range []string{"INPUT", "FORWARD", "OUTPUT"} {
		line(`-A %s -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL`, from)
	}
	line(`-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS`)
	line(`-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES`)
	line(`-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD`)
	for _, from := range []string{"FORWARD", "OUTPUT"} {
		line(`-A %s -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES`, from)
	}
	line(`-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT`)
	line(`-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`)
	for _, p := range protocolNames {
		line(`-A KUBE-SERVICES -d %v -p %s -m comment --comment "default/%s:%s has no endpoints" -m %s --dport 80 -j REJECT`,
			empty.clusterIP(l.f), p, empty.name(), p, p)
	}
	line("COMMIT\n*nat")
	for _, c := range []string{"KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", "KUBE-PROXY-CANARY"} {
		line(":%s - [0:0]", c)
	}
	line(`-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES`)
	line(`-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES`)
	line(`-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING`)
	line(`-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000`)
	line(`-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN`)
	line(`-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0`)
	line(`-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully`)
	for _, s := range l.services {
		for _, p := range protocolNames {
			l.iptablesService(line, s, p)
		}
	}
	line(`-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS`)
	line("COMMIT")
	return b.String()
}

// iptablesService writes the chains of one port.
func (l leftovers) iptablesService(line func(string, ...any), s service, p string) {
	id := strings.ToUpper(s.name() + p)
	svc, svl, ext := "KUBE-SVC-"+id, "KUBE-SVL-"+id, "KUBE-EXT-"+id
	line(":%s - [0:0]\n:%s - [0:0]\n:%s - [0:0]", svc, svl, ext)
	line("-A KUBE-SERVICES -d %v -p %s -m %s --dport 80 -j %s", s.clusterIP(l.f), p, p, svc)
	line("-A KUBE-SERVICES -d %v -p %s -m %s --dport 80 -j %s", s.lbIP(l.f), p, p, ext)
	line("-A KUBE-NODEPORTS -p %s -m %s --dport %d -j %s", p, p, s.nodePort(), ext)
	line("-A %s ! -s %s -d %v -p %s -m %s --dport 80 -j KUBE-MARK-MASQ", svc, l.podCIDR(), s.clusterIP(l.f), p, p)
	if s.local {
		line("-A %s -s %s -j %s", ext, l.podCIDR(), svc)
		line("-A %s -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ", ext)
		line("-A %s -m addrtype --src-type LOCAL -j %s", ext, svc)
		line("-A %s -j %s", ext, svl)
	} else {
		line("-A %s -j KUBE-MARK-MASQ\n-A %s -j %s", ext, ext, svc)
	}
	for i, pod := range s.pods {
		sep, at := fmt.Sprintf("KUBE-SEP-%s%d", id, i), l.lab.Host(pod).Addr(l.f)
		line(":%s - [0:0]", sep)
		line("-A %s -s %v -j KUBE-MARK-MASQ", sep, at)
		line("-A %s -p %s -m %s -j DNAT --to-destination %v", sep, p, p, netip.AddrPortFrom(at, podPort))
		if left := len(s.pods) - i; left > 1 {
			line("-A %s -m statistic --mode random --probability %.10f -j %s", svc, 1/float64(left), sep)
		} else {
			line("-A %s -j %s", svc, sep)
		}
		if l.lab.Host(pod).Node == node {
			line("-A %s -j %s", svl, sep)
		}
	}
}

// nftables is the input of nft.
func (l leftovers) nftables() string {
	var chains, services, nodePorts, none []string
	ip := l.pick("ip", "ip6")
	for _, p := range protocolNames {
		none = append(none, fmt.Sprintf("%v . %s . 80 : goto reject-chain", empty.clusterIP(l.f), p))
		for _, s := range l.services {
			id := s.name() + "/" + p
			services = append(services,
				fmt.Sprintf("%v . %s . 80 : goto service-%s", s.clusterIP(l.f), p, id),
				fmt.Sprintf("%v . %s . 80 : goto external-%s", s.lbIP(l.f), p, id))
			nodePorts = append(nodePorts, fmt.Sprintf("%s . %d : goto external-%s", p, s.nodePort(), id))
			chains = append(chains, l.nftablesService(s, p, id))
		}
	}
	return fmt.Sprintf(`table %[1]s kube-proxy {
	chain mark-for-masquerade { meta mark set meta mark or 0x4000; }
	chain reject-chain { reject; }
%[2]s
	map service-ips { type %[3]s . inet_proto . inet_service : verdict; elements = { %[4]s }; }
	map service-nodeports { type inet_proto . inet_service : verdict; elements = { %[5]s }; }
	map no-endpoint-services { type %[3]s . inet_proto . inet_service : verdict; elements = { %[6]s }; }
	chain services {
		%[1]s daddr . meta l4proto . th dport vmap @service-ips
		%[1]s daddr != %[7]s fib daddr type local meta l4proto . th dport vmap @service-nodeports
	}
	chain masquerading {
		meta mark & 0x4000 == 0 return
		meta mark set meta mark xor 0x4000
		masquerade fully-random
	}
	chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
	chain nat-output { type nat hook output priority -100; jump services; }
	chain nat-postrouting { type nat hook postrouting priority srcnat; jump masquerading; }
	chain endpoints-check { ct state new %[1]s daddr . meta l4proto . th dport vmap @no-endpoint-services; }
	chain filter-input { type filter hook input priority -110; jump endpoints-check; }
	chain filter-forward { type filter hook forward priority -110; jump endpoints-check; }
	chain filter-output { type filter hook output priority -110; jump endpoints-check; }
}
`, ip, strings.Join(chains, ""), l.pick("ipv4_addr", "ipv6_addr"), strings.Join(services, ", "),
		strings.Join(nodePorts, ", "), strings.Join(none, ", "), l.pick("127.0.0.0/8", "::1"))
}

// nftablesService writes the chains of one port.
func (l leftovers) nftablesService(s service, p, id string) string {
	ip := l.pick("ip", "ip6")
	var b strings.Builder
	to := func(pods []string) string {
		if len(pods) == 0 {
			return "drop"
		}
		var all []string
		for i, pod := range pods {
			all = append(all, fmt.Sprintf("%d : goto endpoint-%s/%s", i, id, pod))
		}
		return fmt.Sprintf("numgen random mod %d vmap { %s }", len(pods), strings.Join(all, ", "))
	}
	for _, pod := range s.pods {
		at := l.lab.Host(pod).Addr(l.f)
		fmt.Fprintf(&b, "chain endpoint-%s/%s { %s saddr %v jump mark-for-masquerade; meta l4proto %s dnat to %v; }\n",
			id, pod, ip, at, p, netip.AddrPortFrom(at, podPort))
	}
	fmt.Fprintf(&b, "chain service-%s { %s daddr %v %s dport 80 %s saddr != %s jump mark-for-masquerade; %s; }\n",
		id, ip, s.clusterIP(l.f), p, ip, l.podCIDR(), to(s.pods))
	if s.local {
		fmt.Fprintf(&b, "chain external-%s { %s saddr %s goto service-%s; fib saddr type local jump mark-for-masquerade; fib saddr type local goto service-%s; %s; }\n",
			id, ip, l.podCIDR(), id, id, to(l.localPods(s)))
	} else {
		fmt.Fprintf(&b, "chain external-%s { jump mark-for-masquerade; goto service-%s; }\n", id, id)
	}
	return b.String()
}
