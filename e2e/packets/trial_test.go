//go:build kernel

package packets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-ipvs-proxy/e2e/load"
	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// times is how often a trial is made: seldom in a usual run, and as many percent of full
// as the environment says in TRIAL.
func times(usual, full int) int {
	if percent, err := strconv.Atoi(os.Getenv("TRIAL")); err == nil {
		return max(1, full*percent/100)
	}
	return usual
}

// emulated is how long an answer may take on a machine that is slow at times: a node that
// loses a packet for good does not answer later either.
const emulated = 20 * time.Second

// loaded asks a Service from everywhere, by TCP and UDP or by what is given, until the
// end, when nothing may have failed.
func (s *scene) loaded(v *service, protocols ...probe.Protocol) (stop func()) {
	s.Helper()
	l := &load.Load{}
	const pause = 30 * time.Millisecond
	for _, f := range testbed.Families() {
		w := way{s.T, f, TCP}
		for name, c := range map[string]struct {
			host  string
			proto probe.Protocol
			to    netip.AddrPort
		}{
			"pod TCP":          {c1, TCP, v.cluster(w)},
			"pod UDP":          {c1, UDP, v.cluster(w)},
			"outside":          {X, TCP, v.lb(w)},
			"outside NodePort": {X, TCP, v.nodePortAt(lab.Host(N).SecondAddr(f))}, // from another address than above: see load
			"node":             {N, TCP, v.cluster(w)},
		} {
			if len(protocols) > 0 && !slices.Contains(protocols, c.proto) {
				continue
			}
			call := probe.Call{Protocol: c.proto, To: c.to, Timeout: emulated}
			l.Ask(fmt.Sprintf("%s %v", name, f), lab.Host(c.host), call, pause)
		}
	}
	return s.judged("requests", l)
}

// judged returns what ends a load and judges it. A test that ends before does so too,
// while the lab is still there.
func (s *scene) judged(what string, l *load.Load) func() {
	stop := sync.OnceFunc(func() {
		counts := l.Stop()
		s.Logf("%s: %v", what, counts)
		if counts.Bad() > 0 || counts.Asked+counts.Lines == 0 {
			s.Errorf("%s: %d failed", what, counts.Bad())
		}
	})
	s.Cleanup(stop)
	return stop
}

// held keeps streams through a Service until the end, when none may have broken.
func (s *scene) held(v *service) (stop func()) {
	s.Helper()
	l := &load.Load{}
	stop = s.judged("streams", l)
	for _, f := range testbed.Families() {
		w := way{s.T, f, TCP}
		for name, c := range map[string]struct {
			host string
			to   netip.AddrPort
		}{"pod": {c1, v.cluster(w)}, "outside": {X, v.lb(w)}, "node": {N, v.cluster(w)}} {
			if err := l.Hold(fmt.Sprintf("%s %v", name, f), lab.Host(c.host), probe.Call{Protocol: TCP, To: c.to}, 50*time.Millisecond); err != nil {
				s.Fatal(err)
			}
		}
	}
	return stop
}

// A hundred times the agent is killed at any moment while Services come, change and go,
// and started again: nobody who uses another Service notices.
func TestKilledAtAnyMoment(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true, nodePort: true})
	others := []*service{
		s.service(service{endpoints: ready(L1), loadBalancer: true, externalLocal: true}),
		s.service(service{endpoints: ready(L2, Rm), nodePort: true}),
		s.service(service{endpoints: ready(R3), external: true}),
	}
	released := s.held(v)
	stop := s.loaded(v)
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 9)) // no two runs meet the same moments anyway
	quiet, churned := make(chan struct{}), make(chan error, 1)
	calm := sync.OnceFunc(func() { close(quiet) })
	defer calm()
	go func() { churned <- churn(others, rand.New(rand.NewPCG(9, 1)), quiet) }()
	for n := range times(4, 100) {
		if n%2 == 0 {
			s.worked() // the other half dies while it starts
			t.Logf("%d kills", n)
		}
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		if err := lab.Proxy(N).Kill(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := lab.Proxy(N).Start(); err != nil {
			t.Fatal(err)
		}
	}
	calm()
	if err := <-churned; err != nil {
		t.Fatal(err)
	}
	s.settle()
	stop()
	released()
	for _, o := range others {
		s.apply(o) // as the test ends it
	}
}

