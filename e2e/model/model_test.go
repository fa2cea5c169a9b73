//go:build kernel

package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
	"kube-ipvs-proxy/proxier/watch"
)

// patience is for an emulated machine on a busy host.
const patience = 3 * time.Minute

// services is how many Services change.
const services = 8

// steps is how much happens in a seed; MODEL_STEPS says otherwise.
const steps = 5

// Random lives: in the end, and wherever one settles between, the kernel is what a
// fresh start makes, and the Services that nobody touches answer at every step.
func TestModel(t *testing.T) {
	first, last := seeds(t)
	w := newWorld(t)
	w.steps = int(number(t, "MODEL_STEPS", steps))
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { w.live(t, seed) })
	}
}

// seeds are those that the environment asks for, or a few.
func seeds(t *testing.T) (first, last uint64) {
	t.Helper()
	if one := number(t, "MODEL_SEED", 0); one > 0 {
		return one, one
	}
	first = number(t, "MODEL_FIRST", 1)
	return first, first + number(t, "MODEL_SEEDS", 10) - 1
}

// number reads an environment variable.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// world is the lab of all seeds.
type world struct {
	steps  int
	lab    *testbed.Lab
	node   *testbed.Host
	stable []*Service
	// rules are those that a fresh start makes.
	rules string
	// agent goes on from seed to seed, unless one fails; it may be one that died. Hurt is
	// its own.
	agent *agent
	hurt  *hurt
}

