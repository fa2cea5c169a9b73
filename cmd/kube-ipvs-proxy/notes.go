package main

import (
	"log/slog"
	"slices"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/host"
	"kube-ipvs-proxy/proxier/netfilter"
)

// tellNotes logs what the operator should know of the configuration at the start.
func tellNotes(log *slog.Logger, options config.Options) {
	logNotes(log, append(slices.Clone(options.Notes), nodePortNotes(options)...))
}

func logNotes(log *slog.Logger, notes []config.Note) {
	for _, n := range notes {
		if n.Warning {
			log.Warn("configuration", "note", n.Text)
		} else {
			log.Info("configuration", "note", n.Text)
		}
	}
}

// nodePortNotes say of which families NodePorts are served on every address of the
// node, which few want and many have.
func nodePortNotes(options config.Options) []config.Note {
	selectors, err := host.ParseNodePortSelectors(options.NodePorts)
	if err != nil { // package config has judged them
		return []config.Note{{Warning: true, Text: err.Error()}}
	}
	families := ""
	switch ipv4, ipv6 := selectors.Unlimited(false), selectors.Unlimited(true); {
	case ipv4 && ipv6:
		families = "IPv4 and IPv6"
	case ipv4:
		families = "IPv4"
	case ipv6:
		families = "IPv6"
	default:
		return nil
	}
	// A choice that leaves a family open is more likely to be a mistake than none.
	return []config.Note{{Warning: len(options.NodePorts) > 0 && families != "IPv4 and IPv6",
		Text: "NodePorts are served on every " + families + " address of this node; nodePortAddresses: [primary] limits them"}}
}

// tellOfRules logs what New found out about the host's iptables.
func tellOfRules(log *slog.Logger, rules *netfilter.Rules) {
	for _, note := range rules.Notes() {
		log.Warn("iptables", "note", note)
	}
}
