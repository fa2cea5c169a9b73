package load

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// What fails is counted by kind, and what goes well too.
func TestLoadCountsFailures(t *testing.T) {
	here := &testbed.Host{Probe: probe.New("me", nil)}
	server, err := here.Serve(probe.TCP, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	call := probe.Call{Protocol: probe.TCP, To: server.Addr()}
	l := &Load{}
	l.Ask("web", here, call, time.Millisecond)
	if err := l.Hold("stream", here, call, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for l.Counts().Asked < 3 || l.Counts().Lines < 3 {
		time.Sleep(time.Millisecond)
	}
	if c := l.Counts(); c.Bad() != 0 || c.Streams != 1 || c.Slowest == 0 {
		t.Errorf("with a server: %v", c)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	for len(l.Counts().Failed) == 0 || len(l.Counts().Broken) == 0 {
		time.Sleep(time.Millisecond)
	}
	c := l.Stop()
	if c.Failed["web refused"]+c.Failed["web reset"] == 0 || c.Broken["stream"] != 1 || !strings.Contains(c.String(), "stream: 1") {
		t.Errorf("without a server: %v", c)
	}
}
