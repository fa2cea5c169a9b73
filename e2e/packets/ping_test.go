//go:build kernel

package packets

import (
	"net/netip"
	"testing"
	"time"
)

// TestCaseE2PingIsAnswered (kubernetes/website#41002): the address of a Service answers
// echo requests of pods, processes of the node and hosts outside, with endpoints or
// without. An address outside of the cluster is taken for its ports alone, so that its
// owner answers them.
func TestCaseE2PingIsAnswered(t *testing.T) {
	for _, flags := range [][]string{nil, {"--cluster-ip-binding", "route"}} {
		s := begin(t)
		if flags != nil {
			s.flags(flags...)
		}
		served, empty := s.service(service{endpoints: ready(Rm)}), s.service(service{})
		s.eachTCP(func(w way) {
			for _, host := range []string{c1, N, X} {
				for _, at := range []netip.Addr{served.clusterIP(w.f), empty.clusterIP(w.f)} {
					if err := lab.Host(host).Ping(at, 5*time.Second); err != nil {
						w.Errorf("from %s: %v", host, err)
					}
				}
			}
		})
		s.remove(served)
		s.remove(empty)
	}
}
