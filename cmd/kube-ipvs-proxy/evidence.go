package main

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/explain"
	"kube-ipvs-proxy/proxier/netfilter"
)

// evidence collects what packets left behind; nil when not even conntrack can be read.
func evidence(rules netfilter.Inspection, flows []explain.Flow) *explain.Evidence {
	e := &explain.Evidence{Flows: flows}
	for _, c := range rules.Counters {
		e.Counters = append(e.Counters, explain.Counter(c))
	}
	f, err := os.Open("/proc/thread-self/net/ip_vs_conn")
	if err != nil {
		return e
	}
	defer func() { _ = f.Close() }()
	e.Connections, _ = parseConnections(f) // the rest of a list that breaks off is not shown
	return e
}

// parseConnections counts the lines of /proc/net/ip_vs_conn by frontend and state:
// protocol, client, frontend and real server with a port each, all in hexadecimal (IPv6
// addresses in brackets), then the state. What is no connection of a client (templates of
// persistence) has the state NONE and is left out.
func parseConnections(r io.Reader) (map[ipvsutil.Key]map[string]int, error) {
	counts := map[ipvsutil.Key]map[string]int{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		w := strings.Fields(lines.Text())
		if len(w) < 8 || w[7] == "NONE" {
			continue
		}
		key, err := connectionKey(w[0], w[3], w[4])
		if err != nil {
			continue // the headline
		}
		if counts[key] == nil {
			counts[key] = map[string]int{}
		}
		counts[key][w[7]]++
	}
	return counts, lines.Err()
}

func connectionKey(protocol, addr, port string) (ipvsutil.Key, error) {
	p, ok := map[string]ipvsutil.Protocol{"TCP": ipvsutil.TCP, "UDP": ipvsutil.UDP, "SCTP": ipvsutil.SCTP}[protocol]
	if !ok {
		return ipvsutil.Key{}, fmt.Errorf("protocol %q", protocol)
	}
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return ipvsutil.Key{}, err
	}
	if text, ok := strings.CutPrefix(addr, "["); ok {
		ip, err := netip.ParseAddr(strings.TrimSuffix(text, "]"))
		return ipvsutil.Key{Addr: netip.AddrPortFrom(ip, uint16(number)), Protocol: p}, err
	}
	ip, err := strconv.ParseUint(addr, 16, 32)
	if err != nil {
		return ipvsutil.Key{}, err
	}
	from := netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)})
	return ipvsutil.Key{Addr: netip.AddrPortFrom(from, uint16(number)), Protocol: p}, nil
}
