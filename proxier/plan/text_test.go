package plan_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// world is what the plan of one Service is made from.
type world struct {
	service   plan.Service
	endpoints []plan.Endpoint
	node      plan.Node
	config    plan.Config
}

// fixture is a dual-stack node n in zone z1 with two devices; eth0 serves NodePorts.
func fixture() world {
	return world{
		service: plan.Service{Name: plan.ServiceName{Namespace: "default", Name: "web"}},
		node: plan.Node{
			Name: "n", Zone: "z1",
			IPs:           addrs("192.0.2.11 2001:db8::11"),
			Addrs:         addrs("192.0.2.11 192.0.2.50 2001:db8::11 127.0.0.1 ::1"),
			NodePortAddrs: addrs("192.0.2.11 2001:db8::11"),
		},
	}
}

// parseWorld reads the language of testdata, one thing a line:
//
//	type LoadBalancer | etp Local | itp Local | affinity SECONDS | healthCheckNodePort PORT
//	clusterIP ADDR... | externalIP ADDR... | lb ADDR... | ranges PREFIX...
//	port NAME PROTOCOL PORT [NODEPORT]        (NAME "-" is the empty name)
//	endpoint NAME PROTOCOL ADDR:PORT NODE STATE [zones=A,B] [nodes=A,B]
//	node NAME | zone NAME | nodeIPs ADDR... | nodeAddrs ADDR... | nodePortAddrs ADDR...
//	scheduler NAME | bind
//
// STATE is ready, finishing (terminating but serving), gone (terminating, not
// serving), unready, or published (ready although terminating).
func parseWorld(t *testing.T, text string) world {
	t.Helper()
	w := fixture()
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := w.apply(words[0], words[1:]); err != nil {
			t.Fatalf("line %q: %v", strings.TrimSpace(line), err)
		}
	}
	return w
}

func (w *world) apply(verb string, args []string) error {
	s, n := &w.service, &w.node
	list := strings.Join(args, " ")
	switch verb {
	case "type":
		types := map[string]plan.ServiceType{
			"ClusterIP": plan.ClusterIP, "NodePort": plan.NodePort,
			"LoadBalancer": plan.LoadBalancer, "ExternalName": plan.ExternalName,
		}
		var ok bool
		if s.Type, ok = types[list]; !ok {
			return fmt.Errorf("unknown type")
		}
	case "etp":
		s.ExternalLocal = list == "Local"
	case "itp":
		s.InternalLocal = list == "Local"
	case "affinity":
		s.Persistence = uint32(number(list))
	case "healthCheckNodePort":
		s.HealthCheckNodePort = uint16(number(list))
	case "clusterIP":
		s.ClusterIPs = addrs(list)
	case "externalIP":
		s.ExternalIPs = addrs(list)
	case "lb":
		s.LoadBalancerIPs = addrs(list)
	case "ranges":
		for _, a := range args {
			s.SourceRanges = append(s.SourceRanges, netip.MustParsePrefix(a))
		}
	case "port":
		s.Ports = append(s.Ports, parsePort(args))
	case "endpoint":
		e, err := parseEndpoint(args)
		w.endpoints = append(w.endpoints, e)
		return err
	case "node":
		n.Name = list
	case "zone":
		n.Zone = list
	case "nodeIPs":
		n.IPs = addrs(list)
	case "nodeAddrs":
		n.Addrs = addrs(list)
	case "nodePortAddrs":
		n.NodePortAddrs = addrs(list)
	case "scheduler":
		w.config.Scheduler = list
	case "bind":
		w.config.BindExternal = true
	default:
		return fmt.Errorf("unknown word")
	}
	return nil
}

func parsePort(args []string) plan.Port {
	p := plan.Port{Name: named(args[0]), Protocol: protocol(args[1]), Port: uint16(number(args[2]))}
	if len(args) > 3 {
		p.NodePort = uint16(number(args[3]))
	}
	return p
}

