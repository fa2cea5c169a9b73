package plan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// TestProperties holds what is true of every plan on random worlds.
func TestProperties(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 5000 {
		bytes := make([]byte, 40+random.IntN(200))
		for j := range bytes {
			bytes[j] = byte(random.Uint32())
		}
		w := randomWorld(&dice{bytes})
		if err := checkPlan(w); err != nil {
			t.Fatalf("seed %d, world %d: %v\n%v\n%s", seed, i, err, w, w.plan())
		}
	}
}

// FuzzFor holds the same on worlds that the fuzzer draws.
func FuzzFor(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a ready endpoint here, another there"))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		w := randomWorld(&dice{bytes})
		if err := checkPlan(w); err != nil {
			t.Fatalf("%v\n%v\n%s", err, w, w.plan())
		}
	})
}

// checkPlan returns the first property that the plan of a world breaks.
func checkPlan(w world) error {
	claims, problems := plan.For(&w.service, w.endpoints, w.node, w.config)
	for _, check := range []func(world, plan.Claims) error{
		checkDeterministic, checkUnique, checkFrontends, checkShortCircuits, checkAddresses, checkMembers,
	} {
		if err := check(w, claims); err != nil {
			return err
		}
	}
	seen := map[plan.Problem]bool{}
	for _, p := range problems {
		if seen[p] {
			return fmt.Errorf("%v is reported twice", p)
		}
		seen[p] = true
	}
	return nil
}

// checkDeterministic: the order in which slices were read makes no difference.
func checkDeterministic(w world, _ plan.Claims) error {
	first := w.plan()
	if again := w.plan(); again != first {
		return fmt.Errorf("the second plan is another:\n%s", again)
	}
	sorted := func(w world) string {
		claims, _ := plan.For(&w.service, w.endpoints, w.node, w.config)
		slices.SortFunc(claims.Members, func(a, b ipsetutil.Member) int {
			return slices.Compare([]string{a.String()}, []string{b.String()})
		})
		return dump(claims, nil)
	}
	reversed := w
	reversed.endpoints = slices.Clone(w.endpoints)
	slices.Reverse(reversed.endpoints)
	if want, got := sorted(w), sorted(reversed); got != want {
		return fmt.Errorf("the plan of reversed endpoints is another:\n%s", got)
	}
	return nil
}

// checkUnique: every key is claimed once, and once within a frontend.
func checkUnique(_ world, c plan.Claims) error {
	keys := map[ipvsutil.Key]bool{}
	for _, f := range c.Frontends {
		if keys[f.Server.Key] {
			return fmt.Errorf("%v is claimed twice", f.Server.Key)
		}
		keys[f.Server.Key] = true
		if repeats(f.Members) {
			return fmt.Errorf("%v has an entry twice: %v", f.Server.Key, f.Members)
		}
	}
	switch {
	case repeats(c.Members):
		return fmt.Errorf("an entry is claimed twice: %v", c.Members)
	case repeats(c.Bound):
		return fmt.Errorf("an address is bound twice: %v", c.Bound)
	case repeats(c.Captured):
		return fmt.Errorf("an address is captured twice: %v", c.Captured)
	}
	return nil
}

func repeats[T comparable](list []T) bool {
	seen := map[T]bool{}
	for _, item := range list {
		if seen[item] {
			return true
		}
		seen[item] = true
	}
	return false
}

// checkRealServers: sorted, distinct, of the server's family, weight 1, and
// endpoints of the Service.
func checkRealServers(w world, key ipvsutil.Key, ipv6 bool, servers []ipvsutil.RealServer) error {
	for i, r := range servers {
		if i > 0 && servers[i-1].Addr.Compare(r.Addr) >= 0 {
			return fmt.Errorf("%v: real servers %v are not sorted and distinct", key, servers)
		}
		if r.Addr.Addr().Is6() != ipv6 || r.Weight != 1 {
			return fmt.Errorf("%v: real server %v", key, r)
		}
		if !slices.ContainsFunc(w.endpoints, func(e plan.Endpoint) bool {
			return e.Addr == r.Addr && (e.Ready || e.Serving && e.Terminating)
		}) {
			return fmt.Errorf("%v: real server %v is no endpoint that can serve", key, r)
		}
	}
	return nil
}

