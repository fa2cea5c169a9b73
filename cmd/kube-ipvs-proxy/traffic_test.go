package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"testing"

	"github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/health"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

// counted is a kernel with servers of 10.96.0.N:80 and what each has carried.
type counted map[byte]ipvs.SvcStats

func (c counted) read() ([]*ipvs.Service, error) {
	var list []*ipvs.Service
	for n, stats := range c {
		list = append(list, &ipvs.Service{
			Address: net.IPv4(10, 96, 0, n).To4(), Port: 80, Protocol: unix.IPPROTO_TCP, AddressFamily: unix.AF_INET, Stats: stats,
		})
	}
	return list, nil
}

// owned are those servers, each of a Service sN.
func owned(numbers ...byte) map[ipvsutil.Key]ledger.Server {
	servers := map[ipvsutil.Key]ledger.Server{}
	for _, n := range numbers {
		list, _ := counted{n: {}}.read()
		servers[keyOf(list[0])] = ledger.Server{Owner: plan.ServiceName{Namespace: "d", Name: fmt.Sprintf("s%d", n)}}
	}
	return servers
}

func byName(all []health.Traffic) map[string]health.Traffic {
	m := map[string]health.Traffic{}
	for _, t := range all {
		m[t.Name] = t
	}
	return m
}

// TestTraffic adds up by Service, within the limit, through numbers that come round and
// servers that are made anew.
func TestTraffic(t *testing.T) {
	kernel := counted{
		1: {Connections: 1<<32 - 1, PacketsIn: 10, PacketsOut: 20, BytesIn: 100, BytesOut: 200}, 2: {Connections: 5, BytesIn: 50},
		3: {Connections: 7, BytesIn: 70}, 9: {Connections: 99, BytesIn: 999}, // 9 is not ours
	}
	var log bytes.Buffer
	tr := newTraffic(2, kernel.read, slog.New(slog.NewTextHandler(&log, nil)))
	tr.own(maps.All(owned(1, 2, 3)))
	got := byName(tr.now())
	if len(got) != 3 || got["s1"].BytesOut != 200 || got["s2"].Connections != 5 || got[""].BytesIn != 70 {
		t.Fatalf("%+v", got)
	}
	kernel[1] = ipvs.SvcStats{Connections: 2, PacketsIn: 11, PacketsOut: 20, BytesIn: 110, BytesOut: 200}
	kernel[2] = ipvs.SvcStats{Connections: 1, BytesIn: 10} // made anew
	got = byName(tr.now())
	if want := uint64(1<<32 - 1 + 3); got["s1"].Connections != want || got["s1"].PacketsIn != 11 || got["s1"].BytesIn != 110 {
		t.Errorf("s1: %+v, want %d connections", got["s1"], want)
	}
	if got["s2"].Connections != 6 || got["s2"].BytesIn != 60 {
		t.Errorf("s2: %+v", got["s2"])
	}
	tr.own(maps.All(owned(2, 3))) // s1 is gone, and s3 has its place
	kernel[3] = ipvs.SvcStats{Connections: 8, BytesIn: 80}
	got = byName(tr.now())
	if len(got) != 3 || got["s3"].BytesIn != 10 || got[""].BytesIn != 70 || got["s2"].BytesIn != 60 {
		t.Errorf("after a change: %+v", got)
	}
	tr.read = func() ([]*ipvs.Service, error) { return nil, errors.New("busy") }
	for range 3 {
		if again := byName(tr.now()); again["s3"] != got["s3"] {
			t.Errorf("a read that fails: %+v", again)
		}
	}
	if n := strings.Count(log.String(), "busy"); n != 1 {
		t.Errorf("said %d times: %s", n, log.String())
	}
}
