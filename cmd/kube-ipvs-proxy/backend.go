package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/host"
	"kube-ipvs-proxy/proxier/netfilter"
)

// chooseBackend puts the back end of iptables into the options, if the host tells which
// one it is. With netfilter.ErrMixedBackends it is the best guess.
func chooseBackend(ctx context.Context, options *config.Options) (netfilter.Choice, error) {
	choice, err := netfilter.ChooseBackend(ctx, netfilter.Backend(options.IPTablesBackend), hostHasIPv6())
	options.IPTablesBackend = string(choice.Backend)
	return choice, err
}

// guessBackend is chooseBackend for commands that go on with a guess.
func guessBackend(ctx context.Context, options *config.Options) (mixed, err error) {
	if _, err = chooseBackend(ctx, options); errors.Is(err, netfilter.ErrMixedBackends) {
		return err, nil
	}
	return nil, err
}

// tellPreflight says at the start, in one line, what the node has and what follows
// from it.
func tellPreflight(ctx context.Context, choice netfilter.Choice, features netfilter.Features, log *slog.Logger) {
	release, err := host.KernelRelease(host.ProcSys)
	if err != nil {
		release = err.Error()
	}
	backend := string(choice.Backend)
	if backend == "" {
		backend = "the host's own"
	}
	log.Info("preflight", "kernel", release, "ipv6", hostHasIPv6(),
		"iptables", features.Version, "backend", backend, "because", choice.Why,
		"ipvsMatch", features.IPVSMatch, "randomFully", features.RandomFully)
	if !features.IPVSMatch {
		log.Warn("preflight", "missing", "xt_ipvs",
			"effect", "the mark of a short circuit is taken from packets that are none of IPVS's, too", "next", "modprobe xt_ipvs")
	}
	if mode := askOtherProxy(ctx, otherProxy); mode != "" {
		log.Warn("another Service proxy runs on this node: each undoes what the other does", "mode", mode, "at", otherProxy,
			"next", "end it; see \"Take over from kube-proxy\" in the README")
	}
}

// otherProxy is where kube-proxy, and an agent that was started twice, tell their mode.
const otherProxy = "http://127.0.0.1:10249/proxyMode"

// askOtherProxy returns the mode of a proxy that answers there; empty: none does.
func askOtherProxy(ctx context.Context, url string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return ""
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy of the environment
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	const longest = 20 // of a mode's name
	text, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil || response.StatusCode != http.StatusOK {
		return ""
	}
	return strings.TrimSpace(string(text))
}
