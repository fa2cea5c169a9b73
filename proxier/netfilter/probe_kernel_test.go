//go:build kernel

package netfilter

import (
	"context"
	"strings"
	"testing"
)

// TestProbe compares with whether a rule that matches IPVS can be written.
func TestProbe(t *testing.T) {
	newNamespace(t)
	for _, backend := range []Backend{BackendNFT, BackendLegacy} {
		f, err := Probe(context.Background(), backend)
		if err != nil {
			t.Fatal(err)
		}
		rule := "*mangle\n:x - [0:0]\n-A x -m ipvs --ipvs -j RETURN\nCOMMIT\n"
		if want := try(rule, program(backend, false, "-restore"), "-w", "5", "--noflush") == nil; f.IPVSMatch != want {
			t.Errorf("%s: IPVSMatch %v, written %v", backend, f.IPVSMatch, want)
		}
		if !strings.HasPrefix(f.Version, "1.") || !f.RandomFully {
			t.Errorf("%s: %+v", backend, f)
		}
		t.Logf("%s: %+v", backend, f)
	}
}
