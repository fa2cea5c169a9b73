package netfilter

import (
	"context"
	"errors"
	"fmt"
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
// the best guess. The kernel itself is asked: no process is started.
func ChooseBackend(ctx context.Context, named Backend, ipv6 bool) (Choice, error) {
	seen := map[Backend]traces{}
	for _, six := range []bool{false, true} {
		if six && (!ipv6 || ipv6Off() != nil) {
			continue
		}
		for b, chains := range map[Backend]func(context.Context, bool) (chains, error){BackendNFT: nftChains, BackendLegacy: legacyChains} {
			if _, err := findPrograms(b, six); errors.Is(err, ErrNoIPTables) {
				continue // what it has could not be changed
			} else if err != nil {
				return Choice{Backend: named}, err
			}
			found, err := chains(ctx, six)
			if ctx.Err() != nil {
				return Choice{Backend: named}, ctx.Err()
			}
			if err == nil { // else a kernel without it, or no permission
				seen[b] = seen[b].or(found.traces())
			}
		}
	}
	return choose(named, seen[BackendNFT], seen[BackendLegacy])
}

// chains tells of each chain, named as "mangle KUBE-MARK-MASQ", whether it has rules.
// Others than those of mangle and nat may be missing.
type chains map[string]bool

func (c chains) traces() traces {
	var t traces
	for _, name := range kubeletChains {
		if _, there := c[tableMangle+" "+name]; there && t.kubelet == "" {
			t.kubelet = name
		}
	}
	if _, there := c[tableMangle+" KUBE-PROXY-CANARY"]; there {
		t.canary = "KUBE-PROXY-CANARY"
	}
	if c[tableNAT+" "+chainServices] {
		t.serves = chainServices
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
