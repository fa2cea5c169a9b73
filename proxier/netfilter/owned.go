package netfilter

import (
	"slices"
	"strings"
)

// Chains of kube-proxy's other modes, and of its ipvs mode where it has one more
// than we do. While this proxy runs they are dead wood at best; a REJECT in them
// would go on refusing a Service (kubernetes/kubernetes#102314). Chains of the
// kubelet (KUBE-FIREWALL, KUBE-KUBELET-CANARY) are none of ours.
var leftoverChains = map[string][]string{
	tableMangle: {"KUBE-PROXY-CANARY"},
	tableNAT:    {"KUBE-PROXY-CANARY", "KUBE-NODEPORTS"},
	tableFilter: {"KUBE-PROXY-CANARY", "KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-IPVS-OUT-FILTER"},
}

// leftoverPrefixes begin the names of nat chains that kube-proxy's iptables mode
// makes for each Service and endpoint.
var leftoverPrefixes = []string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-", "KUBE-XLB-"}

// owned tells what of a listed table is ours: the chains of table, those that an
// earlier proxy left, and the rules of built-in chains that jump to either. A rule
// of a built-in chain that leads to an inner chain, such as KUBE-MARK-MASQ, is
// someone else's use of it.
type owned struct {
	table     Table
	listed    *listedTable
	leftovers []string // sorted
	chains    map[string]bool
	jumpedTo  map[string]bool
}

func own(t Table, listed *listedTable) owned {
	o := owned{table: t, listed: listed, chains: map[string]bool{}, jumpedTo: map[string]bool{}}
	for _, c := range t.Chains {
		o.chains[c.Name] = true
	}
	for _, j := range t.Jumps {
		o.jumpedTo[j.To] = true
	}
	for name := range listed.chains {
		if isLeftover(t.Name, name) {
			o.leftovers = append(o.leftovers, name)
			o.chains[name] = true
			o.jumpedTo[name] = true
		}
	}
	slices.Sort(o.leftovers)
	return o
}

func isLeftover(table, chain string) bool {
	if slices.Contains(leftoverChains[table], chain) {
		return true
	}
	return table == tableNAT && slices.ContainsFunc(leftoverPrefixes, func(prefix string) bool {
		return strings.HasPrefix(chain, prefix)
	})
}

// jumpsRight reports whether a built-in chain begins with the wanted jumps and holds
// no other rule that is ours.
func (o owned) jumpsRight(from string) bool {
	jumps, rules := o.table.jumpsFrom(from), o.listed.chains[from]
	if len(rules) < len(jumps) {
		return false
	}
	for i, rule := range rules {
		to := target(rule)
		if i < len(jumps) {
			if to != jumps[i].To || !unconditional(rule) {
				return false
			}
		} else if o.jumpedTo[to] {
			return false
		}
	}
	return true
}

// deletions returns the lines that take our rules out of a built-in chain.
func (o owned) deletions(from string) []string {
	var lines []string
	for _, rule := range o.listed.chains[from] {
		if o.jumpedTo[target(rule)] {
			lines = append(lines, "-D "+from+" "+rule)
		}
	}
	return lines
}

// foreignTargets returns the chains that rules of others lead to.
func (o owned) foreignTargets() map[string]bool {
	targets := map[string]bool{}
	for chain, rules := range o.listed.chains {
		if o.chains[chain] {
			continue
		}
		builtin := slices.Contains(o.listed.builtin, chain)
		for _, rule := range rules {
			if to := target(rule); !builtin || !o.jumpedTo[to] {
				targets[to] = true
			}
		}
	}
	return targets
}

// present returns the sorted names of our chains that are in the listing.
func (o owned) present() []string {
	var names []string
	for name := range o.listed.chains {
		if o.chains[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
