package health

import (
	"strings"
	"testing"
)

// TestTraffic shows what is read, and nothing before it is asked for.
func TestTraffic(t *testing.T) {
	m := New(Config{})
	for name := range scrape(t, m).types {
		if strings.HasPrefix(name, "kube_ipvs_proxy_service_") && name != "kube_ipvs_proxy_service_problems" {
			t.Errorf("%s is there, though traffic is off", name)
		}
	}
	m.ShowTraffic(func() []Traffic {
		return []Traffic{{Namespace: "d", Name: "web", Connections: 1, PacketsIn: 2, PacketsOut: 3, BytesIn: 4, BytesOut: 5}, {Connections: 9}}
	})
	e := scrape(t, m)
	for sample, value := range map[string]float64{
		`kube_ipvs_proxy_service_connections_total{namespace="d",service="web"}`:             1,
		`kube_ipvs_proxy_service_connections_total{namespace="",service=""}`:                 9,
		`kube_ipvs_proxy_service_packets_total{direction="in",namespace="d",service="web"}`:  2,
		`kube_ipvs_proxy_service_packets_total{direction="out",namespace="d",service="web"}`: 3,
		`kube_ipvs_proxy_service_bytes_total{direction="in",namespace="d",service="web"}`:    4,
		`kube_ipvs_proxy_service_bytes_total{direction="out",namespace="d",service="web"}`:   5,
	} {
		e.want(t, sample, value)
	}
	if kind := e.types["kube_ipvs_proxy_service_bytes_total"]; kind != "counter" {
		t.Errorf("bytes are a %s", kind)
	}
}
