//go:build kernel

package packets

import (
	"strings"
	"testing"
)

// setsOfKubeProxy are those that kube-proxy's ipvs mode makes, IPv4; those of IPv6
// are called KUBE-6-... and end after 31 characters.
var setsOfKubeProxy = map[string]string{
	"KUBE-LOOP-BACK":                 "hash:ip,port,ip",
	"KUBE-CLUSTER-IP":                "hash:ip,port",
	"KUBE-EXTERNAL-IP":               "hash:ip,port",
	"KUBE-EXTERNAL-IP-LOCAL":         "hash:ip,port",
	"KUBE-LOAD-BALANCER":             "hash:ip,port",
	"KUBE-LOAD-BALANCER-FW":          "hash:ip,port",
	"KUBE-LOAD-BALANCER-LOCAL":       "hash:ip,port",
	"KUBE-LOAD-BALANCER-SOURCE-IP":   "hash:ip,port,ip",
	"KUBE-LOAD-BALANCER-SOURCE-CIDR": "hash:ip,port,net",
	"KUBE-NODE-PORT-TCP":             "bitmap:port",
	"KUBE-NODE-PORT-LOCAL-TCP":       "bitmap:port",
	"KUBE-NODE-PORT-UDP":             "bitmap:port",
	"KUBE-NODE-PORT-LOCAL-UDP":       "bitmap:port",
	"KUBE-NODE-PORT-SCTP-HASH":       "hash:ip,port",
	"KUBE-NODE-PORT-LOCAL-SCTP-HASH": "hash:ip,port",
	"KUBE-HEALTH-CHECK-NODE-PORT":    "bitmap:port",
	"KUBE-IPVS-IPS":                  "hash:ip",
}

func TestStatement100SetsHaveTheirNamesAndTypes(t *testing.T) {
	const longest = 31
	s := begin(t)
	has := map[string]string{}
	name := ""
	for line := range strings.Lines(s.run("ipset", "list", "-t")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Name":
			name = value
		case "Type":
			has[name] = value
		case "Header":
			if wrong := strings.HasPrefix(name, "KUBE-6-") && strings.Contains(value, "family inet "); wrong {
				t.Errorf("%s is a set of IPv4: %s", name, value)
			}
		}
	}
	for v4, kind := range setsOfKubeProxy {
		v6 := strings.Replace(v4, "KUBE-", "KUBE-6-", 1)
		for _, name := range []string{v4, v6[:min(longest, len(v6))]} {
			if has[name] != kind {
				t.Errorf("%s is of type %q, want %s", name, has[name], kind)
			}
		}
	}
}
