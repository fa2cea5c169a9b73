package main

import (
	"context"
	"iter"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/kernel"
	"kube-ipvs-proxy/proxier"
	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/explain"
	"kube-ipvs-proxy/proxier/host"
	"kube-ipvs-proxy/proxier/netfilter"
	"kube-ipvs-proxy/proxier/reserve"
)

// askLimit is how long the agent may take to answer.
const askLimit = 3 * time.Second

// askAgent asks the health server of the agent on this node, and returns what came and
// whether the agent is healthy. The answer is empty when the server is turned off.
func askAgent(ctx context.Context, options config.Options) (answer string, healthy bool) {
	at, err := netip.ParseAddrPort(options.HealthAddress)
	if err != nil {
		return "", false
	}
	if at.Addr().IsUnspecified() {
		loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if at.Addr().Is6() {
			loopback = netip.IPv6Loopback()
		}
		at = netip.AddrPortFrom(loopback, at.Port())
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	url := "http://" + at.String() + "/healthz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error(), false
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy of the environment
	response, err := client.Do(request)
	if err != nil {
		return err.Error(), false
	}
	_ = response.Body.Close()
	return url + ": " + response.Status, response.StatusCode == http.StatusOK
}

// settingFacts reads settings of the kernel; what cannot be read stays zero.
func (s *scene) settingFacts(ctx context.Context, f *explain.Facts) {
	f.NFTables = netfilter.OtherTables()
	f.StrictReversePath = strictReversePath()
	f.ReversePathDrops = counter("netstat", "TcpExt", "IPReversePathFilter")
	f.TooBig = counter("snmp", "Ip", "FragFails")
	f.PodPath, f.FarPath = s.ways()
	f.ARPIgnore = setting("net/ipv4/conf/all/arp_ignore")
	f.NodePorts = parseRange(strings.ReplaceAll(s.nodePortRange, "-", " "))
	f.LocalPorts = parseRange(setting("net/ipv4/ip_local_port_range"))
	if reserved, err := reserve.Read(host.ProcSys); err == nil {
		f.Reserved = reserves(reserved, s.Desired.Members(), f.LocalPorts)
	}
	f.ConntrackCount, f.ConntrackMax = number("net/netfilter/nf_conntrack_count"), number("net/netfilter/nf_conntrack_max")
	f.ConntrackTCP = number("net/netfilter/nf_conntrack_tcp_timeout_established")
	if text, err := os.ReadFile(host.Sys + "/module/ip_vs/parameters/conn_tab_bits"); err == nil {
		f.ConnTabBits, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	ipvs, err := kernel.Open(ctx)
	if err != nil {
		return
	}
	defer func() { _ = ipvs.Close() }()
	if t, err := ipvs.Timeouts(ctx); err == nil {
		f.IPVSTCP = int(t.TCP)
		f.ConntrackTCP = min(f.ConntrackTCP, ipvsutil.MaxTimeout)
	}
}

func setting(key string) string {
	text, err := os.ReadFile(filepath.Join(host.ProcSys, key))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func number(key string) int {
	n, err := strconv.Atoi(setting(key))
	if err != nil {
		return 0
	}
	return n
}

// parseRange reads two numbers; what is none gives no range.
func parseRange(text string) explain.Range {
	f := strings.Fields(text)
	if len(f) != 2 {
		return explain.Range{}
	}
	from, errFrom := strconv.Atoi(f[0])
	to, errTo := strconv.Atoi(f[1])
	if errFrom != nil || errTo != nil {
		return explain.Range{}
	}
	return explain.Range{From: from, To: to}
}

// reserves tells whether all active NodePorts that are in the range of the node's own
// connections are reserved.
func reserves(reserved map[uint16]bool, desired iter.Seq2[ipsetutil.Member, uint32], local explain.Range) bool {
	for m := range desired {
		port := int(m.Entry.Port)
		if proxier.IsNodePort(m) && local.From <= port && port <= local.To && !reserved[m.Entry.Port] {
			return false
		}
	}
	return true
}

// strictReversePath names devices whose packets must come by the route back. Of the
// setting for all devices and the one of a device the higher counts.
func strictReversePath() []string {
	root := filepath.Join(host.ProcSys, "net/ipv4/conf")
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil
	}
	all := number("net/ipv4/conf/all/rp_filter")
	var strict []string
	for _, e := range entries {
		name := e.Name()
		if slices.Contains([]string{"all", "default", "lo", ipvsutil.Device}, name) {
			continue
		}
		if max(all, number("net/ipv4/conf/"+name+"/rp_filter")) == 1 {
			strict = append(strict, name)
		}
	}
	return strict
}

// boundExternal are addresses on kube-ipvs0 that are no ClusterIPs.
func (s *scene) boundExternal(o explain.Observed) []netip.Addr {
	clusterIPs := map[netip.Addr]bool{}
	for _, name := range s.source.Names() {
		if service, _ := s.source.Service(name); service != nil {
			for _, a := range service.ClusterIPs {
				clusterIPs[a] = true
			}
		}
	}
	var external []netip.Addr
	for a := range o.Bound {
		if !clusterIPs[a] && s.Desired.Bound(a) {
			external = append(external, a)
		}
	}
	slices.SortFunc(external, netip.Addr.Compare)
	return external
}
