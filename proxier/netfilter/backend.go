package netfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// ErrMixedBackends: both back ends of iptables have rules of Services, or nobody can
// tell which of them the host uses. Packets pass the rules of both.
var ErrMixedBackends = errors.New("iptables back ends are mixed")

// Choice is the back end to write rules with.
type Choice struct {
	// Backend may be BackendAuto: nothing on the host tells, and its own iptables is
	// taken, whatever that is.
	Backend Backend
	// Why says what led to it, for the operator.
	Why string
}

// kubeletChains are what the kubelet keeps in mangle of the back end that it uses, in
// the order in which they tell most. The first was made for this purpose (KEP-3178).
var kubeletChains = []string{"KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"}

// traces are what one back end has of Kubernetes' own; empty: nothing.
type traces struct {
	kubelet string // a chain of the kubelet
	canary  string // the one of kube-proxy's that never has rules
	serves  string // a chain with rules of Services, of whichever proxy
}

// ChooseBackend finds the back end that the host's kubelet and its Service proxy use,
// from the chains that they left (a container's own iptables may be another one), and
// makes sure that the other one has no rules of Services. Named is the operator's own
// choice, which wins. With ErrMixedBackends, whose text has the way out, the choice is
// the best guess. It starts a few processes at most; where the kubelet has a chain and
// the legacy back end has nothing, one that lists a small table.
func ChooseBackend(ctx context.Context, named Backend, ipv6 bool) (Choice, error) {
	if !legacyTables(false) && !legacyTables(true) { // nothing to be mixed with
		if named == BackendNFT {
			return choose(named, traces{}, traces{})
		}
		t, err := look(ctx, BackendNFT, false, "-t", tableMangle)
		if err != nil || named == BackendAuto && t.kubelet != "" {
			c, _ := choose(named, t, traces{})
			return c, err
		}
	}
	seen := map[Backend]traces{}
	for _, b := range []Backend{BackendNFT, BackendLegacy} {
		for _, six := range []bool{false, true} {
			if six && (!ipv6 || ipv6Off() != nil || seen[b].serves != "") {
				continue // nothing more to learn
			}
			t, err := look(ctx, b, six)
			if err != nil {
				return Choice{Backend: named}, err
			}
			seen[b] = seen[b].or(t)
		}
	}
	return choose(named, seen[BackendNFT], seen[BackendLegacy])
}

// look reads the traces of a family in a back end, of all tables or of those that args
// name. Where its programs are missing nothing can be seen.
func look(ctx context.Context, b Backend, ipv6 bool, args ...string) (traces, error) {
	if b == BackendLegacy && !legacyTables(ipv6) {
		return traces{}, nil
	}
	p, err := findPrograms(b, ipv6)
	if errors.Is(err, ErrNoIPTables) {
		return traces{}, nil
	}
	if err != nil {
		return traces{}, err
	}
	out, _, err := run(ctx, "", p.save, args...)
	if ctx.Err() != nil {
		return traces{}, ctx.Err()
	}
	if err != nil {
		return traces{}, nil // a kernel without it
	}
	return parseListing(out).traces(), nil
}

// legacyTables tells whether the legacy back end has a table in this network namespace:
// to ask its program would be for nothing.
func legacyTables(ipv6 bool) bool {
	name := "/proc/thread-self/net/ip_tables_names"
	if ipv6 {
		name = "/proc/thread-self/net/ip6_tables_names"
	}
	names, err := os.ReadFile(name)
	return err == nil && len(bytes.TrimSpace(names)) > 0
}

func (l listing) traces() traces {
	var t traces
	mangle, nat := l.table(tableMangle).chains, l.table(tableNAT).chains
	for _, chain := range kubeletChains {
		if _, there := mangle[chain]; there && t.kubelet == "" {
			t.kubelet = chain
		}
	}
	if _, there := mangle["KUBE-PROXY-CANARY"]; there {
		t.canary = "KUBE-PROXY-CANARY"
	}
	if len(nat["KUBE-SERVICES"]) > 0 {
		t.serves = "KUBE-SERVICES"
	}
	return t
}

// or adds what only the other one tells.
func (t traces) or(u traces) traces {
	for _, f := range []struct{ have, more *string }{{&t.kubelet, &u.kubelet}, {&t.canary, &u.canary}, {&t.serves, &u.serves}} {
		if *f.have == "" {
			*f.have = *f.more
		}
	}
	return t
}

// text names the traces.
func (t traces) text() string {
	return strings.Join(slices.DeleteFunc([]string{t.kubelet, t.canary, t.serves}, func(s string) bool { return s == "" }), ", ")
}

// choose decides by what tells most: the operator, the kubelet, rules of Services,
// kube-proxy's canary.
func choose(named Backend, nft, legacy traces) (Choice, error) {
	pick := Choice{Backend: BackendAuto, Why: "nothing on the host tells; this is its own iptables"}
	if named != BackendAuto {
		pick = Choice{named, "it is named"}
	} else {
		for _, sign := range []struct{ nft, legacy, whose string }{
			{nft.kubelet, legacy.kubelet, "the kubelet has the chain "},
			{nft.serves, legacy.serves, "there are rules of Services in the chain "},
			{nft.canary, legacy.canary, "kube-proxy has the chain "},
		} {
			if sign.nft != "" && sign.legacy != "" {
				continue // both: it tells nothing
			}
			if sign.nft+sign.legacy != "" {
				pick = Choice{BackendNFT, sign.whose + sign.nft + sign.legacy}
				if sign.legacy != "" {
					pick.Backend = BackendLegacy
				}
				break
			}
		}
	}
	return pick, pick.check(nft, legacy)
}

// check refuses what would have packets pass rules of Services twice.
func (c Choice) check(nft, legacy traces) error {
	other, of := BackendLegacy, legacy
	switch c.Backend {
	case BackendLegacy:
		other, of = BackendNFT, nft
	case BackendAuto:
		if nft.text() == "" || legacy.text() == "" {
			return nil
		}
		return fmt.Errorf("%w: nft has %s, legacy has %s, and nothing tells which of them the host uses: "+
			"name one by --iptables-backend, and take what is left out of the other one (%s)",
			ErrMixedBackends, nft.text(), legacy.text(), wayOut(BackendLegacy))
	}
	if of.serves == "" {
		return nil
	}
	return fmt.Errorf("%w: %s is the one to use (%s), but %s has rules of Services (%s), which packets pass as well: "+
		"take them out on the node (%s) and start again",
		ErrMixedBackends, c.Backend, c.Why, other, of.serves, wayOut(other))
}

// wayOut is what takes Kubernetes' chains out of a back end and leaves all else there,
// whoever made them; the kubelet makes its own anew.
func wayOut(b Backend) string {
	return fmt.Sprintf("iptables-%[1]s-save | grep -v -e KUBE- -e KIPVS- | iptables-%[1]s-restore, and the same with ip6tables", b)
}
