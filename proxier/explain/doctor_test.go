package explain

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestDiagnoseAHealthyNode(t *testing.T) {
	for _, f := range Diagnose(Facts{
		Agent: "ok", AgentFine: true, AcceptInput: true, ConntrackCount: 10, ConntrackMax: 1000, IPVSTCP: 86400, ConntrackTCP: 86400,
		NodePorts: Range{30000, 32767}, LocalPorts: Range{32768, 60999}, ARPIgnore: "0",
	}) {
		if f.Level != OK {
			t.Errorf("%+v", f)
		}
	}
}

// TestDiagnose names each trap, with what to do next.
func TestDiagnose(t *testing.T) {
	var text strings.Builder
	for _, f := range Diagnose(Facts{
		Missing: []Finding{{Fault, "the node lacks dummy: no module", "modprobe dummy"}},
		Agent:   "connection refused",
		Differences: []Difference{
			{Kind: "real server", Object: "a -> b", Fine: true},
			{Kind: "address", Object: "10.96.0.10", Means: "clients time out"},
		},
		Unknown:  map[Part]error{Servers: errors.New("operation not permitted")},
		Problems: []string{"shop/a: x", "shop/b: x", "shop/c: x", "shop/d: x"}, Conflicts: []string{"10.96.0.10:80/tcp: shop/a, shop/b"}, LocalOnly: []string{"shop/e"},
		Policies:  map[string]string{"IPv4 filter FORWARD": "DROP", "IPv6 filter INPUT": "DROP"},
		OtherMode: []string{"IPv4 nat KUBE-SVC-A"}, NFTables: []string{"ip kube-proxy"},
		StrictReversePath: []string{"eth0"}, ReversePathDrops: 7, TooBig: 3,
		PodPath: Way{"cbr0", 1500, "10.244.1.10"}, FarPath: Way{"eth0", 1400, "10.244.2.10"},
		BoundExternal: []string{"203.0.113.7"}, ARPIgnore: "0",
		NodePorts: Range{30000, 32767}, LocalPorts: Range{1024, 60999},
		ConntrackCount: 990, ConntrackMax: 1000, IPVSTCP: 900, ConntrackTCP: 86400,
	}) {
		fmt.Fprintf(&text, "%s: %s\n  next: %s\n", f.Level, f.What, f.Next)
		if f.Level != OK && f.Next == "" {
			t.Errorf("%+v does not say what to do", f)
		}
	}
	golden(t, "doctor", text.String())
}

// TestReservedPortsAreNoOverlap, nor is a high but not full table a fault.
func TestDiagnoseLimits(t *testing.T) {
	level := func(f Facts) Level { return Diagnose(f)[0].Level }
	if l := level(Facts{ConntrackCount: 80, ConntrackMax: 100}); l != Warning {
		t.Errorf("80 of 100 is a %s", l)
	}
	if l := level(Facts{ConntrackCount: 79, ConntrackMax: 100}); l != OK {
		t.Errorf("79 of 100 is a %s", l)
	}
	if l := level(Facts{StrictReversePath: []string{"eth0"}}); l != Note {
		t.Errorf("rp_filter that dropped nothing is a %s", l)
	}
	if l := level(Facts{ConntrackMax: 10, PodPath: Way{MTU: 1400}, FarPath: Way{MTU: 1400}}); l != OK {
		t.Errorf("one MTU everywhere is a %s", l)
	}
	if l := level(Facts{NodePorts: Range{30000, 32767}, LocalPorts: Range{32767, 60999}}); l != Warning {
		t.Errorf("an overlap of one port is a %s", l)
	}
	if l := level(Facts{NodePorts: Range{30000, 32767}, LocalPorts: Range{1024, 60999}, Reserved: true}); l != OK {
		t.Errorf("reserved ports are a %s", l)
	}
}

// TestCaseI7SmallConnectionTable (kubernetes/kubernetes#65820): many connections in few
// chains are told, and what to do.
func TestCaseI7SmallConnectionTable(t *testing.T) {
	f := Facts{ConntrackMax: 10_000_000, ConntrackCount: 500_000, ConnTabBits: 12}
	found := Diagnose(f)[0]
	if found.Level != Warning || !strings.Contains(found.What, "IPVS has 4096 chains") || !strings.Contains(found.Next, "conn_tab_bits=20") {
		t.Errorf("half a million connections in 4,096 chains: %+v", found)
	}
	for _, bits := range []int{0, 15, 20} {
		if f.ConnTabBits = bits; Diagnose(f)[0].Level != OK {
			t.Errorf("conn_tab_bits %d: %+v", bits, Diagnose(f)[0])
		}
	}
}
