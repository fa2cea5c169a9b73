package main

// damage is what another hand does, in commands of a shell.
type damage struct {
	name, found string
	commands    []string
}

// The ways in which damage is found.
const (
	byEvent   = "event"
	byGlance  = "glance (5 s)"
	byListing = "listing (30 s)"
	byRefresh = "refresh"
	bySetting = "settings (30 s)"
)

// damages are those of other tools and of operators. The names of what they hit are
// those of model's first Service.
func damages() []damage {
	const server = "10.96.2.1:80"
	return []damage{
		{"`ip link del kube-ipvs0`", byEvent, []string{"ip link del kube-ipvs0"}},
		{"`ip link set kube-ipvs0 up`, then `down`", byEvent, []string{"ip link set kube-ipvs0 up; ip link set kube-ipvs0 down"}},
		{"`ip address flush dev kube-ipvs0`", byEvent, []string{"ip address flush dev kube-ipvs0"}},
		{"policy rule of captured addresses", byEvent, []string{"ip rule del priority 98"}},
		{"routes of captured addresses", byListing, []string{"ip route flush table all proto 150"}},
		{"`iptables -F` and `-X` of all tables, both families", byEvent, []string{
			"for p in iptables ip6tables; do for t in nat mangle filter; do $p -t $t -F; $p -t $t -X; done; done"}},
		{"`nft flush ruleset`", byEvent, []string{"nft flush ruleset"}},
		{"a jump inserted before ours", byEvent, []string{"iptables -t nat -N OTHERS; iptables -t nat -I PREROUTING -j OTHERS; sleep 2; iptables -t nat -D PREROUTING -j OTHERS; iptables -t nat -X OTHERS"}},
		{"`ipvsadm -C`", byGlance, []string{"ipvsadm -C"}},
		{"`ipset flush`", byGlance, []string{"ipset flush"}},
		{"one entry deleted", byListing, []string{"ipset del KUBE-CLUSTER-IP 10.96.2.1,tcp:80"}},
		{"rules flushed and a set destroyed", byEvent, []string{"nft flush ruleset; ipset destroy KUBE-CLUSTER-IP"}},
		{"one virtual server deleted", byListing, []string{"ipvsadm -D -t " + server}},
		{"another scheduler", byListing, []string{"ipvsadm -E -t " + server + " -s lc"}},
		{"one real server deleted", byRefresh, []string{"ipvsadm -d -t " + server + " -r 10.244.2.10:8080"}},
		{"one weight set to 0", byRefresh, []string{"ipvsadm -e -t " + server + " -r 10.244.2.10:8080 -m -w 0"}},
		{"sysctls set back", bySetting, []string{
			"echo 0 > /proc/sys/net/ipv4/vs/conntrack; echo 0 > /proc/sys/net/ipv4/ip_forward; echo 0 > /proc/sys/net/ipv4/vs/expire_quiescent_template"}},
		{"`ipvsadm --set`: a shorter limit of idle TCP", bySetting, []string{"ipvsadm --set 100 0 0"}},
	}
}
