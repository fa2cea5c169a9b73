//go:build kernel

package packets

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-ipvs-proxy/e2e/testbed"
)

func TestStatement40ExternalLocalIgnoresHints(t *testing.T) {
	s := begin(t)
	v := s.service(service{nodePort: true, externalLocal: true, slices: func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
		slice := v.sliceOf(f, 0, web, ready(L1, Rm)...)
		slice.Endpoints[0].Hints = hintsOf([]string{"z2"})
		slice.Endpoints[1].Hints = hintsOf([]string{"z1"})
		return []*discoveryv1.EndpointSlice{slice}
	}})
	s.each(func(w way) {
		w.from(c1).times(6).to(v.cluster(w)).reach(Rm) // by the hints
		w.from(X).times(6).to(v.node(w, N)).reach(L1).seen(w.addr(X))
	})
}