func newWorld(t *testing.T) *world {
	lab, err := testbed.NewWith(func(*testbed.Lab) (map[string]testbed.Proxy, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	w := &world{lab: lab, node: lab.Host(testbed.Node1)}
	t.Cleanup(func() {
		if w.agent != nil {
			if err := w.agent.end(); err != nil {
				t.Error(err)
			}
		}
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, pod := range Pods() {
		for _, f := range testbed.Families() {
			for _, port := range TargetPorts() {
				for _, proto := range []probe.Protocol{probe.TCP, probe.UDP} {
					h := lab.Host(pod)
					if _, err := h.Serve(proto, netip.AddrPortFrom(h.Addr(f), port)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	for n := range 2 {
		s := NewService(91 + n)
		s.Kind, s.External, s.ExternalLocal = corev1.ServiceTypeLoadBalancer, 1, n == 1
		w.stable = append(w.stable, s)
		if err := lab.Manifests.Apply(s.Name(), s.Objects(lab)...); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// life is one seed.
type life struct {
	*testing.T
	*world
	random   *rand.Rand
	seed     uint64
	services map[int]*Service
	streams  []*probe.Stream
	// damaged: others changed the kernel since it was last looked at.
	damaged bool
	damages int
	// last: all is over, and the rules are looked at even if nobody damaged them.
	last    bool
	history []string
	began   time.Time
}

func (w *world) live(t *testing.T, seed uint64) {
	l := &life{T: t, world: w, random: rand.New(rand.NewPCG(seed, 6)), seed: seed, services: map[int]*Service{}, began: time.Now()}
	t.Cleanup(l.end)
	if l.agent == nil {
		l.birth()
	}
	l.settle()
	l.hold()
	for range l.steps {
		l.step()
		if t.Failed() {
			return
		}
		l.untouched()
	}
	l.settle()
	l.last = true
	l.equal()
	l.Logf("%d things in %v", len(l.history), time.Since(l.began).Round(time.Millisecond))
}

// tell notes what is done.
func (l *life) tell(format string, args ...any) {
	line := fmt.Sprintf("%6.1fs ", time.Since(l.began).Seconds()) + fmt.Sprintf(format, args...)
	l.history = append(l.history, line)
	if os.Getenv("MODEL_SEED") != "" {
		l.Log(line)
	}
}

// end tells a failed life, and cleans up for the next.
func (l *life) end() {
	if l.Failed() {
		l.Logf("seed %d (MODEL_SEED=%d runs it alone):\n%s", l.seed, l.seed, strings.Join(l.history, "\n"))
	}
	for _, s := range l.streams {
		_ = s.Close() // some were broken by damage
	}
	for n := range l.services {
		l.remove(n)
	}
	if !l.Failed() {
		return
	}
	if err := l.agent.end(); err != nil {
		l.Log(err)
	}
	l.agent = nil
}

func (l *life) birth() {
	l.hurt = &hurt{}
	l.agent = start(l.node, l.lab.Manifests.Dir(), l.hurt)
}

// must fails the test for an error.
func (l *life) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// step does one random thing.
func (l *life) step() {
	switch n := l.random.IntN(20); {
	case n < 11:
		l.changes(1 + l.random.IntN(4))
	case n < 13:
		l.tell("killed and started again")
		l.kill(1 + l.random.IntN(3))
	case n < 15:
		after := 1 + l.random.IntN(60)
		l.tell("dies after %d operations of a change", after)
		l.hurt.dieAfter(after)
		l.changes(1 + l.random.IntN(3))
		l.kill(0)
	case n < 17:
		l.tell("faults")
		l.hurt.fail(rand.New(rand.NewPCG(l.seed, uint64(len(l.history)))), 2+l.random.IntN(10))
		l.changes(1 + l.random.IntN(3))
		time.Sleep(time.Duration(l.random.IntN(1000)) * time.Millisecond)
		l.hurt.heal()
	case l.damages > 0 && l.steps == steps: // each takes long
		l.changes(1 + l.random.IntN(4))
	default:
		l.damage()
	}
}

// kill ends the agent at once, or waits a moment for it to die; a new one begins.
func (l *life) kill(now int) {
	if now == 0 {
		select {
		case <-l.agent.done:
		case <-time.After(time.Duration(l.random.IntN(1500)) * time.Millisecond):
		}
		now = 1
	}
	l.hurt.dieAfter(now)
	l.must(l.agent.end())
	l.birth()
}

// changes makes some changes of Services.
func (l *life) changes(n int) {
	for range n {
		number := 1 + l.random.IntN(services)
		s := l.services[number]
		switch {
		case s == nil:
			s = NewService(number)
			l.services[number] = s
			l.tell("%s is new", s.Name())
		case l.random.IntN(8) == 0:
			l.tell("%s is deleted", s.Name())
			l.remove(number)
			continue
		}
		for range 1 + l.random.IntN(3) {
			l.tell("%s: %s", s.Name(), s.Change(l.random))
		}
		l.must(l.lab.Manifests.Apply(s.Name(), s.Objects(l.lab)...))
	}
}

func (l *life) remove(number int) {
	if err := l.lab.Manifests.Remove(l.services[number].Name()); err != nil {
		l.Error(err)
	}
	delete(l.services, number)
}

// damage lets another hand change the kernel. What of it must not meet other trouble
// is mended before anything else happens.
func (l *life) damage() {
	all := damages()
	d := all[l.random.IntN(len(all))]
	l.settle()
	l.tell("damage: %s", d.name)
	l.damaged = true
	l.damages++
	l.must(d.do(l.node, l.random))
	if !d.journal && l.random.IntN(2) == 0 {
		l.changes(1 + l.random.IntN(2))
	}
	l.equal()
	l.hold()
}

// settle waits until the agent has nothing left to do.
func (l *life) settle() {
	l.Helper()
	revision, err := watch.FolderRevision(l.lab.Manifests.Dir())
	l.must(err)
	for end := time.Now().Add(patience); ; l.birth() {
		err := l.agent.rest(revision)
		if err == nil || !l.agent.late() || time.Now().After(end) {
			l.must(err)
			return
		}
		l.tell("started again: %v", err)
	}
}

// calls are what the untouched Services are asked.
func (l *life) calls() map[string]probe.Call {
	at := func(a string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(a), 80) }
	one, two := l.stable[0], l.stable[1]
	return map[string]probe.Call{
		testbed.PodC1:  {Protocol: probe.TCP, To: at(one.ClusterIP(testbed.IPv4))},
		testbed.PodL2:  {Protocol: probe.UDP, To: at(two.ClusterIP(testbed.IPv6))},
		testbed.Client: {Protocol: probe.TCP, To: at(two.LoadBalancerIP(testbed.IPv4))},
		testbed.PodC2:  {Protocol: probe.TCP, To: netip.AddrPortFrom(l.node.Addr(testbed.IPv6), uint16(one.NodePort(80)))},
		testbed.Node1:  {Protocol: probe.TCP, To: at(two.ExternalIP(testbed.IPv6, 0))},
	}
}

// untouched asks Services that nobody changed, and the streams through them.
func (l *life) untouched() {
	l.Helper()
	for _, host := range slices.Sorted(maps.Keys(l.calls())) {
		if r := l.lab.Host(host).Probe.Do(l.calls()[host]); r.Outcome != probe.OK {
			l.Errorf("from %s: %v", host, r)
		}
	}
	for _, s := range l.streams {
		if err := s.Alive(4 * time.Second); err != nil {
			l.Errorf("a held stream: %v", err)
		}
	}
}

// hold opens streams through untouched Services; those before it may have been broken
// by damage.
func (l *life) hold() {
	for _, s := range l.streams {
		_ = s.Close()
	}
	l.streams = nil
	for _, host := range []string{testbed.PodC1, testbed.Client} {
		s, err := l.lab.Host(host).Hold(l.calls()[host])
		l.must(err)
		l.streams = append(l.streams, s)
	}
}
