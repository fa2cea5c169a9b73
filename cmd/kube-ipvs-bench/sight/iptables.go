package sight

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/netip"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// iptables sees what kube-proxy's iptables mode writes through iptables-nft: a chain
// for each Service and each endpoint, named after a hash, and a chain that leads to
// the Services. It writes all that belongs to a change in one transaction.
type iptables struct{ tables }

// dispatch is the chain that leads to the Services.
const dispatch = "KUBE-SERVICES"

// IPTables opens the sight of kube-proxy's iptables mode in the thread's network
// namespace; iptables has to be iptables-nft there.
func IPTables(context.Context) (Sight, error) {
	t, err := openTables("nat")
	if err != nil {
		return nil, err
	}
	return &iptables{t}, nil
}

func portID(s world.Service) string { return s.Namespace + "/" + s.Name + ":" + s.PortName + "tcp" }

func serviceChain(s world.Service) string { return "KUBE-SVC-" + hash(portID(s)) }

func endpointChain(s world.Service, e netip.AddrPort) string {
	return "KUBE-SEP-" + hash(portID(s)+e.String())
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base32.StdEncoding.EncodeToString(sum[:])[:16]
}

func (k *iptables) Seems(ctx context.Context, w *world.World) (bool, string, error) {
	last := w.Services[w.Probe-1]
	ok, err := k.Serves(ctx, w, last)
	return ok, fmt.Sprintf("no rules of %s in table nat of IPv4 (iptables-nft)", last.Name), err
}

func (k *iptables) Serves(ctx context.Context, _ *world.World, s world.Service) (bool, error) {
	return k.look(ctx, func() (bool, error) { return k.serves(ctx, s) })
}

// serves tells whether the Service's chain has jumps to exactly its endpoints, whose
// chains are not empty.
func (k *iptables) serves(ctx context.Context, s world.Service) (bool, error) {
	rules, err := k.rules(ctx, serviceChain(s))
	if err != nil {
		return false, err
	}
	jumps := bytes.Join(rules, nil)
	if bytes.Count(jumps, []byte("KUBE-SEP-")) != len(s.Endpoints) {
		return false, nil
	}
	for _, e := range s.Backends() {
		chain := endpointChain(s, e)
		if !bytes.Contains(jumps, []byte(chain)) {
			return false, nil
		}
		if own, err := k.rules(ctx, chain); len(own) == 0 || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (k *iptables) Gone(ctx context.Context, _ *world.World, s world.Service) (bool, error) {
	return k.look(ctx, func() (bool, error) {
		rules, err := k.rules(ctx, dispatch)
		return len(rules) > 0 && !bytes.Contains(bytes.Join(rules, nil), []byte(serviceChain(s))), err
	})
}

func (k *iptables) Verify(ctx context.Context, w *world.World) error {
	have, err := k.chains(ctx)
	if err != nil {
		return err
	}
	rules, err := k.rules(ctx, dispatch)
	if err != nil {
		return err
	}
	leads := map[string]bool{}
	const size = len("KUBE-SVC-") + 16
	for _, rule := range rules {
		if at := bytes.Index(rule, []byte("KUBE-SVC-")); at >= 0 && at+size <= len(rule) {
			leads[string(rule[at:at+size])] = true
		}
	}
	for _, s := range w.Services {
		if !leads[serviceChain(s)] {
			return fmt.Errorf("no rule of %s leads to %s (%s)", dispatch, serviceChain(s), s.Name)
		}
		for _, e := range s.Backends() {
			if !have[endpointChain(s, e)] {
				return fmt.Errorf("no chain %s (%s, endpoint %v)", endpointChain(s, e), s.Name, e)
			}
		}
	}
	for _, s := range w.Spread(100) {
		ok, err := k.serves(ctx, s)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("chain %s has not exactly the endpoints of %s", serviceChain(s), s.Name)
		}
	}
	return nil
}