// worked waits until N's agent has done a round since its last start, whatever changed
// meanwhile.
func (s *scene) worked() {
	s.Helper()
	const done = "kubeproxy_sync_proxy_rules_last_timestamp_seconds"
	// Who is late says nothing here: requests judge.
	for end := time.Now().Add(5 * testbed.StartLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if code, _ := s.page(metricsAt, "/metrics"); code == http.StatusOK && s.sum(done) > 0 {
			return
		}
	}
	s.Fatal("the agent of N has done no round")
}

// churn changes Services until quiet is closed, and leaves them as they were.
func churn(services []*service, random *rand.Rand, quiet <-chan struct{}) error {
	for {
		select {
		case <-quiet:
			return nil
		case <-time.After(time.Duration(random.IntN(200)) * time.Millisecond):
		}
		v := *services[random.IntN(len(services))]
		v.endpoints = nil
		for _, pod := range []string{L1, L2, Rm, R3} {
			if random.IntN(2) == 0 {
				v.endpoints = append(v.endpoints, endpoint{pod, []state{isReady, isServing, isUnready}[random.IntN(3)]})
			}
		}
		v.externalLocal, v.internalLocal = random.IntN(2) == 0, random.IntN(2) == 0
		if err := lab.Manifests.Apply(v.name(), v.objects()...); err != nil {
			return err
		}
	}
}

// grace is how long a pod goes on to serve once it is to end.
const grace = 5 * time.Second

// pod is one that a rolling update made: a server on a host at a port of its own.
type pod struct {
	host    string
	port    uint16
	state   state
	servers []*probe.Server
}

// rolling is a Service whose endpoints are replaced one by one.
type rolling struct {
	*scene
	v    *service
	mu   sync.Mutex
	pods []*pod
	made int
	ends sync.WaitGroup
}

// slices has one for each pod, since each has its own port.
func (r *rolling) slices(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
	var all []*discoveryv1.EndpointSlice
	for _, p := range r.pods {
		ports := []servicePort{{"tcp", TCP, 80, p.port}, {"udp", UDP, 80, p.port}}
		all = append(all, v.sliceOf(f, int(p.port), ports, endpoint{p.host, p.state}))
	}
	return all
}

// change changes the pods and waits until the nodes know.
func (r *rolling) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	if err := lab.Manifests.Apply(r.v.name(), r.v.objects()...); err != nil {
		r.Error(err)
	}
}

// add starts a pod that serves before it is told.
func (r *rolling) add(host string) {
	r.made++
	p := &pod{host: host, port: uint16(10000 + r.made), state: isReady}
	for _, f := range testbed.Families() {
		for _, proto := range []probe.Protocol{TCP, UDP} {
			server, err := lab.Host(host).Serve(proto, netip.AddrPortFrom(lab.Host(host).Addr(f), p.port))
			if err != nil {
				r.Fatal(err)
			}
			p.servers = append(p.servers, server)
		}
	}
	r.change(func() { r.pods = append(r.pods, p) })
}

// retire ends the oldest pod: it is told, serves for its grace, and is gone. An
// emulated node that is late is waited for.
func (r *rolling) retire() {
	old := r.pods[0]
	r.change(func() { old.state = isServing })
	r.settle()
	r.ends.Go(func() {
		time.Sleep(grace)
		for _, server := range old.servers {
			if err := server.Close(); err != nil {
				r.Error(err)
			}
		}
	})
	r.change(func() { r.pods = r.pods[1:] })
}

// All endpoints of a Service are replaced, one after the other, under load.
func TestRollingUpdates(t *testing.T) {
	r := &rolling{scene: begin(t)}
	hosts := []string{L1, Rm, L2}
	r.v = r.service(service{loadBalancer: true, nodePort: true, slices: r.slices})
	for _, host := range hosts {
		r.add(host)
	}
	r.settle()
	stop := r.loaded(r.v)
	for range times(2, 20) {
		for _, host := range hosts {
			r.add(host)
			r.settle()
			r.retire()
		}
	}
	r.settle()
	stop()
	for range hosts {
		r.retire()
	}
	r.ends.Wait()
}

// An endpoint becomes unready and ready again while streams go on through it. Datagrams
// are left out: a flow to an endpoint that does not serve is cut, as it must be, and an
// answer that is under way then is lost with it.
func TestReadyFlipsUnderStreams(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true, nodePort: true})
	released := s.held(v)
	stop := s.loaded(v, TCP)
	for n := range times(5, 50) {
		flipped := []string{L1, Rm}[n%2]
		for _, now := range []state{isUnready, isReady} {
			v.endpoints = []endpoint{{without([]string{L1, Rm}, flipped)[0], isReady}, {flipped, now}}
			s.apply(v)
		}
	}
	stop()
	released()
}
