package reconcile

import (
	"testing"

	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

// BenchmarkStart is the first round of 5,000 Services with 4 endpoints each.
func BenchmarkStart(b *testing.B) {
	var services []*service
	for i := range 5000 {
		s := newService(i).with(4*i, 4*i+1, 4*i+2, 4*i+3)
		s.ClusterIPs = s.ClusterIPs[:1]
		services = append(services, s)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		w := &world{}
		w.doubles()
		w.ledger = ledger.New(0, 14)
		touched := ledger.Touched{}
		for _, s := range services {
			claims, _ := plan.For(&s.Service, s.endpoints, w.node, plan.Config{})
			touched.Merge(w.ledger.Replace(ledger.Owner{Name: s.Name, Created: s.Created}, claims))
		}
		r := New(Doors{IPVS: w.ipvs, Sets: w.sets, Addresses: w.addresses, Rules: w.rules}, w.ledger, w.config)
		b.StartTimer()
		if report := r.Round(b.Context(), touched); report.Pending != 0 {
			b.Fatal(report.Err())
		}
	}
}

// BenchmarkChange is one endpoint that is replaced by another among 5,000 Services.
func BenchmarkChange(b *testing.B) {
	w := &world{}
	w.doubles()
	w.ledger = ledger.New(0, 14)
	touched := ledger.Touched{}
	put := func(s *service) {
		s.ClusterIPs = s.ClusterIPs[:1]
		claims, _ := plan.For(&s.Service, s.endpoints, w.node, plan.Config{})
		touched.Merge(w.ledger.Replace(ledger.Owner{Name: s.Name, Created: s.Created}, claims))
	}
	for i := range 5000 {
		put(newService(i).with(i, i+1))
	}
	r := New(Doors{IPVS: w.ipvs, Sets: w.sets, Addresses: w.addresses, Rules: w.rules}, w.ledger, w.config)
	r.Round(b.Context(), touched)
	changed := [2]*service{newService(7).with(7, 60001), newService(7).with(7, 60002)}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		touched = ledger.Touched{}
		put(changed[i%2])
		r.Round(b.Context(), touched)
	}
}
