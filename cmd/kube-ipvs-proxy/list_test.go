package main

import (
	"net/netip"
	"strings"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/explain"
)

func listRow(server string, rate rate, reals ...realRow) row {
	key := ipvsutil.Key{Addr: netip.MustParseAddrPort(server), Protocol: ipvsutil.TCP}
	return row{Server: key.String(), key: key, Service: "shop/web", Port: "http", Kind: explain.ClusterIP, Scheduler: "rr", Rate: rate, RealServers: reals}
}

// TestListFits80Columns whatever the names, which keep their ends; wide has them whole.
func TestListFits80Columns(t *testing.T) {
	rows := []row{listRow("10.96.0.10:80", rate{}, realRow{Address: "10.244.100.100:8080", Weight: 1, Active: 12345, Inactive: 678,
		Node: "ip-10-0-123-45.eu-central-1.compute.internal", Pod: "web-of-a-very-long-name-55d8f7c9b4-k2x8p"})}
	var table, wide strings.Builder
	listing{output: "table"}.print(&table, rows)
	got := table.String()
	for line := range strings.Lines(got) {
		if len(line) > usageWidth+2 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	if !strings.Contains(got, "ip-10-0~internal") || !strings.Contains(got, "k2x8p\n") || !strings.HasPrefix(got, "SERVER") {
		t.Errorf("table: %s", got)
	}
	listing{output: "wide"}.print(&wide, rows)
	if !strings.Contains(wide.String(), "ip-10-0-123-45.eu-central-1.compute.internal  web-of-a-very-long-name-55d8f7c9b4-k2x8p") {
		t.Errorf("wide: %s", wide.String())
	}
}

// TestListByTraffic: what moves most comes first when the table is watched.
func TestListByTraffic(t *testing.T) {
	idle, busy, open := listRow("10.96.0.1:80", rate{}), listRow("10.96.0.3:80", rate{BytesOut: 9000}), listRow("10.96.0.2:80", rate{}, realRow{Active: 5})
	servers := func(byTraffic bool) string {
		rows := []row{open, busy, idle}
		sortRows(rows, byTraffic)
		text := ""
		for _, r := range rows {
			text += r.key.Addr.Addr().String() + " "
		}
		return text
	}
	if got := servers(true); got != "10.96.0.3 10.96.0.2 10.96.0.1 " {
		t.Errorf("by traffic: %s", got)
	}
	if got := servers(false); got != "10.96.0.1 10.96.0.2 10.96.0.3 " {
		t.Errorf("by server: %s", got)
	}
}
