package takeover

import (
	"net/netip"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// host has a name only.
func host(name string) *testbed.Host { return &testbed.Host{Probe: probe.New(name, nil)} }

func TestTally(t *testing.T) {
	zero := time.Unix(1000, 0)
	at := func(seconds float64, problem string) event {
		return event{zero.Add(time.Duration(seconds * float64(time.Second))), 100 * time.Millisecond, problem}
	}
	l := &Load{loops: []*Loop{
		{Client: host("a"), Kind: Connects, events: []event{at(-2, "refused"), at(-1, ""), at(0, ""), at(1, "timeout"), at(3, "timeout"), at(4, "")}},
		{Client: host("b"), Kind: Connects, events: []event{at(0.5, ""), at(2, "refused")}},
		{Client: host("c"), Kind: Streams, events: []event{at(1, "")}},
	}}
	all := l.Tally(zero, zero.Add(time.Hour))
	got := all[0]
	got.Problems = nil
	want := Tally{Kind: Connects, Loops: 2, Requests: 6, Failed: 3, Span: 2 * time.Second, Gap: 4 * time.Second}
	if got.Kind != want.Kind || got.Loops != 2 || got.Requests != 6 || got.Failed != 3 || got.Span != want.Span || got.Gap != want.Gap {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if p := all[0].Problems; len(p) != 2 || p[0] != "TCP connections from a to  invalid AddrPort: timeout at 1.0 3.0 s" {
		t.Errorf("problems %q", p)
	}
	if early := l.Tally(zero.Add(-time.Hour), zero)[0]; early.Requests != 2 || early.Failed != 1 {
		t.Errorf("before: %+v", early)
	}
	if row, want := all[3].Row("x"), "| x | TCP streams | 1 | 1 | 0 | - | 1.1 s |"; row != want {
		t.Errorf("row %q, want %q", row, want)
	}
}

// TestFew: each client asks each frontend, by a stream and one other kind.
func TestFew(t *testing.T) {
	var all []*Loop
	for _, name := range clients {
		client := host(name)
		for family := range uint16(2) {
			for frontend := range uint16(5) {
				for _, k := range Kinds() {
					if frontend < 4 || k == Streams {
						at := netip.AddrPortFrom(netip.IPv6Loopback(), family*10+frontend)
						all = append(all, &Loop{Client: client, Kind: k, Frontend: Frontend{At: at}})
					}
				}
			}
		}
	}
	kinds, asked := map[Kind]int{}, map[string]bool{}
	for _, l := range few(all) {
		kinds[l.Kind]++
		asked[l.Client.Name()+string(rune('0'+l.Frontend.At.Port()%10))] = true
	}
	if len(asked) != 15 || kinds[Streams] != 15 || kinds[Connects] < 3 || kinds[Datagrams] < 3 || kinds[Flows] < 3 {
		t.Errorf("asked %v, kinds %v", asked, kinds)
	}
}
