package watch

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

func TestAnnotations(t *testing.T) {
	wait := 90 * time.Second
	for _, c := range []struct {
		name, value string
		want        plan.Service
		problems    int
	}{
		{annotationScheduler, " lc ", plan.Service{Scheduler: "lc"}, 0},
		{annotationScheduler, "fastest", plan.Service{}, 1},
		{annotationFlags, "mh-port, mh-fallback", plan.Service{SchedulerFlags: map[string]ipvsutil.Flags{"mh": ipvsutil.FlagSched1 | ipvsutil.FlagSched2}}, 0},
		{annotationFlags, "mh-speed", plan.Service{}, 1},
		{annotationWeights, "10.244.1.2=3,fd44::7=0", plan.Service{Weights: map[netip.Addr]uint32{
			netip.MustParseAddr("10.244.1.2"): 3, netip.MustParseAddr("fd44::7"): 0,
		}}, 0},
		{annotationWeights, "10.244.1.2=70000", plan.Service{}, 1},
		{annotationWeights, "10.244.1.2", plan.Service{}, 1},
		{annotationWeights, "here=1", plan.Service{}, 1},
		{annotationDrain, "90s", plan.Service{DrainTimeout: &wait}, 0},
		{annotationDrain, "soon", plan.Service{}, 1},
		{annotationNodeLocal, "skip", plan.Service{NodeLocal: true}, 0},
		{annotationNodeLocal, "maybe", plan.Service{}, 1},
		{"kube-ipvs-proxy/unknown", "x", plan.Service{}, 0},
	} {
		var got plan.Service
		r := &reports{}
		annotate(map[string]string{c.name: c.value}, &got, r)
		if d := cmp.Diff(c.want, got, cmpopts.EquateComparable(netip.Addr{})); d != "" {
			t.Errorf("%s %q: %s", c.name, c.value, d)
		}
		if n := len(r.problems()); n != c.problems {
			t.Errorf("%s %q: %d problems, want %d", c.name, c.value, n, c.problems)
		}
	}
}
