package host

import (
	"strconv"
	"time"
)

// SysctlOptions say which settings the proxy needs.
type SysctlOptions struct {
	Release   string // of the kernel, see KernelRelease
	IPv6      bool   // IPv6 Services are served
	StrictARP bool   // ipvs.strictARP of the configuration
}

// Sysctls lists the settings below ProcSys that the proxy needs. IPv6 forwarding is
// only told, because switching it on changes how the node treats router
// advertisements. Settings that are not here are never written.
func Sysctls(o SysctlOptions) []Sysctl {
	reuse := Sysctl{Key: "net/ipv4/vs/conn_reuse_mode", Want: "1",
		Breaks: "a client that reuses its port reaches an endpoint that is going away"}
	if !kernelAtLeast(o.Release, 5, 9) {
		// Before 5.9, mode 1 with conntrack delays such a connection by a second.
		reuse.Want, reuse.Breaks = "0", "a client that reuses its port waits a second for each connection"
	}
	list := []Sysctl{
		{Key: "net/ipv4/vs/conntrack", Want: "1", Breaks: "connections are not masqueraded, so answers of endpoints get lost"},
		{Key: "net/ipv4/vs/expire_nodest_conn", Want: "1", Breaks: "packets to a deleted endpoint vanish until the connection times out"},
		{Key: "net/ipv4/vs/expire_quiescent_template", Want: "1", Breaks: "clients with session affinity stick to an endpoint that is going away"},
		reuse,
		{Key: "net/ipv4/ip_forward", Want: "1", Breaks: "clients on other hosts and in pods get no answer"},
	}
	if o.IPv6 {
		list = append(list, Sysctl{Key: "net/ipv6/conf/all/forwarding", Want: "1", Rule: ReportSysctl,
			Breaks: "IPv6 clients on other hosts and in pods get no answer; set it to 1 on this node"})
	}
	if o.StrictARP {
		const breaks = "the node answers ARP for addresses of Services (strictARP)"
		list = append(list,
			Sysctl{Key: "net/ipv4/conf/all/arp_ignore", Want: "1", Breaks: breaks},
			Sysctl{Key: "net/ipv4/conf/all/arp_announce", Want: "2", Breaks: breaks})
	}
	return list
}

// Conntrack are the settings of connection tracking as in KubeProxyConfiguration.
// The zero value leaves everything alone.
type Conntrack struct {
	MaxPerCore     int32 // entries an online CPU; zero: the size of the table is left alone
	Min            int32 // least size of the table when MaxPerCore is set
	TCPEstablished time.Duration
	TCPCloseWait   time.Duration
	UDP            time.Duration
	UDPStream      time.Duration
	TCPBeLiberal   bool
	// LeastUDP is how long IPVS was told to keep a UDP flow. Where UDP or UDPStream is
	// zero, a smaller limit is raised to it: after conntrack's the endpoint's answers are
	// not taken for those of the Service (kubernetes/kubernetes#120076). Zero: no matter.
	LeastUDP time.Duration
}

// maxConntrack bounds what MaxPerCore asks for on hosts with many CPUs, as in kube-proxy.
const maxConntrack = 1 << 20

// Max is the size of the table for so many online CPUs, zero: leave it alone.
func (c Conntrack) Max(cpus int) int {
	if c.MaxPerCore <= 0 {
		return 0
	}
	scaled := int(c.MaxPerCore) * cpus
	if scaled > maxConntrack {
		return maxConntrack // even if Min is larger
	}
	return max(scaled, int(c.Min))
}

// Sysctls lists the settings below ProcSys for so many online CPUs.
func (c Conntrack) Sysctls(cpus int) []Sysctl {
	var list []Sysctl
	if n := c.Max(cpus); n > 0 {
		list = append(list, Sysctl{Key: "net/netfilter/nf_conntrack_max", Want: strconv.Itoa(n), Rule: RaiseSysctl,
			Breaks: "new connections are dropped when the smaller table is full"})
	}
	for _, t := range []struct {
		name  string
		value time.Duration
	}{
		{"tcp_timeout_established", c.TCPEstablished},
		{"tcp_timeout_close_wait", c.TCPCloseWait},
		{"udp_timeout", c.UDP},
		{"udp_timeout_stream", c.UDPStream},
	} {
		if t.value > 0 {
			list = append(list, Sysctl{Key: "net/netfilter/nf_conntrack_" + t.name, Want: strconv.Itoa(int(t.value / time.Second)),
				Breaks: "idle connections end at another time than configured"})
		}
	}
	list = append(list, c.leastUDP()...)
	if c.TCPBeLiberal {
		list = append(list, Sysctl{Key: "net/netfilter/nf_conntrack_tcp_be_liberal", Want: "1",
			Breaks: "packets outside of the TCP window are treated as invalid"})
	}
	return list
}

// leastUDP raises limits of UDP that were not chosen to that of IPVS.
func (c Conntrack) leastUDP() []Sysctl {
	var list []Sysctl
	for _, t := range []struct {
		name   string
		chosen time.Duration
	}{{"udp_timeout", c.UDP}, {"udp_timeout_stream", c.UDPStream}} {
		if c.LeastUDP > 0 && t.chosen == 0 {
			list = append(list, Sysctl{Key: "net/netfilter/nf_conntrack_" + t.name, Want: strconv.Itoa(int(c.LeastUDP / time.Second)),
				Rule: RaiseSysctl, Breaks: "UDP flows end before the time that IPVS was given"})
		}
	}
	return list
}

// HashSize lists the one setting below Sys that goes with the size of the table.
func (c Conntrack) HashSize(cpus int) []Sysctl {
	n := c.Max(cpus)
	if n == 0 {
		return nil
	}
	return []Sysctl{{Key: "module/nf_conntrack/parameters/hashsize", Want: strconv.Itoa(n / 4), Rule: RaiseSysctl,
		Breaks: "long chains make each new connection slower"}}
}
