package main

import (
	"fmt"
	"net/netip"

	vnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/explain"
)

// tcpSynSent is the conntrack state of a connection whose first packet had no answer
// (include/uapi/linux/netfilter/nf_conntrack_tcp.h).
const tcpSynSent = 1

// conntrackFlows lists the flows of TCP, UDP and SCTP.
func conntrackFlows() ([]explain.Flow, error) {
	var flows []explain.Flow
	for _, family := range []vnetlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		list, err := vnetlink.ConntrackTableList(vnetlink.ConntrackTable, family)
		if err != nil {
			return nil, fmt.Errorf("list conntrack: %w", err)
		}
		for _, f := range list {
			protocol := ipvsutil.Protocol(f.Forward.Protocol)
			if protocol != ipvsutil.TCP && protocol != ipvsutil.UDP && protocol != ipvsutil.SCTP {
				continue
			}
			to, okTo := netip.AddrFromSlice(f.Forward.DstIP)
			real, okReal := netip.AddrFromSlice(f.Reverse.SrcIP)
			if !okTo || !okReal {
				continue
			}
			tcp, isTCP := f.ProtoInfo.(*vnetlink.ProtoInfoTCP)
			flows = append(flows, explain.Flow{
				Frontend:   ipvsutil.Key{Addr: netip.AddrPortFrom(to.Unmap(), f.Forward.DstPort), Protocol: protocol},
				Real:       netip.AddrPortFrom(real.Unmap(), f.Reverse.SrcPort),
				Unanswered: isTCP && tcp.State == tcpSynSent,
			})
		}
	}
	return flows, nil
}
