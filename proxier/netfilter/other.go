package netfilter

import (
	"context"
	"os"
	"slices"
	"strings"
)

// otherBackend tells of a Service proxy's rules that were written with the other back
// end of iptables: the kernel has both rule sets at once, and the one that stays behind
// leads Services astray (kubernetes/kubernetes#71305). Empty: there are none, or nobody
// could look.
func (p programs) otherBackend(ctx context.Context, ipv6 bool) string {
	version, _, err := run(ctx, "", p.iptables, "--version")
	if err != nil {
		return ""
	}
	other := BackendNFT
	if !strings.Contains(version, string(BackendLegacy)) {
		other = BackendLegacy
		if !hasLegacyNAT(ipv6) {
			return "" // to look would make it
		}
	}
	q, err := findPrograms(other, ipv6)
	if err != nil {
		return ""
	}
	listed, _, err := run(ctx, "", q.save, "-t", tableNAT)
	if err != nil || !strings.Contains(listed, "-j "+chainServices) {
		return ""
	}
	return familyName(ipv6) + ": iptables-" + string(other) + " has rules of a Service proxy in nat, which lead Services astray: " +
		"remove them with what wrote them, or write ours there, too (--iptables-backend=" + string(other) + ")"
}

// hasLegacyNAT reports whether the namespace has the legacy back end's nat table.
func hasLegacyNAT(ipv6 bool) bool {
	name := "ip_tables_names"
	if ipv6 {
		name = "ip6_tables_names"
	}
	names, err := os.ReadFile("/proc/thread-self/net/" + name)
	return err == nil && slices.Contains(strings.Fields(string(names)), tableNAT)
}
