package world

import (
	"net/netip"
	"testing"
)

func TestParseSize(t *testing.T) {
	if s, err := ParseSize("5000x4"); err != nil || s != (Size{5000, 4}) || s.String() != "5000x4" {
		t.Errorf("5000x4 is %v, %v", s, err)
	}
	for _, wrong := range []string{"", "5000", "x4", "2x4", "100x0", "-5x4", "1000000x1", "100000x100", "5000x4x2"} {
		if s, err := ParseSize(wrong); err == nil {
			t.Errorf("%q is the size %v", wrong, s)
		}
	}
}

// TestAddresses: no address is there twice, and each is where its kind belongs.
func TestAddresses(t *testing.T) {
	w := New(Size{300, 7}, "default", NodeName)
	for i := range 50 {
		w.Add(3)
		w.Replace(i)
	}
	seen := map[netip.Addr]bool{ClientIP: true, NodeIP: true}
	take := func(a netip.Addr, in ...netip.Prefix) {
		t.Helper()
		if seen[a] {
			t.Errorf("%v is there twice", a)
		}
		seen[a] = true
		for _, p := range in {
			if p.Contains(a) {
				return
			}
		}
		t.Errorf("%v is outside of %v", a, in)
	}
	for _, s := range w.Services {
		take(s.IP, Services)
		for _, e := range s.Endpoints {
			take(e, Early, Late)
			if !Pods.Contains(e) {
				t.Errorf("%v is no pod's", e)
			}
		}
	}
	if Early.Contains(ClientIP) || Late.Contains(ClientIP) || !Pods.Contains(ClientIP) {
		t.Error("the client is in the endpoints' place, or is no pod")
	}
}

func TestChanges(t *testing.T) {
	w := New(Size{10, 4}, "default", NodeName)
	if len(w.Services) != 11 || len(w.Services[w.Probe].Endpoints) != 1 || w.Locals() != 10 {
		t.Fatalf("%d Services, probe %+v, %d local endpoints", len(w.Services), w.Services[w.Probe], w.Locals())
	}
	before := w.Services[3]
	now, old := w.Replace(3)
	if old.Addr() != before.Endpoints[3] || now.Endpoints[3] == old.Addr() || now.Endpoints[0] != before.Endpoints[0] || before.Endpoints[3] != old.Addr() {
		t.Errorf("%v, with %v replaced, is %v", before.Endpoints, old, now.Endpoints)
	}
	added := w.Add(4)
	if got := w.Remove(); got.Name != added.Name || len(w.Services) != 11 {
		t.Errorf("removed %s of %d, want %s", got.Name, len(w.Services), added.Name)
	}
}

// TestObjects: slices hold at most a hundred endpoints and together all of them.
func TestObjects(t *testing.T) {
	w := New(Size{3, 250}, "default", NodeName)
	s := w.Services[1]
	slices := s.Slices()
	if len(slices) != 3 {
		t.Fatalf("%d slices", len(slices))
	}
	n, local := 0, 0
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			if e.Addresses[0] != s.Endpoints[n].String() {
				t.Errorf("endpoint %d is %v, want %v", n, e.Addresses, s.Endpoints[n])
			}
			if *e.NodeName == NodeName {
				local++
			}
			n++
		}
	}
	if n != 250 || local != s.Local || local == 0 {
		t.Errorf("%d endpoints, %d local, want 250, %d", n, local, s.Local)
	}
	if o := s.Object(); o.Spec.ClusterIP != s.IP.String() || int(o.Spec.Ports[0].Port) != int(s.Port) {
		t.Errorf("Service is %+v", o.Spec)
	}
}
