//go:build kernel

package packets

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The agent listens where it says and nowhere else: health on all addresses, metrics on
// loopback, and the health-check port of each Service that has one.
func TestPortsOfTheAgent(t *testing.T) {
	s := begin(t)
	s.service(withHealth(ready(L1)...))
	s.eachTCP(func(w way) { w.wantHealth(health{200, "1", 1}) }) // it is open
	var got []string
	for line := range strings.Lines(s.run("ss", "-Hltunp")) {
		if f := strings.Fields(line); strings.Contains(line, "kube-ipvs-proxy") {
			got = append(got, f[0]+" "+f[4])
		}
	}
	want := []string{"tcp *:10256", fmt.Sprintf("tcp *:%d", healthPort), "tcp 127.0.0.1:10249"}
	plain := func(list []string) []string { // one socket for both families, or one for each
		var out []string
		for _, at := range list {
			at = strings.NewReplacer("0.0.0.0:", "*:", "[::]:", "*:").Replace(at)
			out = append(out, at)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	if got = plain(got); !slices.Equal(got, want) {
		t.Errorf("it listens at %v, want %v", got, want)
	}
}
