package sight

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// nftables sees what kube-proxy's nftables mode writes: a map that leads frontends to
// chains of Services, and in each a rule with the endpoint, or with a map of several.
type nftables struct{ tables }

// serviceIPs is the map that leads to the Services.
const serviceIPs = "service-ips"

// NFTables opens the sight of kube-proxy's nftables mode in the thread's network
// namespace.
func NFTables(context.Context) (Sight, error) {
	t, err := openTables("kube-proxy")
	if err != nil {
		return nil, err
	}
	return &nftables{t}, nil
}

// chainOf is the name of a Service's chain, after the short hash that it begins with.
func chainOf(s world.Service) string {
	id := s.Namespace + "/" + s.Name + "/tcp/" + s.PortName
	return "service-" + hash(id)[:8] + "-" + id
}

func (k *nftables) Seems(ctx context.Context, w *world.World) (bool, string, error) {
	last := w.Services[w.Probe-1]
	ok, err := k.Serves(ctx, w, last)
	return ok, fmt.Sprintf("no rules of %s in table kube-proxy of IPv4", last.Name), err
}

func (k *nftables) Serves(ctx context.Context, _ *world.World, s world.Service) (bool, error) {
	return k.look(ctx, func() (bool, error) { return k.serves(ctx, s) })
}

func (k *nftables) serves(ctx context.Context, s world.Service) (bool, error) {
	rules, err := k.rules(ctx, chainOf(s))
	if err != nil || len(rules) == 0 {
		return false, err
	}
	rule := rules[len(rules)-1]
	if len(s.Endpoints) == 1 {
		ip := s.Endpoints[0].As4()
		return bytes.Contains(rule, ip[:]), nil
	}
	at := bytes.Index(rule, []byte("__map"))
	if at < 0 {
		return false, nil
	}
	set, _, _ := strings.Cut(string(rule[at:]), "\x00")
	have := map[netip.AddrPort]bool{}
	err = k.elements(ctx, set, func(_, data []byte) {
		if len(data) >= 6 {
			have[addrPort(data[:4], data[4:6])] = true
		}
	})
	if err != nil || len(have) != len(s.Endpoints) {
		return false, err
	}
	for _, e := range s.Backends() {
		if !have[e] {
			return false, nil
		}
	}
	return true, nil
}

// frontends reads the map that leads to the Services.
func (k *nftables) frontends(ctx context.Context) (map[netip.AddrPort]bool, error) {
	have := map[netip.AddrPort]bool{}
	err := k.elements(ctx, serviceIPs, func(key, _ []byte) {
		if len(key) >= 10 { // address, protocol and port, each in four bytes
			have[addrPort(key[:4], key[8:10])] = true
		}
	})
	return have, err
}

func addrPort(ip, port []byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip)), binary.BigEndian.Uint16(port))
}

func (k *nftables) Gone(ctx context.Context, _ *world.World, s world.Service) (bool, error) {
	return k.look(ctx, func() (bool, error) {
		have, err := k.frontends(ctx)
		return len(have) > 0 && !have[s.Frontend()], err
	})
}

func (k *nftables) Verify(ctx context.Context, w *world.World) error {
	have, err := k.frontends(ctx)
	if err != nil {
		return err
	}
	for _, s := range w.Services {
		if !have[s.Frontend()] {
			return fmt.Errorf("%v is not in %s", s.Frontend(), serviceIPs)
		}
		ok, err := k.serves(ctx, s)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("chain %s has not exactly the endpoints of %s", chainOf(s), s.Name)
		}
	}
	return nil
}
