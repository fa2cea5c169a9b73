package main

import (
	"cmp"
	"context"
	"net/netip"
	"os"
	"slices"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/explain"
)

// row is one virtual server with its real servers.
type row struct {
	Server  string `json:"server"`
	Service string `json:"service,omitempty"`
	// Port is the name of the Service's port, Kind what the frontend is to it.
	Port        string       `json:"port,omitempty"`
	Kind        explain.Kind `json:"kind,omitempty"`
	Scheduler   string       `json:"scheduler"`
	Persistence uint32       `json:"persistenceSeconds,omitempty"`
	Flags       uint32       `json:"flags,omitempty"`
	// State says what is not as planned, or that the server drains.
	State       string    `json:"state,omitempty"`
	Rate        rate      `json:"rate"`
	RealServers []realRow `json:"realServers"`

	key ipvsutil.Key
}

type realRow struct {
	Address  string `json:"address"`
	Node     string `json:"node,omitempty"`
	Weight   uint32 `json:"weight"`
	Active   uint32 `json:"activeConnections"`
	Inactive uint32 `json:"inactiveConnections"`
	Draining bool   `json:"draining,omitempty"`
	State    string `json:"state,omitempty"`
	Rate     rate   `json:"rate"`

	addr netip.AddrPort
}

// rate is what IPVS estimates, each a second.
type rate struct {
	Connections uint32 `json:"connections"`
	PacketsIn   uint32 `json:"packetsIn"`
	PacketsOut  uint32 `json:"packetsOut"`
	BytesIn     uint32 `json:"bytesIn"`
	BytesOut    uint32 `json:"bytesOut"`
}

// names give the addresses of the kernel the names of Services and nodes; without a
// scene there are none.
type names struct {
	scene *scene
	nodes map[netip.Addr]string
}

// openNames opens the source of names where one is given.
func openNames(ctx context.Context, options config.Options) (*names, error) {
	inCluster := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	if options.Manifests == "" && options.API.Kubeconfig == "" && options.API.Master == "" && !inCluster {
		return &names{}, nil
	}
	s, err := openScene(ctx, options)
	if err != nil {
		return &names{}, err
	}
	n := &names{scene: s}
	n.learnNodes()
	return n, nil
}

func (n *names) close() {
	if n.scene != nil {
		n.scene.close()
	}
}

// refresh plans again when something changed.
func (n *names) refresh(ctx context.Context) error {
	if n.scene == nil {
		return nil
	}
	select {
	case <-n.scene.source.Changed():
	default:
		return nil
	}
	err := n.scene.again(ctx)
	n.learnNodes()
	return err
}

// learnNodes notes on which node each endpoint is.
func (n *names) learnNodes() {
	n.nodes = map[netip.Addr]string{}
	for _, name := range n.scene.source.Names() {
		_, endpoints := n.scene.source.Service(name)
		for _, e := range endpoints {
			n.nodes[e.Addr.Addr()] = e.NodeName
		}
	}
}

// row names what was seen.
func (n *names) row(s seen) row {
	server := s.server()
	r := row{
		Server: server.Key.String(), Scheduler: server.Scheduler, Persistence: server.Persistence, Flags: uint32(server.Flags),
		RealServers: []realRow{}, key: server.Key,
		Rate: rate{s.service.Stats.CPS, s.service.Stats.PPSIn, s.service.Stats.PPSOut, s.service.Stats.BPSIn, s.service.Stats.BPSOut},
	}
	planned := map[netip.AddrPort]uint32{}
	known := n.scene != nil
	if known {
		want, ok := n.scene.Desired.Server(server.Key)
		if ok {
			r.Service, r.Kind = want.Owner.String(), explain.KindOf(n.scene.Desired, server.Key)
			service, _ := n.scene.source.Service(want.Owner)
			if port, ok := explain.PortOf(service, r.Kind, server.Key); ok {
				r.Port = port.Name
			}
		} else {
			r.State = "not planned"
		}
		for _, real := range want.RealServers {
			planned[real.Addr] = real.Weight
		}
	}
	for i, real := range server.RealServers {
		weight, wanted := planned[real.Addr]
		stats := s.reals[i].Stats
		rr := realRow{
			Address: real.Addr.String(), Node: n.nodes[real.Addr.Addr()], Weight: real.Weight, addr: real.Addr,
			Active: real.Connections.Active, Inactive: real.Connections.Inactive,
			Rate: rate{stats.CPS, stats.PPSIn, stats.PPSOut, stats.BPSIn, stats.BPSOut},
		}
		switch {
		case real.Weight == 0 && !wanted:
			rr.Draining, rr.State = true, "draining"
		case known && !wanted:
			rr.State = "not planned"
		case known && weight != real.Weight:
			rr.State = "weight not as planned"
		}
		r.RealServers = append(r.RealServers, rr)
	}
	slices.SortFunc(r.RealServers, func(a, b realRow) int { return a.addr.Compare(b.addr) })
	return r
}

// sortRows sorts by server, or by traffic.
func sortRows(rows []row, byTraffic bool) {
	traffic := func(r row) uint64 {
		if !byTraffic {
			return 0
		}
		n := uint64(r.Rate.BytesIn) + uint64(r.Rate.BytesOut)
		for _, real := range r.RealServers {
			n += uint64(real.Active)
		}
		return n
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(traffic(b), traffic(a)), a.key.Compare(b.key))
	})
}
