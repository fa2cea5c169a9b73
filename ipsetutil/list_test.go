package ipsetutil

import "testing"

func TestNamesAreUniqueAndFit(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		if len(s.Name) > maxNameLen {
			t.Errorf("%s: %d characters, the kernel takes %d", s.Name, len(s.Name), maxNameLen)
		}
		if seen[s.Name] {
			t.Errorf("%s: name twice", s.Name)
		}
		seen[s.Name] = true
	}
	if want := 2 * int(kinds); len(seen) != want {
		t.Errorf("%d sets, want %d", len(seen), want)
	}
}

func TestNamesOfKubeProxy(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		ipv6 bool
		want string
	}{
		{ClusterIP, false, "KUBE-CLUSTER-IP"},
		{ClusterIP, true, "KUBE-6-CLUSTER-IP"},
		{LoadBalancerSourceCIDR, true, "KUBE-6-LOAD-BALANCER-SOURCE-CID"},
		{NodePortLocalSCTP, true, "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS"},
		{ShortCircuit, true, "KIPVS-6-SHORT-CIRCUIT"},
	} {
		if got := c.kind.Name(c.ipv6); got != c.want {
			t.Errorf("kind %d: %s, want %s", c.kind, got, c.want)
		}
	}
}