// checkFrontends: the entries say what the real servers are.
func checkFrontends(w world, c plan.Claims) error {
	health := map[ipvsutil.Key]bool{}
	for _, a := range w.service.LoadBalancerIPs {
		if c.HealthCheck.Port != 0 {
			health[ipvsutil.Key{Addr: netip.AddrPortFrom(a, c.HealthCheck.Port), Protocol: ipvsutil.TCP}] = true
		}
	}
	for _, f := range c.Frontends {
		key := f.Server.Key
		kinds := kindsOf(f)
		if health[key] && len(f.Members) == 1 && kinds[ipsetutil.Capture] {
			continue // answered by the node itself
		}
		if err := checkRealServers(w, key, key.IsIPv6(), f.RealServers); err != nil {
			return err
		}
		if err := checkKinds(w, f, kinds); err != nil {
			return fmt.Errorf("%v: %w", key, err)
		}
	}
	return nil
}

// kindsOf returns the kinds of sets in which the frontend itself has an entry.
func kindsOf(f plan.Frontend) map[ipsetutil.Kind]bool {
	kinds := map[ipsetutil.Kind]bool{}
	for kind := ipsetutil.LoopBack; kind <= ipsetutil.Refuse; kind++ {
		m := plan.MemberOf(kind, f.Server.Key)
		for _, have := range f.Members {
			m.Entry.Source = have.Entry.Source
			kinds[kind] = kinds[kind] || have == m
		}
	}
	return kinds
}

func checkKinds(w world, f plan.Frontend, kinds map[ipsetutil.Kind]bool) error {
	count := func(of ...ipsetutil.Kind) (n int) {
		for _, k := range of {
			if kinds[k] {
				n++
			}
		}
		return n
	}
	addr := f.Server.Key.Addr.Addr()
	external := slices.Contains(w.service.ExternalIPs, addr)
	base := count(ipsetutil.ClusterIP, ipsetutil.ExternalIP, ipsetutil.ExternalIPLocal, ipsetutil.LoadBalancer,
		ipsetutil.NodePortTCP, ipsetutil.NodePortUDP, ipsetutil.NodePortSCTP)
	shared := count(ipsetutil.DropAll, ipsetutil.DropOutside, ipsetutil.Refuse)
	switch {
	case base == 0:
		return fmt.Errorf("has no entry in a set of its kind")
	case base > 1 && !external && !slices.Contains(w.service.LoadBalancerIPs, addr):
		return fmt.Errorf("has entries of %d kinds, but the address is named once", base)
	case base > 1 && kinds[ipsetutil.ClusterIP]:
		return fmt.Errorf("is a clusterIP and something else")
	case kinds[ipsetutil.ExternalIP] && kinds[ipsetutil.ExternalIPLocal]:
		return fmt.Errorf("has both policies")
	case shared > 1:
		return fmt.Errorf("is both dropped and refused")
	case shared == 0 && len(f.RealServers) == 0:
		return fmt.Errorf("has no real server and is neither dropped nor refused")
	case shared > 0 && len(f.RealServers) > 0:
		return fmt.Errorf("is dropped or refused although it has real servers")
	case kinds[ipsetutil.DropOutside] && !f.ShortCircuit:
		return fmt.Errorf("is dropped for those outside, with no way for those inside")
	case kinds[ipsetutil.Refuse] && f.ShortCircuit:
		return fmt.Errorf("is refused, but leads to the short circuit")
	case local(w, kinds) && slices.ContainsFunc(f.RealServers, func(r ipvsutil.RealServer) bool { return !isLocal(w, r) }):
		return fmt.Errorf("has real servers of other nodes: %v", f.RealServers)
	case kinds[ipsetutil.LoadBalancerFW] != (count(ipsetutil.LoadBalancerSourceCIDR) > 0):
		return fmt.Errorf("is restricted to sources, but has none (or the reverse)")
	}
	return nil
}

