package main

import (
	"cmp"
	"context"
	"net/netip"
	"os"
	"slices"
	"time"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/explain"
	"kube-ipvs-proxy/proxier/plan"
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
	Pod      string `json:"pod,omitempty"`
	Node     string `json:"node,omitempty"`
	Weight   uint32 `json:"weight"`
	Active   uint32 `json:"activeConnections"`
	Inactive uint32 `json:"inactiveConnections"`
	Draining bool   `json:"draining,omitempty"`
	State    string `json:"state,omitempty"`
	// Reason, Since and Deadline are those of a drain; an agent knows the times, and the
	// deadline is zero without one.
	Reason   string    `json:"reason,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	Rate     rate      `json:"rate"`

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

// names give the addresses of the kernel the names of Services, pods and nodes; without
// a scene there are none.
type names struct {
	view  view
	scene *scene
	pods  map[netip.Addr]plan.Endpoint
	// drains are those of the agent by server and real server, and changes its count of
	// changes; without an agent there are none.
	drains  map[[2]string]agentDrain
	changes uint64
}

// openNames opens the source of names where one is given.
func openNames(ctx context.Context, v view) (*names, error) {
	inCluster := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	options := v.options
	if v.agent == nil && options.Manifests == "" && options.API.Kubeconfig == "" && options.API.Master == "" && !inCluster {
		return &names{view: v}, nil
	}
	s, err := openScene(ctx, v)
	if err != nil {
		return &names{view: v}, err
	}
	n := &names{view: v, scene: s}
	n.learnPods()
	return n, nil
}

func (n *names) close() {
	if n.scene != nil {
		n.scene.close()
	}
}

// refresh plans again when something changed.
func (n *names) refresh(ctx context.Context) error {
	var told agentDrains
	n.drains = map[[2]string]agentDrain{}
	if err := tellAgent(ctx, drainsRoute, &told); err == nil {
		for _, d := range told.Drains {
			n.drains[[2]string{d.Server, d.Real}] = d
		}
	}
	if n.scene == nil {
		return nil
	}
	if n.view.agent != nil {
		return n.askAgain(ctx, told.Changes)
	}
	select {
	case <-n.scene.source.Changed():
	default:
		return nil
	}
	err := n.scene.again(ctx)
	n.learnPods()
	return err
}

// askAgain has the agent's present view when it changed since the last look.
func (n *names) askAgain(ctx context.Context, changes uint64) error {
	if before := n.changes; before == changes {
		return nil
	} else if n.changes = changes; before == 0 {
		return nil // the first look
	}
	var state agentState
	if err := tellAgent(ctx, stateRoute, &state); err != nil {
		return nil // what was known still counts
	}
	v, err := state.view()
	if err != nil {
		return err
	}
	s, err := openScene(ctx, v)
	if err != nil {
		return err
	}
	n.scene.close()
	n.view, n.scene = v, s
	n.learnPods()
	return nil
}

// learnPods notes the endpoints by address: they have the names of pods and nodes.
func (n *names) learnPods() {
	n.pods = map[netip.Addr]plan.Endpoint{}
	for _, name := range n.scene.source.Names() {
		_, endpoints := n.scene.source.Service(name)
		for _, e := range endpoints {
			n.pods[e.Addr.Addr()] = e
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
	var service *plan.Service
	var endpoints []plan.Endpoint
	if known {
		want, ok := n.scene.Desired.Server(server.Key)
		if ok {
			r.Service, r.Kind = want.Owner.String(), explain.KindOf(n.scene.Desired, server.Key)
			service, endpoints = n.scene.source.Service(want.Owner)
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
			Address: real.Addr.String(), Pod: n.pods[real.Addr.Addr()].Pod, Node: n.pods[real.Addr.Addr()].NodeName, Weight: real.Weight, addr: real.Addr,
			Active: real.Connections.Active, Inactive: real.Connections.Inactive,
			Rate: rate{stats.CPS, stats.PPSIn, stats.PPSOut, stats.BPSIn, stats.BPSOut},
		}
		switch {
		case real.Weight == 0 && !wanted:
			rr.Draining, rr.State = true, "draining"
			if known {
				rr.Reason = explain.WhyLeft(service, endpoints, n.scene.Node, r.Kind, real.Addr)
			}
			d := n.drains[[2]string{r.Server, rr.Address}]
			rr.Since, rr.Deadline = d.Since, d.Deadline
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
