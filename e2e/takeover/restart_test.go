//go:build kernel

package takeover

import (
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

// restarts is how often TestCaseH7RestartUnderLoad restarts the proxy.
const restarts = 20

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
	for range restarts {
		s.do(lab.Proxy(node).Kill(t.Context()))
		s.do(lab.Proxy(node).Start())
		s.settle()
	}
	load.Stop()
	s.unharmed(load, began, time.Now(), "20 restarts", Kinds()...)
}
