//go:build kernel

package takeover

import (
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

// restarts is how often TestCaseH7RestartUnderLoad restarts the proxy. Each fifth may
// settle; the others are killed at some moment of their start.
const (
	restarts = 20
	settled  = 5
)

// TestCaseH7RestartUnderLoad: a proxy that is restarted again and again cuts nothing
// (kubernetes/kubernetes#75360).
func TestCaseH7RestartUnderLoad(t *testing.T) {
	lab, err := testbed.New()
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t, lab, lab.Close)
	s.do(lab.Proxy(node).Start())
	s.settle()
	load := s.load(few(loops(lab)))
	began := time.Now()
	for i := range restarts {
		s.do(lab.Proxy(node).Kill(t.Context()))
		s.do(lab.Proxy(node).Start())
		if i%settled == settled-1 {
			s.settle()
		} else {
			time.Sleep(time.Duration(i) * 100 * time.Millisecond)
		}
	}
	load.Stop()
	s.unharmed(load, began, time.Now(), "20 restarts", Connects, Streams)
}
