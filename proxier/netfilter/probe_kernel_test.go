//go:build kernel

package netfilter

import (
	"context"
	"os"
	"strings"
	"testing"
)

// TestProbe compares with what the kernel says of its matches once they are loaded.
func TestProbe(t *testing.T) {
	newNamespace(t)
	for _, backend := range []Backend{BackendNFT, BackendLegacy} {
		f, err := Probe(context.Background(), backend)
		if err != nil {
			t.Fatal(err)
		}
		matches, err := os.ReadFile("/proc/thread-self/net/ip_tables_matches")
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Contains("\n"+string(matches), "\nipvs\n"); f.IPVSMatch != want {
			t.Errorf("%s: IPVSMatch %v, the kernel says %v", backend, f.IPVSMatch, want)
		}
		if !strings.HasPrefix(f.Version, "1.") || !f.RandomFully {
			t.Errorf("%s: %+v", backend, f)
		}
		t.Logf("%s: %+v", backend, f)
	}
}
