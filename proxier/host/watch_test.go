package host

import "testing"

// A reader that is slow gets all that happened as one event, and nobody waits for it.
func TestWatchTellsOnce(t *testing.T) {
	w := &watcher{events: make(chan Event, 1)}
	w.tell(0)
	if len(w.events) != 0 {
		t.Error("nothing is an event")
	}
	for range 3 {
		w.tell(NodeAddresses)
	}
	w.tell(DeviceGone)
	if e := <-w.events; e != NodeAddresses|DeviceGone {
		t.Errorf("event %q", e)
	}
	if len(w.events) != 0 {
		t.Error("one event too many")
	}
	w.tell(DeviceGone)
	if e := <-w.events; e.String() != "device gone" || e.Has(NodeAddresses) {
		t.Errorf("event %q", e)
	}
}
