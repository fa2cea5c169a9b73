#!/bin/sh
# Compares the Services of a cluster with the IPVS of this node, by kubectl, ipvsadm and
# awk alone: the check of "kube-ipvs-proxy verify" for those who trust no one's program.
#
#   usage, as root on the node:  verify-ipvsadm.sh NODE
#
# It judges virtual and real servers of ClusterIPs, externalIPs, load balancers' addresses
# and NodePorts. It does not judge ipsets, rules, addresses and firewall-mark servers, nor
# which of several zones is right: with topology hints any ready endpoint counts as right.
# It ends with 0 when all is as the Services say, 1 when not, 2 when that cannot be told.
set -eu

node=${1:-}
if [ -z "$node" ]; then
	echo "usage: $0 NODE" >&2
	exit 2
fi
for program in kubectl ipvsadm awk; do
	if ! command -v "$program" >/dev/null; then
		echo "$0: $program is not installed" >&2
		exit 2
	fi
done

# One word for each field, and "-" for what is not there.
services='{{range .items}}service {{.metadata.namespace}}/{{.metadata.name}} {{or .spec.type "ClusterIP"}} {{or .spec.internalTrafficPolicy "-"}} {{or .spec.externalTrafficPolicy "-"}} {{or .spec.healthCheckNodePort "-"}}
{{range .spec.clusterIPs}}ip cluster {{.}}
{{end}}{{range .spec.externalIPs}}ip outside {{.}}
{{end}}{{range .status.loadBalancer.ingress}}{{if .ip}}ip outside {{.ip}} {{or .ipMode "VIP"}}
{{end}}{{end}}{{range .spec.ports}}port {{or .name "-"}} {{or .protocol "TCP"}} {{.port}} {{or .nodePort "-"}}
{{end}}{{end}}'
slices='{{range .items}}slice {{.metadata.namespace}}/{{index .metadata.labels "kubernetes.io/service-name"}} {{.addressType}}
{{range .ports}}port {{or .name "-"}} {{or .protocol "TCP"}} {{.port}}
{{end}}{{range .endpoints}}endpoint {{index .addresses 0}} {{or .nodeName "-"}} {{with .conditions}}{{printf "%v %v %v" .ready .serving .terminating}}{{else}}- - -{{end}} {{if .hints}}hints{{else}}-{{end}}
{{end}}{{end}}'
addresses='{{range .status.addresses}}{{if eq .type "InternalIP"}}{{.address}} {{end}}{{end}}'

fail() {
	echo "$0: $1" >&2
	exit 2
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
kubectl get services --all-namespaces -o "go-template=$services" >"$dir/services" || fail "cannot read Services"
kubectl get endpointslices --all-namespaces -l kubernetes.io/service-name -o "go-template=$slices" >"$dir/slices" || fail "cannot read EndpointSlices"
nodeips=$(kubectl get node "$node" -o "go-template=$addresses") || fail "cannot read Node $node"
ipvsadm -Ln >"$dir/ipvs" || fail "cannot read IPVS (it needs root)"

awk -v node="$node" -v nodeips="$nodeips" '
function at(ip, port) { return index(ip, ":") ? "[" ip "]:" port : ip ":" port }
function family(ip) { return index(ip, ":") ? "IPv6" : "IPv4" }
function say(text) { print text; wrong++ }

# want compares one frontend with IPVS: right endpoints are all ready ones of the port or,
# without any, those that terminate and still serve; with the policy Local those of the node.
function want(protocol, ip, port, name, portname, local,    key, group, n, i, list, e, f, ready, right, hinted, found, has) {
	key = protocol " " at(ip, port)
	wanted[key] = name
	servers++
	if (!(key in have)) {
		say("missing: virtual server " key " (" name ")")
		return
	}
	group = name " " portname " " protocol " " family(ip)
	n = split(endpoints[group], list, "\n")
	ready = 0
	for (i = 1; i <= n; i++) {
		split(list[i], f, " ")
		if (f[3] == "ready" && (!local || f[2] == node)) ready++
	}
	for (i = 1; i <= n; i++) {
		split(list[i], f, " ")
		if ((!local || f[2] == node) && (f[3] == "ready" || !ready && f[3] == "leaving")) {
			right[f[1]] = 1
			if (f[4] == "hints" && !local) hinted = 1
		}
	}
	n = split(have[key], list, "\n")
	for (i = 1; i <= n; i++) {
		split(list[i], f, " ")
		if (f[1] in right) {
			found[f[1]] = 1
			has++
			if (f[2] == 0) say("weight 0: " key " -> " f[1] " (" name "): it gets no new connections")
		} else if (f[2] != 0) {
			say("stranger: " key " -> " f[1] " (" name "): no endpoint that should serve")
		}
	}
	for (e in right) {
		reals++
		if (!(e in found) && !(hinted && has)) say("missing: " key " -> " e " (" name ")")
	}
}

FILENAME == ARGV[1] {                      # ipvsadm -Ln
	if ($1 == "TCP" || $1 == "UDP" || $1 == "SCTP") { current = $1 " " $2; have[current] = "" }
	else if ($1 == "FWM") { current = ""; marks++ }
	else if ($1 == "->" && current != "" && $2 != "RemoteAddress:Port")
		have[current] = have[current] $2 " " $4 "\n"
	next
}
FILENAME == ARGV[2] {                      # EndpointSlices
	if ($1 == "slice") { service = $2; fam = $3; ports = 0 }
	else if ($1 == "port") { pname[++ports] = $2; pproto[ports] = $3; pnumber[ports] = $4 }
	else if ($1 == "endpoint") {
		state = "no"
		if ($4 != "false") state = "ready"
		else if ($5 == "true" && $6 == "true") state = "leaving"
		for (i = 1; i <= ports; i++) {
			group = service " " pname[i] " " pproto[i] " " fam
			endpoints[group] = endpoints[group] at($2, pnumber[i]) " " $3 " " state " " $7 "\n"
		}
	}
	next
}
$1 == "service" { name = $2; type = $3; internal = ($4 == "Local"); external = ($5 == "Local"); check = $6; ips = 0; next }
$1 == "ip" && type != "ExternalName" && $3 != "None" && $4 != "Proxy" {
	kind[++ips] = $2; ip[ips] = $3
	ours[$3] = 1
	if (check != "-") checks[at($3, check)] = 1
	next
}
$1 == "port" {
	for (i = 1; i <= ips; i++) want($3, ip[i], $4, name, $2, kind[i] == "cluster" ? internal : external)
	if ($5 == "-" || !ips) next
	n = split(nodeips, own, " ")
	for (j = 1; j <= n; j++) {
		served = 0
		for (i = 1; i <= ips; i++) if (kind[i] == "cluster" && family(ip[i]) == family(own[j])) served = 1
		if (served) want($3, own[j], $5, name, $2, external)
	}
}
END {
	for (key in have) {
		split(key, f, " ")
		address = f[2]
		sub(/:[0-9]+$/, "", address)
		gsub(/[][]/, "", address)
		live = 0
		n = split(have[key], list, "\n")
		for (i = 1; i <= n; i++) { split(list[i], g, " "); if (g[2] > 0) live = 1 }
		if (address in ours && !(key in wanted) && !(f[2] in checks) && (live || have[key] == ""))
			say("stranger: virtual server " key ": no Service has this port of its address")
	}
	printf "%d virtual servers and %d real servers compared, %d differences; %d firewall-mark servers not judged\n", servers, reals, wrong, marks
	exit wrong > 0
}' "$dir/ipvs" "$dir/slices" "$dir/services"
