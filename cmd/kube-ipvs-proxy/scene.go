package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/ipsetutil"
	ipsetkernel "kube-ipvs-proxy/ipsetutil/kernel"
	"kube-ipvs-proxy/proxier"
	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/netfilter"
	"kube-ipvs-proxy/proxier/reconcile"
)

// readLimit is how long the commands that look wait for Services and EndpointSlices.
const readLimit = 30 * time.Second

// scene is what the commands that look know of the desired state: the same plan that
// an agent with the same flags makes.
type scene struct {
	options config.Options // with the pod networks that the Node gave
	marks   netfilter.Marks
	flags   netfilter.Flags
	source  *source
	// nodePortRange is as configured, such as "30000-32767"; empty: unknown.
	nodePortRange string
	// mixed is netfilter.ErrMixedBackends where the host is so; nil else.
	mixed error
	proxier.Inspection
	// eyes is openEyes, but in tests.
	eyes func() (*eyes, error)
	// shared: the node is kube-proxy's, and only what both have counts.
	shared bool

	agent *agent
	stop  func()
}

// sceneOf opens the scene for the flags of a command.
func sceneOf(cmd *cobra.Command, raw config.Raw) (*scene, error) {
	v, err := lookAround(cmd.Context(), cmd.Flags(), raw)
	if err != nil {
		return nil, err
	}
	return openScene(cmd.Context(), v)
}

// openScene reads all Services and plans them. It needs neither root nor IPVS. The
// source is followed until the scene is closed.
func openScene(ctx context.Context, v view) (*scene, error) {
	ctx, stop := context.WithCancelCause(ctx)
	late := time.AfterFunc(readLimit, func() { stop(fmt.Errorf("no complete list of Services within %v", readLimit)) })
	defer late.Stop()
	s := &scene{stop: func() { stop(nil) }, nodePortRange: v.raw.NodePortRange, eyes: openEyes}
	var err error
	if s.mixed, err = guessBackend(ctx, &v.options); err != nil {
		s.close()
		return nil, exitError{2, err}
	}
	agent, err := buildOn(ctx, v.options, slog.New(slog.DiscardHandler), v.open, s.lookDoors)
	if err == nil {
		s.agent, s.source = agent, agent.source
		s.Inspection, err = agent.proxier.Inspect(ctx)
	}
	if err == nil {
		return s, nil
	}
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	if s.source != nil {
		err = s.source.explain(err)
	}
	s.close()
	return nil, exitError{2, fmt.Errorf("read the Services: %w", err)}
}

func (s *scene) close() {
	s.stop()
	if s.agent != nil {
		s.agent.close()
	}
}

// lookDoors opens the one door that planning reads through: the kernel's marks of
// short circuits. Without it they are given anew, which is no worse.
func (s *scene) lookDoors(a *agent, ctx context.Context, options config.Options, marks netfilter.Marks) (reconcile.Doors, error) {
	s.options, s.marks, s.flags = options, marks, flags(options, marks)
	sets, err := ipsetkernel.Open(ctx)
	if err != nil {
		return reconcile.Doors{Sets: noSets{}}, nil
	}
	a.closers = append(a.closers, sets.Close)
	return reconcile.Doors{Sets: sets}, nil
}

// noSets is the door to a kernel that has no sets, or shows none.
type noSets struct{ ipsetutil.Sets }

// Names implements ipsetutil.Sets.
func (noSets) Names(context.Context) ([]string, error) { return nil, nil }

// Headers implements ipsetutil.Sets.
func (noSets) Headers(context.Context) (map[string]ipsetutil.Header, error) { return nil, nil }

// again plans what the source has now.
func (s *scene) again(ctx context.Context) (err error) {
	s.Inspection, err = s.agent.proxier.Inspect(ctx)
	return err
}
