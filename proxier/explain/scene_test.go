package explain

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s: want -, have +\n%s", path, diff)
	}
}

func addr(s string) netip.Addr   { return netip.MustParseAddr(s) }
func at(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// world is a node with Services.
type world struct {
	node      Node
	services  map[string]*plan.Service
	endpoints map[string][]plan.Endpoint
}

var thisNode = plan.Node{
	Name: "node-1", Zone: "z1", IPs: []netip.Addr{addr("192.0.2.1")},
	Addrs: []netip.Addr{addr("192.0.2.1")}, NodePortAddrs: []netip.Addr{addr("192.0.2.1")},
}

// service makes a Service that is older than those made after it.
func (w *world) service(name string, change func(*plan.Service), endpoints ...plan.Endpoint) {
	s := &plan.Service{
		Name: plan.ServiceName{Namespace: "shop", Name: name}, Created: time.Unix(int64(len(w.services)), 0),
		ClusterIPs: []netip.Addr{addr("10.96.0.10")}, Ports: []plan.Port{{Name: "http", Protocol: ipvsutil.TCP, Port: 80}},
	}
	change(s)
	w.services[name], w.endpoints[name] = s, endpoints
}

// endpoint is ready on a node, unless changed.
func endpoint(address, node string, change ...func(*plan.Endpoint)) plan.Endpoint {
	e := plan.Endpoint{PortName: "http", Protocol: ipvsutil.TCP, Addr: at(address), NodeName: node, Ready: true, Serving: true}
	for _, c := range change {
		c(&e)
	}
	return e
}

func newWorld() *world {
	return &world{services: map[string]*plan.Service{}, endpoints: map[string][]plan.Endpoint{}}
}

// settle plans all, and has the kernel equal the plan.
func (w *world) settle() {
	desired := ledger.New(0, 14)
	desired.Replace(ledger.Owner{}, plan.ForNode(thisNode))
	for name, s := range w.services {
		claims, _ := plan.For(s, w.endpoints[name], thisNode, plan.Config{})
		desired.Replace(ledger.Owner{Name: s.Name, Created: s.Created}, claims)
	}
	w.node = Node{Desired: desired, Node: thisNode, Detector: [2]bool{true, true}, Observed: settled(desired)}
}

// compare looks for differences.
func (w *world) compare() []Difference {
	w.node.Differences = Compare(w.node.Desired, w.node.Observed)
	return w.node.Differences
}

// explain returns the text about a Service.
func (w *world) explain(name string, from Client) string {
	w.compare()
	s := w.services[name]
	_, problems := plan.For(s, w.endpoints[name], thisNode, plan.Config{})
	q := Question{Name: s.Name, Service: s, Endpoints: w.endpoints[name], Problems: problems, From: from}
	text := ""
	for _, p := range Explain(q, w.node) {
		text += p.Text() + "\n"
	}
	return text
}

// settled is a kernel that has what is desired, and nothing else.
func settled(desired *ledger.Ledger) Observed {
	o := Observed{
		Device: true, Bound: map[netip.Addr]bool{}, Captured: map[netip.Addr]bool{}, PolicyRules: [2]bool{true, true}, IPv6: true,
		Servers: map[ipvsutil.Key]Server{}, Members: map[string]map[ipsetutil.Entry]uint32{},
		Owns: func(ipvsutil.Key) bool { return true },
	}
	for key, s := range desired.Servers() {
		server := Server{VirtualServer: s.VirtualServer}
		for _, r := range s.RealServers {
			server.RealServers = append(server.RealServers, ipvsutil.RealServerState{RealServer: r})
		}
		o.Servers[key] = server
	}
	for _, set := range ipsetutil.All() {
		o.Members[set.Name] = map[ipsetutil.Entry]uint32{}
	}
	for m, mark := range desired.Members() {
		o.Members[m.Set][m.Entry] = mark
	}
	for a := range desired.BoundAddrs() {
		o.Bound[a] = true
	}
	for a := range desired.CapturedAddrs() {
		o.Captured[a] = true
	}
	return o
}