func parseEndpoint(args []string) (plan.Endpoint, error) {
	if len(args) < 5 {
		return plan.Endpoint{}, fmt.Errorf("want NAME PROTOCOL ADDR:PORT NODE STATE")
	}
	e := plan.Endpoint{
		PortName: named(args[0]), Protocol: protocol(args[1]),
		Addr: netip.MustParseAddrPort(args[2]), NodeName: named(args[3]),
	}
	switch args[4] {
	case "ready":
		e.Ready, e.Serving = true, true
	case "finishing":
		e.Serving, e.Terminating = true, true
	case "gone":
		e.Terminating = true
	case "unready":
	case "published":
		e.Ready, e.Serving, e.Terminating = true, true, true
	default:
		return e, fmt.Errorf("unknown state %q", args[4])
	}
	for _, hint := range args[5:] {
		kind, names, _ := strings.Cut(hint, "=")
		switch kind {
		case "zones":
			e.Zones = strings.Split(names, ",")
		case "nodes":
			e.Nodes = strings.Split(names, ",")
		default:
			return e, fmt.Errorf("unknown hint %q", hint)
		}
	}
	return e, nil
}

func named(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		panic(err)
	}
	return n
}

func protocol(s string) ipvsutil.Protocol {
	for _, p := range []ipvsutil.Protocol{ipvsutil.TCP, ipvsutil.UDP, ipvsutil.SCTP} {
		if strings.EqualFold(p.String(), s) {
			return p
		}
	}
	return ipvsutil.Protocol(number(s))
}

func addrs(list string) []netip.Addr {
	var as []netip.Addr
	for _, a := range strings.Fields(list) {
		as = append(as, netip.MustParseAddr(a))
	}
	return as
}

// plan runs the plan and returns what it wants in the language of the golden files.
func (w world) plan() string {
	claims, problems := plan.For(&w.service, w.endpoints, w.node, w.config)
	return dump(claims, problems)
}

func dump(c plan.Claims, problems []plan.Problem) string {
	var b strings.Builder
	for _, f := range c.Frontends {
		fmt.Fprint(&b, f.Server)
		if f.ShortCircuit {
			fmt.Fprint(&b, " (short circuit ", portKey(f.Port), ")")
		}
		fmt.Fprintln(&b)
		for _, r := range f.RealServers {
			fmt.Fprintln(&b, "  rs", r)
		}
		for _, m := range f.Members {
			fmt.Fprintln(&b, "  set", m)
		}
	}
	for _, s := range c.ShortCircuits {
		fmt.Fprint(&b, "short circuit ", portKey(s.Port), " ", s.Server.Scheduler)
		if s.Server.Flags != 0 {
			fmt.Fprintf(&b, " flags %#x", uint32(s.Server.Flags))
		}
		if s.Server.Persistence != 0 {
			fmt.Fprint(&b, " persistent ", s.Server.Persistence)
		}
		fmt.Fprintln(&b)
		for _, r := range s.RealServers {
			fmt.Fprintln(&b, "  rs", r)
		}
	}
	for _, a := range c.Bound {
		fmt.Fprintln(&b, "addr", a)
	}
	for _, a := range c.Captured {
		fmt.Fprintln(&b, "route", a)
	}
	for _, m := range c.Members {
		fmt.Fprintln(&b, "set", m)
	}
	if h := c.HealthCheck; h != (plan.HealthCheck{}) {
		fmt.Fprintf(&b, "health check %d: %d IPv4, %d IPv6\n", h.Port, h.LocalReady[0], h.LocalReady[1])
	}
	if n := c.NoLocal; n != (plan.NoLocal{}) {
		fmt.Fprintf(&b, "no local endpoint: internal %d IPv4, %d IPv6; external %d IPv4, %d IPv6\n",
			n.Internal[0], n.Internal[1], n.External[0], n.External[1])
	}
	for _, p := range problems {
		fmt.Fprintln(&b, "problem:", p)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func portKey(k plan.PortKey) string {
	family := "IPv4"
	if k.IPv6 {
		family = "IPv6"
	}
	return fmt.Sprintf("%q %s %s", k.Name, k.Protocol, family)
}
