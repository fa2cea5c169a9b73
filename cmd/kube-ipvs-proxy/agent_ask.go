package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"

	"github.com/spf13/pflag"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/watch"
)

// errNoAgent: no agent answers in this network namespace.
var errNoAgent = errors.New("no agent of this node answers")

// tellAgent asks the agent of this network namespace.
func tellAgent(ctx context.Context, route string, value any) error {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", agentSocket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+route, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAgent, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s", errNoAgent, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(value)
}

// view is how a command sees the node: with flags of its own, or as the agent does.
type view struct {
	raw     config.Raw
	options config.Options
	// agent is nil where flags say where Services come from; silent says why it does not
	// answer, where it was asked.
	agent  *agentState
	silent error
}

// lookAround takes the agent's view when none of run's flags is given and an agent
// answers; else the flags count.
func lookAround(ctx context.Context, f *pflag.FlagSet, raw config.Raw) (view, error) {
	given := slices.ContainsFunc(runFlagNames(&raw), f.Changed)
	var silent error
	if !given {
		var state agentState
		if silent = tellAgent(ctx, stateRoute, &state); silent == nil {
			return state.view()
		}
	}
	resolved, options, err := configure(f, raw)
	return view{raw: resolved, options: options, silent: silent}, err
}

// view has the agent's configuration.
func (s *agentState) view() (view, error) {
	raw, err := config.Read([]byte(s.Config))
	if err != nil {
		return view{}, exitError{2, fmt.Errorf("the agent's configuration: %w", err)}
	}
	raw.HostnameOverride = s.NodeName
	options, err := raw.Validate()
	if err != nil {
		return view{}, exitError{2, fmt.Errorf("the agent's configuration: %w", err)}
	}
	return view{raw: raw, options: options, agent: s}, nil
}

// open is the source that the view has.
func (v view) open(ctx context.Context, options config.Options, log *slog.Logger) (*source, error) {
	if v.agent == nil {
		read, err := openSource(ctx, options, log)
		if err != nil && v.silent != nil {
			err = exitError{2, fmt.Errorf("%w; %w (give the flags that the agent has)", err, v.silent)}
		}
		return read, err
	}
	read := newToldSource(v.agent)
	return &source{Source: read, problems: func() []watch.Problem { return v.agent.Problems },
		events: watch.NoEvents{}, tell: func(context.Context) {}}, nil
}

// toldSource is what an agent told: one state that does not change.
type toldSource struct {
	state *agentState
	byKey map[plan.ServiceName]agentService
	names []plan.ServiceName
}

func newToldSource(state *agentState) *toldSource {
	s := &toldSource{state: state, byKey: map[plan.ServiceName]agentService{}}
	for _, service := range state.Services {
		s.byKey[service.Name] = service
		s.names = append(s.names, service.Name)
	}
	return s
}

// Changed implements proxier.Source: nothing changes.
func (s *toldSource) Changed() <-chan struct{} { return nil }

// Synced implements proxier.Source.
func (s *toldSource) Synced() bool { return true }

// Drain implements proxier.Source.
func (s *toldSource) Drain() watch.Dirty { return watch.Dirty{All: true} }

// Service implements proxier.Source.
func (s *toldSource) Service(name plan.ServiceName) (*plan.Service, []plan.Endpoint) {
	service := s.byKey[name]
	return service.Service, service.Endpoints
}

// Names implements proxier.Source.
func (s *toldSource) Names() []plan.ServiceName { return s.names }

// Node implements proxier.Source.
func (s *toldSource) Node() (watch.NodeInfo, bool) { return s.state.Node, s.state.NodeKnown }
