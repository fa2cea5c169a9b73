//go:build kernel

package packets

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// What happens seldom: flows of others, idle streams, a node whose addresses cannot be
// read.

// foreignFlows are the connections of N that lead to a port of Rm itself.
func (w way) foreignFlows(port uint16) []string {
	w.Helper()
	out, err := lab.Host(N).Exec(context.Background(), "conntrack", "-L", "-o", "id", "-f", strings.ToLower(w.f.String()),
		"-p", "udp", "--orig-dst", w.addr(Rm).String(), "--orig-port-dst", fmt.Sprint(port))
	if err != nil {
		w.Fatal(err)
	}
	var ids []string
	for _, field := range strings.Fields(out) {
		if strings.HasPrefix(field, "id=") {
			ids = append(ids, field)
		}
	}
	return ids
}

func TestStatement92FlowsOfOthersAreNotCut(t *testing.T) {
	s := begin(t)
	v := service{endpoints: ready(L1), nodePort: true, ports: web[1:]}
	v.number = int(lastNumber) + 1
	port := v.nodePortOf(80)
	ask := func(w way) probe.Result {
		return lab.Host(c1).Probe.Do(probe.Call{Protocol: UDP, From: netip.AddrPortFrom(w.addr(c1), 20500), To: netip.AddrPortFrom(w.addr(Rm), port)})
	}
	before := map[testbed.Family][]string{}
	s.eachUDP(func(w way) {
		s.serve(Rm, UDP, netip.AddrPortFrom(w.addr(Rm), port))
		if r := ask(w); r.Who != Rm {
			w.Fatal(r)
		}
		if before[w.f] = w.foreignFlows(port); len(before[w.f]) != 1 {
			w.Fatalf("flows %q", before[w.f])
		}
	})
	held := s.service(v)
	s.eachUDP(func(w way) { w.from(X).to(held.node(w, N)).reach(L1) })
	held.endpoints = nil
	s.apply(held)
	s.remove(held)
	s.eachUDP(func(w way) {
		if r := ask(w); r.Who != Rm {
			w.Error(r)
		}
		if after := w.foreignFlows(port); !slices.Equal(before[w.f], after) {
			w.Errorf("the flow was %q, is %q", before[w.f], after)
		}
	})
}

// idleTime is how long a stream is idle in statement 95, where IPVS forgot it before:
// its own limit, which the start of the proxy raises to conntrack's, is made two
// seconds. With IDLE=20m in the environment it is as long, and the limit is IPVS's own.
func idleTime(t *testing.T) (idle time.Duration, limit string) {
	text := os.Getenv("IDLE")
	if text == "" {
		return 6 * time.Second, "2"
	}
	idle, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return idle, "900"
}

func TestStatement95IdleStreamLives(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	idle, limit := idleTime(t)
	s.stop()
	s.run("ipvsadm", "--set", limit, "120", "300")
	s.start()
	s.settle()
	held := s.streams(v)
	time.Sleep(idle)
	s.eachTCP(func(w way) { w.alive(held[w.f]) })
	if os.Getenv("IDLE") != "" {
		return
	}
	// The limit that the proxy found would have been too short.
	s.run("ipvsadm", "--set", limit, "120", "300")
	held = s.streams(v)
	time.Sleep(idle)
	s.eachTCP(func(w way) {
		if err := held[w.f].Alive(2 * time.Second); err == nil {
			w.Error("the stream lives without the proxy's doing")
		}
	})
}

// TestStatement80 changes addresses so fast that listings of them are interrupted.
func TestStatement80AddressesThatCannotBeRead(t *testing.T) {
	s := begin(t)
	s.flags("--nodeport-addresses", "primary")
	v := s.service(service{endpoints: ready(L1), nodePort: true})
	s.manyAddresses(1500)
	s.storm()
	s.logged("list the node's addresses")
	for range 5 {
		s.eachTCP(func(w way) { w.from(X).times(2).to(v.node(w, N)).reach(L1) })
	}
}

// manyAddresses gives N a device with so many addresses that a listing takes several
// messages.
func (s *scene) manyAddresses(n int) {
	s.Helper()
	var batch strings.Builder
	batch.WriteString("link add many0 type dummy\n")
	for i := range n {
		fmt.Fprintf(&batch, "address add 10.77.%d.%d/32 dev many0\n", i/250, 1+i%250)
	}
	file := s.TempDir() + "/batch"
	if err := os.WriteFile(file, []byte(batch.String()), 0o600); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.run("ip", "link", "del", "many0") })
	s.run("ip", "-batch", file)
}

// storm adds and removes an address until the test ends, as fast as it goes.
func (s *scene) storm() {
	s.Helper()
	var handle *netlink.Handle
	if err := lab.Host(N).Do(func() (err error) { handle, err = netlink.NewHandle(); return err }); err != nil {
		s.Fatal(err)
	}
	link, err := handle.LinkByName("many0")
	if err != nil {
		s.Fatal(err)
	}
	addr, err := netlink.ParseAddr("10.78.0.1/32")
	if err != nil {
		s.Fatal(err)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer handle.Close()
		for {
			select {
			case <-end:
				return
			default:
				_ = handle.AddrAdd(link, addr)
				_ = handle.AddrDel(link, addr)
			}
		}
	}()
	s.Cleanup(func() { close(end); <-ended })
}
