package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/health"
	"kube-ipvs-proxy/proxier/netfilter"
)

// flowsOf deletes all it is told to, and fails for IPv6.
type flowsOf struct{}

func (flowsOf) DeleteFlows(_ context.Context, stale []ipvsutil.StaleFlow) (int, error) {
	if stale[0].Frontend.IsIPv6() {
		return 0, errors.New("busy")
	}
	return len(stale), nil
}

func TestCountedFlows(t *testing.T) {
	var told []string
	c := countedFlows{flowsOf{}, func(f health.Family, _ time.Duration, n int) { told = append(told, fmt.Sprint(f, n)) }}
	flow := func(addr string) ipvsutil.StaleFlow {
		return ipvsutil.StaleFlow{Frontend: ipvsutil.Key{Addr: netip.MustParseAddrPort(addr), Protocol: ipvsutil.UDP}}
	}
	n, err := c.DeleteFlows(t.Context(), []ipvsutil.StaleFlow{flow("10.96.0.1:53"), flow("[fd96::1]:53"), flow("10.96.0.2:53")})
	if n != 2 || err == nil || !slices.Equal(told, []string{"IPv4 2", "IPv6 0"}) {
		t.Errorf("%d, %v, told %q", n, err, told)
	}
	if n, err := c.DeleteFlows(t.Context(), nil); n != 0 || err != nil || len(told) != 2 {
		t.Errorf("of none: %d, %v, told %q", n, err, told)
	}
}

func TestFailedRestores(t *testing.T) {
	failed := func(program string) error {
		return fmt.Errorf("rules: %w", &netfilter.CommandError{Program: program, Err: errors.New("exit status 4")})
	}
	got := failedRestores([]error{
		failed("/usr/sbin/iptables-nft-restore"), failed("/usr/sbin/ip6tables-restore"), failed("/usr/sbin/iptables-save"), errors.New("other"),
	})
	if want := []health.Family{health.IPv4, health.IPv6}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
