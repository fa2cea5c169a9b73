package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// selected plans a NodePort Service with both policies Local and returns the last
// bytes of the addresses of its lists, such as "cluster 1,3 local 1".
func selected(endpoints []plan.Endpoint) string {
	w := fixture()
	w.endpoints = endpoints
	w.service.Type = plan.NodePort
	w.service.ClusterIPs = addrs("10.96.0.80")
	w.service.ExternalLocal, w.service.InternalLocal = true, true
	w.service.Ports = []plan.Port{{Protocol: ipvsutil.TCP, Port: 80, NodePort: 30080}}
	claims, _ := plan.For(&w.service, w.endpoints, w.node, w.config)
	var cluster, local []ipvsutil.RealServer
	if len(claims.ShortCircuits) > 0 {
		cluster = claims.ShortCircuits[0].RealServers
	}
	for i, f := range claims.Frontends {
		if i > 0 && !slices.Equal(f.RealServers, local) {
			return "the lists for internal and external clients differ"
		}
		local = f.RealServers
	}
	return fmt.Sprintf("cluster %s local %s", lastBytes(cluster), lastBytes(local))
}

func lastBytes(servers []ipvsutil.RealServer) string {
	var texts []string
	for _, r := range servers {
		texts = append(texts, fmt.Sprint(r.Addr.Addr().As4()[3]))
	}
	return strings.Join(texts, ",")
}

func endpoint(last byte, node string, ready, serving, terminating bool) plan.Endpoint {
	return plan.Endpoint{
		Protocol: ipvsutil.TCP, NodeName: node, Ready: ready, Serving: serving, Terminating: terminating,
		Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, last}), 8080),
	}
}

// TestConditions: each combination of the three conditions of one endpoint here.
func TestConditions(t *testing.T) {
	for _, test := range []struct {
		ready, serving, terminating bool
		used                        bool
	}{
		{true, true, false, true},
		{true, true, true, true}, // publishNotReadyAddresses
		{true, false, false, true},
		{true, false, true, true},
		{false, true, true, true}, // KEP-1669
		{false, true, false, false},
		{false, false, true, false},
		{false, false, false, false},
	} {
		want := "cluster  local "
		if test.used {
			want = "cluster 1 local 1"
		}
		got := selected([]plan.Endpoint{endpoint(1, "n", test.ready, test.serving, test.terminating)})
		if got != want {
			t.Errorf("ready %v, serving %v, terminating %v: selected %q, want %q",
				test.ready, test.serving, test.terminating, got, want)
		}
	}
}

// TestTruthTable: which lists come of ready and finishing endpoints here and there.
// Endpoint 1 is ready here, 2 finishing here, 3 ready there, 4 finishing there; each
// column says whether it exists. Endpoints 5 and 6 are unready and always exist.
func TestTruthTable(t *testing.T) {
	for _, test := range []struct{ exist, want string }{
		{"----", "cluster  local "},
		{"---4", "cluster 4 local "},
		{"--3-", "cluster 3 local "},
		{"--34", "cluster 3 local "},
		{"-2--", "cluster 2 local 2"},
		{"-2-4", "cluster 2,4 local 2"},
		{"-23-", "cluster 3 local 2"},
		{"-234", "cluster 3 local 2"},
		{"1---", "cluster 1 local 1"},
		{"1--4", "cluster 1 local 1"},
		{"1-3-", "cluster 1,3 local 1"},
		{"1-34", "cluster 1,3 local 1"},
		{"12--", "cluster 1 local 1"},
		{"12-4", "cluster 1 local 1"},
		{"123-", "cluster 1,3 local 1"},
		{"1234", "cluster 1,3 local 1"},
	} {
		endpoints := []plan.Endpoint{endpoint(5, "n", false, true, false), endpoint(6, "m", false, false, true)}
		for i, e := range []plan.Endpoint{
			endpoint(1, "n", true, true, false), endpoint(2, "n", false, true, true),
			endpoint(3, "m", true, true, false), endpoint(4, "m", false, true, true),
		} {
			if test.exist[i] != '-' {
				endpoints = append(endpoints, e)
			}
		}
		if got := selected(endpoints); got != test.want {
			t.Errorf("endpoints %s: selected %q, want %q", test.exist, got, test.want)
		}
	}
}

// TestForNode: one entry for each address that serves NodePorts, in its family's set.
func TestForNode(t *testing.T) {
	got := dump(plan.ForNode(fixture().node), nil)
	if want := "set KIPVS-NODE-IP 192.0.2.11\nset KIPVS-6-NODE-IP 2001:db8::11\n"; got != want {
		t.Errorf("the node wants\n%swant\n%s", got, want)
	}
}

// TestNoService: a Service that is not there wants nothing.
func TestNoService(t *testing.T) {
	w := fixture()
	claims, problems := plan.For(nil, []plan.Endpoint{endpoint(1, "n", true, true, false)}, w.node, w.config)
	if got := dump(claims, problems); got != "nothing\n" {
		t.Errorf("no Service wants\n%s", got)
	}
}
