package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"kube-ipvs-proxy/proxier"
	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/watch"
)

// source is where Services come from: the API server, or a folder.
type source struct {
	proxier.Source
	// problems are the present ones.
	problems func() []watch.Problem
	// events tell nobody without an API server, and before tell.
	events watch.Eventer
	// tell sends the Events until ctx ends.
	tell func(ctx context.Context)
	// states say how the reading goes; nil without an API server.
	states func() []watch.ResourceState
	// servers are the addresses of the API server; nil without one.
	servers []netip.AddrPort
}

// connect makes the client of the API server, nil when a folder takes its place. It
// sends nothing, so that a wrong configuration is refused before anything happens.
func connect(options config.Options) (*watch.Client, error) {
	if options.Manifests != "" {
		return nil, nil
	}
	client, err := watch.Connect(watch.Connection{
		Kubeconfig: options.API.Kubeconfig, Master: options.API.Master,
		ContentType: options.API.ContentType, AcceptContentTypes: options.API.AcceptContentTypes,
		QPS: options.API.QPS, Burst: options.API.Burst,
		UserAgent: fmt.Sprintf("kube-ipvs-proxy/%s (%s/%s)", versionText(), runtime.GOOS, runtime.GOARCH),
	})
	if err != nil {
		return nil, exitError{2, err}
	}
	return client, nil
}

// openSource begins to read.
func openSource(ctx context.Context, options config.Options, log *slog.Logger) (*source, error) {
	client, err := connect(options)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return openManifests(ctx, options, log)
	}
	klog.SetSlogLogger(log) // the client library's own lines
	var api atomic.Pointer[watch.API]
	events := watch.NewEvents(client, watch.EventsConfig{
		NodeName: options.NodeName,
		UID: func(name plan.ServiceName) string {
			if a := api.Load(); a != nil {
				return a.UID(name)
			}
			return ""
		},
		OnProblem: func(p watch.Problem) { log.Warn("cannot write", "problem", p.String()) },
	})
	read, err := watch.NewAPI(ctx, watch.APIConfig{
		Client:    client,
		Recovered: func(resource string) { log.Info("API server is read again", "resource", resource) },
	}, options.NodeName, func(p watch.Problem) {
		log.Warn("API server", "problem", p.String())
		if name, ok := p.Service(); ok {
			events.Service(name, watch.Warning, "InvalidValue", "ReadService", strings.TrimPrefix(p.Part+": "+p.Reason, ": "))
		}
	})
	if err != nil {
		return nil, err
	}
	api.Store(read)
	servers, err := serversOf(ctx, client)
	if err != nil {
		log.Warn("external addresses are not compared with the API server's", "err", err)
	}
	return &source{Source: read, problems: read.Problems, events: events, tell: events.Run, states: read.States, servers: servers}, nil
}

// resolveWait bounds the question for the API server's addresses: a start without a
// resolver is not to wait for it.
const resolveWait = 5 * time.Second

func serversOf(ctx context.Context, client *watch.Client) ([]netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	return client.Servers(ctx)
}

// openManifests begins to read a folder.
func openManifests(ctx context.Context, options config.Options, log *slog.Logger) (*source, error) {
	read, err := watch.NewManifests(ctx, options.Manifests, options.NodeName, func(p watch.Problem) {
		log.Warn("manifest", "problem", p.String())
	})
	if err != nil {
		return nil, err
	}
	return &source{Source: read, problems: read.Problems, events: watch.NoEvents{}, tell: func(context.Context) {}}, nil
}

// podCIDRWait is how long a Node may be without pod networks when the detection of
// local traffic needs them, as in kube-proxy.
const podCIDRWait = 5 * time.Minute

// waitPodCIDRs waits for the pod networks of the Node.
func (s *source) waitPodCIDRs(ctx context.Context) ([]netip.Prefix, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, podCIDRWait,
		fmt.Errorf("the Node has no podCIDRs after %v, and detectLocalMode NodeCIDR needs them", podCIDRWait))
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		if node, _ := s.Node(); len(node.PodCIDRs) > 0 {
			tick.Stop()
			return node.PodCIDRs, nil
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil, s.explain(context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// explain adds the present problems to an error that they may have led to.
func (s *source) explain(err error) error {
	errs := []error{err}
	for _, p := range s.problems() {
		errs = append(errs, errors.New(p.String()))
	}
	return errors.Join(errs...)
}
