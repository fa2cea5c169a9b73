package plan_test

import (
	"fmt"
	"testing"

	"kube-ipvs-proxy/proxier/plan"
)

func TestLoopbackNodePorts(t *testing.T) {
	const world = `
		type NodePort
		clusterIP 10.96.0.1 fd96::1
		nodePortAddrs
		port web TCP 80 30080
		port dns UDP 53 30053
		port idle TCP 90 30090
		port inner TCP 91
		endpoint web TCP 10.244.0.1:8080 other ready
		endpoint dns UDP 10.244.0.1:53 other ready
		endpoint inner TCP 10.244.0.1:91 other ready
	`
	for _, test := range []struct{ name, more, want string }{
		{"no address of the node", "", "[{30080 10.96.0.1:80}]"},
		{"with one", "nodePortAddrs 192.0.2.11", "[{30080 192.0.2.11:30080}]"},
		{"of the other family alone", "nodePortAddrs fd00::11", "[{30080 10.96.0.1:80}]"},
		{"local policy", "etp Local", "[{30080 10.96.0.1:80}]"},
		{"both families", "endpoint web TCP [fd44::1]:8080 other ready", "[{30080 10.96.0.1:80} {30080 [fd96::1]:80}]"},
	} {
		w := parseWorld(t, world+test.more)
		w.config.LoopbackNodePorts = true
		claims, _ := plan.For(&w.service, w.endpoints, w.node, w.config)
		if got := fmt.Sprint(claims.Loopback); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		w.config.LoopbackNodePorts = false
		if claims, _ := plan.For(&w.service, w.endpoints, w.node, w.config); claims.Loopback != nil {
			t.Errorf("%s: %v, not asked for", test.name, claims.Loopback)
		}
	}
}

func TestNoIPv6(t *testing.T) {
	w := parseWorld(t, "clusterIP 10.96.0.1 fd96::1\nport web TCP 80\nendpoint web TCP [fd44::1]:80 other ready")
	w.config.NoIPv6 = true
	claims, _ := plan.For(&w.service, w.endpoints, w.node, w.config)
	if len(claims.Frontends) != 1 || claims.Frontends[0].Server.Key.IsIPv6() {
		t.Errorf("frontends %v, want that of IPv4", claims.Frontends)
	}
}
