package explain

import (
	"strings"

	"kube-ipvs-proxy/proxier/ledger"
)

// Shared returns those differences that kube-proxy's ipvs mode would mend, too: what only
// this proxy has is left out, and so are the rules, which are each proxy's own. It judges
// a node that kube-proxy serves.
func Shared(desired *ledger.Ledger, all []Difference) []Difference {
	var shared []Difference
	for _, d := range all {
		if isShared(desired, d) {
			shared = append(shared, d)
		}
	}
	return shared
}

// ownPrefix begins the names of sets that kube-proxy does not have.
const ownPrefix = "KIPVS-"

func isShared(desired *ledger.Ledger, d Difference) bool {
	switch d.Kind {
	case "rules", "policy rule", "route":
		return false
	case "set":
		return !strings.HasPrefix(d.Object, ownPrefix)
	case "set entry":
		return !strings.HasPrefix(d.member.Set, ownPrefix)
	case "virtual server", "real server":
		return d.key.Mark == 0 && KindOf(desired, d.key) != HealthCheck
	}
	return true
}
