package reconcile

import (
	"testing"
	"time"
)

// Drains are told with the deadline that ends them.
func TestDrainsAreTold(t *testing.T) {
	bubble(t, func(w *world) {
		s := newService(1).with(1, 2)
		s.DrainTimeout = nil
		w.put(s)
		w.settle()
		w.busy(web, pod1, 1)
		w.put(s.with(2))
		begun := time.Now()
		w.round()
		found := false
		for _, d := range w.Drains() {
			if d.Server == web && d.Real == pod1 {
				found = true
				if !d.Since.Equal(begun) || !d.Deadline.Equal(begun.Add(15*time.Minute)) {
					t.Errorf("since %v until %v, want %v and 15 minutes", d.Since, d.Deadline, begun)
				}
			}
		}
		if !found {
			t.Errorf("drains: %v", w.Drains())
		}
		never := -time.Second
		s.DrainTimeout = &never
		w.put(s)
		w.round()
		for _, d := range w.Drains() {
			if !d.Deadline.IsZero() {
				t.Errorf("a drain without end is told to end: %+v", d)
			}
		}
	})
}