// local tells a frontend whose policy is Local.
func local(w world, kinds map[ipsetutil.Kind]bool) bool {
	return kinds[ipsetutil.ClusterIP] && w.service.InternalLocal ||
		kinds[ipsetutil.ExternalIPLocal] || kinds[ipsetutil.LoadBalancerLocal] ||
		kinds[ipsetutil.NodePortLocalTCP] || kinds[ipsetutil.NodePortLocalUDP] || kinds[ipsetutil.NodePortLocalSCTP]
}

func isLocal(w world, r ipvsutil.RealServer) bool {
	return slices.ContainsFunc(w.endpoints, func(e plan.Endpoint) bool {
		return e.Addr == r.Addr && e.NodeName != "" && e.NodeName == w.node.Name
	})
}

// checkShortCircuits: one for each port that a frontend leads to, never persistent;
// it holds at least what its frontends hold, since those hold the local ones.
func checkShortCircuits(w world, c plan.Claims) error {
	byPort := map[plan.PortKey]plan.ShortCircuit{}
	for _, s := range c.ShortCircuits {
		if _, ok := byPort[s.Port]; ok {
			return fmt.Errorf("two short circuits for %v", s.Port)
		}
		byPort[s.Port] = s
		switch {
		case s.Server.Persistence != 0:
			return fmt.Errorf("the short circuit of %v is persistent", s.Port)
		case s.Server.Key != ipvsutil.Key{}:
			return fmt.Errorf("the short circuit of %v has key %v; the ledger gives it", s.Port, s.Server.Key)
		case len(s.RealServers) == 0:
			return fmt.Errorf("the short circuit of %v leads nowhere", s.Port)
		}
		if err := checkRealServers(w, s.Server.Key, s.Port.IPv6, s.RealServers); err != nil {
			return err
		}
	}
	used := map[plan.PortKey]bool{}
	for _, f := range c.Frontends {
		if !f.ShortCircuit {
			continue
		}
		used[f.Port] = true
		if _, ok := byPort[f.Port]; !ok {
			return fmt.Errorf("%v leads to the short circuit of %v, which is missing", f.Server.Key, f.Port)
		}
	}
	if len(used) != len(byPort) {
		return fmt.Errorf("%d short circuits, %d used", len(byPort), len(used))
	}
	return nil
}

// checkAddresses: the doors take every address, none is the node's own unless it is
// a clusterIP, and none is both bound and captured.
func checkAddresses(w world, c plan.Claims) error {
	for _, a := range slices.Concat(c.Bound, c.Captured) {
		if err := ipvsutil.CheckAddress(a); err != nil {
			return err
		}
		if slices.Contains(w.node.Addrs, a) && !slices.Contains(w.service.ClusterIPs, a) {
			return fmt.Errorf("%v is the node's own", a)
		}
		if slices.Contains(c.Bound, a) && slices.Contains(c.Captured, a) {
			return fmt.Errorf("%v is bound and captured", a)
		}
	}
	if w.config.BindExternal && len(c.Captured) > 0 {
		return fmt.Errorf("%v are captured, not bound as chosen", c.Captured)
	}
	return nil
}

// checkMembers: the sets take every entry.
func checkMembers(_ world, c plan.Claims) error {
	members := slices.Clone(c.Members)
	for _, f := range c.Frontends {
		members = append(members, f.Members...)
	}
	for _, m := range members {
		set, ok := ipsetutil.ByName(m.Set)
		if !ok {
			return fmt.Errorf("%v: no such set", m)
		}
		if err := set.Check(ipsetutil.Change{Member: m}); err != nil {
			return fmt.Errorf("%v: %w", m, err)
		}
	}
	return nil
}
