package takeover

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ipvsSets is the input of ipset restore: sets of kube-proxy's ipvs mode with its names,
// types and sizes.
func (l leftovers) ipvsSets() string {
	prefix, family := l.pick("KUBE-", "KUBE-6-"), l.pick("inet", "inet6")
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, name := range []string{"CLUSTER-IP", "LOAD-BALANCER", "LOAD-BALANCER-LOCAL"} {
		line("create %s%s hash:ip,port family %s hashsize 1024 maxelem 65536", prefix, name, family)
	}
	line("create %sIPVS-IPS hash:ip family %s hashsize 1024 maxelem 65536", prefix, family)
	line("create %sLOOP-BACK hash:ip,port,ip family %s hashsize 1024 maxelem 65536", prefix, family)
	for _, p := range protocolNames {
		for _, name := range []string{"NODE-PORT-", "NODE-PORT-LOCAL-"} {
			line("create %s%s%s bitmap:port range 0-65535", prefix, name, strings.ToUpper(p))
		}
	}
	for _, s := range append(slices.Clone(l.services), empty) {
		line("add %sIPVS-IPS %v\nadd %sIPVS-IPS %v", prefix, s.clusterIP(l.f), prefix, s.lbIP(l.f))
		for _, p := range protocolNames {
			line("add %sCLUSTER-IP %v,%s:80", prefix, s.clusterIP(l.f), p)
			line("add %sLOAD-BALANCER %v,%s:80", prefix, s.lbIP(l.f), p)
			line("add %sNODE-PORT-%s %d", prefix, strings.ToUpper(p), s.nodePort())
			if s.local {
				line("add %sLOAD-BALANCER-LOCAL %v,%s:80", prefix, s.lbIP(l.f), p)
				line("add %sNODE-PORT-LOCAL-%s %d", prefix, strings.ToUpper(p), s.nodePort())
			}
		}
	}
	return b.String()
}

// ipvsRules is the input of iptables-restore, or ip6tables-restore.
func (l leftovers) ipvsRules() string {
	return strings.NewReplacer("KUBE-6?", l.pick("KUBE-", "KUBE-6-"), "PODS", l.podCIDR()).Replace(`*nat
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-LOAD-BALANCER - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-LOAD-BALANCER -m set --match-set KUBE-6?LOAD-BALANCER-LOCAL dst,dst -j RETURN
-A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ
-A KUBE-NODE-PORT -p tcp -m set --match-set KUBE-6?NODE-PORT-LOCAL-TCP dst -j RETURN
-A KUBE-NODE-PORT -p tcp -m set --match-set KUBE-6?NODE-PORT-TCP dst -j KUBE-MARK-MASQ
-A KUBE-NODE-PORT -p udp -m set --match-set KUBE-6?NODE-PORT-LOCAL-UDP dst -j RETURN
-A KUBE-NODE-PORT -p udp -m set --match-set KUBE-6?NODE-PORT-UDP dst -j KUBE-MARK-MASQ
-A KUBE-SERVICES -m set --match-set KUBE-6?LOAD-BALANCER dst,dst -j KUBE-LOAD-BALANCER
-A KUBE-SERVICES ! -s PODS -m set --match-set KUBE-6?CLUSTER-IP dst,dst -j KUBE-MARK-MASQ
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
-A KUBE-SERVICES -m set --match-set KUBE-6?CLUSTER-IP dst,dst -j ACCEPT
-A KUBE-SERVICES -m set --match-set KUBE-6?LOAD-BALANCER dst,dst -j ACCEPT
-A KUBE-POSTROUTING -m set --match-set KUBE-6?LOOP-BACK dst,dst,src -j MASQUERADE
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
COMMIT
*filter
:KUBE-FORWARD - [0:0]
:KUBE-IPVS-FILTER - [0:0]
:KUBE-IPVS-OUT-FILTER - [0:0]
-A INPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A OUTPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-OUT-FILTER
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-IPVS-FILTER -m set --match-set KUBE-6?LOAD-BALANCER dst,dst -j RETURN
-A KUBE-IPVS-FILTER -m set --match-set KUBE-6?CLUSTER-IP dst,dst -j RETURN
-A KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set KUBE-6?IPVS-IPS dst -j REJECT
COMMIT
`)
}

// ipvsServers is the input of ipvsadm --restore.
func (l leftovers) ipvsServers() string {
	var b strings.Builder
	server := func(flag string, at netip.AddrPort, pods []string) {
		fmt.Fprintf(&b, "-A %s %v -s rr\n", flag, at)
		for _, pod := range pods {
			fmt.Fprintf(&b, "-a %s %v -r %v -m -w 1\n", flag, at, l.real(pod))
		}
	}
	for _, s := range append(slices.Clone(l.services), empty) {
		external := s.pods
		if s.local {
			external = l.localPods(s)
		}
		for _, flag := range []string{"-t", "-u"} {
			server(flag, s.at(s.clusterIP(l.f)), s.pods)
			server(flag, s.at(s.lbIP(l.f)), external)
			for _, a := range l.lab.Host(node).NodeAddrs(l.f) {
				server(flag, netip.AddrPortFrom(a, s.nodePort()), external)
			}
		}
	}
	return b.String()
}

func (l leftovers) real(pod string) netip.AddrPort {
	return netip.AddrPortFrom(l.lab.Host(pod).Addr(l.f), podPort)
}

// ipvsDrain is what ipvsadm does when the endpoint of the Service that loses one leaves
// its ClusterIP, to which the streams lead.
func (l leftovers) ipvsDrain() []string {
	at := draining.at(draining.clusterIP(l.f))
	return []string{
		fmt.Sprintf("ipvsadm -a -t %v -r %v -m -w 1", at, l.real(drained.pods[0])),
		fmt.Sprintf("ipvsadm -e -t %v -r %v -m -w 0", at, l.real(draining.pods[0])),
	}
}

// ipvsAddresses are bound to kube-ipvs0.
func (l leftovers) ipvsAddresses() []netip.Addr {
	var all []netip.Addr
	for _, s := range append(slices.Clone(l.services), empty) {
		all = append(all, s.clusterIP(l.f), s.lbIP(l.f))
	}
	return all
}
