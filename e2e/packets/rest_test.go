//go:build kernel

package packets

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// What the proxy does not do: work that nobody needs.

// rounds are the lines of rounds that wrote something, in the present run.
func rounds() []string { return linesWith("msg=round ") }

func TestStatement30UnchangedSliceStartsNothing(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	before := len(rounds())
	for range 3 {
		s.apply(v) // a new file of the same text
	}
	if after := rounds(); len(after) != before {
		t.Errorf("it wrote: %q", after[before:])
	}
	v.endpoints = ready(L1)
	s.apply(v)
	if len(rounds()) == before {
		t.Error("rounds that write are not told")
	}
}

func TestStatement115NothingIsWrittenAtRest(t *testing.T) {
	s := begin(t)
	s.service(service{endpoints: ready(L1, Rm), nodePort: true, loadBalancer: true, externalLocal: true})
	const period = time.Second
	s.flags("--ipvs-sync-period", period.String(), "--refresh-period", "2s", "--drain-timeout", "0s")
	// What tests before this one left to drain ends in this run, and is none of its rest.
	s.until("nothing drains", func() bool { return s.sum("kube_ipvs_proxy_draining_real_servers") == 0 })
	before, looks := s.writes(), s.sum("kube_ipvs_proxy_rounds_total")
	time.Sleep(4 * period)
	s.until("looks at the kernel", func() bool { return s.sum("kube_ipvs_proxy_rounds_total") >= looks+3 })
	if n := s.writes() - before; n != 0 || len(rounds()) > 1 {
		t.Errorf("%v writes at rest, told %q", n, rounds())
	}
}

// writes is how many operations there were that are no looks; the device is made sure of
// by one.
func (s *scene) writes() float64 {
	s.Helper()
	sum := 0.0
	for _, line := range s.metrics() {
		if strings.HasPrefix(line, "kube_ipvs_proxy_operations_total{") && !strings.Contains(line, `verb="list"`) && !strings.Contains(line, `kind="device"`) {
			n, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
			if err != nil {
				s.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// programmed changes the one endpoint of a Service and returns how long it took until it
// answered c1, the best of some.
func (s *scene) programmed(v *service) time.Duration {
	s.Helper()
	best := time.Hour
	for i := range 6 {
		pod := []string{L1, L2}[i%2]
		v.endpoints = ready(pod)
		call := probe.Call{Protocol: TCP, To: v.at(v.clusterIP(IPv4)), Timeout: time.Second}
		start := time.Now()
		s.write(v.name(), v.objects())
		for lab.Host(c1).Probe.Do(call).Who != pod {
			if time.Since(start) > patient {
				s.Fatalf("%s does not answer", pod)
			}
		}
		best = min(best, time.Since(start))
		s.settle()
	}
	return best
}

func TestStatement112ChangeCostsWhatItIs(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L2), ports: web[:1]})
	few := s.programmed(v)
	s.write("filler", filler(250))
	s.settle()
	many := s.programmed(v)
	t.Logf("an endpoint answers %v after the change, with 250 more Services %v", few, many)
	if many > 5*few {
		t.Errorf("an endpoint answers %v after the change, with 250 more Services %v", few, many)
	}
}

// filler are n Services that nobody asks.
func filler(n int) []runtime.Object {
	var objects []runtime.Object
	for i := range n {
		v := service{number: 1, endpoints: ready(L1, L2, Rm, R3), ports: web[:1]}
		o := v.object()
		o.Name = fmt.Sprintf("filler%d", i)
		for j, a := range []string{fmt.Sprintf("10.96.%d.%d", 100+i/250, 1+i%250), fmt.Sprintf("fd96::4:%x", i+1)} {
			o.Spec.ClusterIPs[j] = a
		}
		o.Spec.ClusterIP = o.Spec.ClusterIPs[0]
		objects = append(objects, o)
		for _, f := range testbed.Families() {
			slice := v.sliceOf(f, 0, v.servicePorts(), v.endpoints...)
			slice.Name = fmt.Sprintf("filler%d-%d", i, f)
			slice.Labels[discoveryv1.LabelServiceName] = o.Name
			objects = append(objects, slice)
		}
	}
	return objects
}
