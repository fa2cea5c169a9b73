package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

var errFlows = errors.New("no flows today")

// What is left of a deleted Service with a connection: its server at weight 0, its
// entries, the refusal of new connections, and its address.
var lingeringWeb = []string{
	"vs 10.96.0.1:80/tcp rr", "rs 10.96.0.1:80/tcp 10.244.0.1:8080 w0", "addr 10.96.0.1",
	"set KUBE-CLUSTER-IP 10.96.0.1,tcp:80", "set KUBE-IPVS-IPS 10.96.0.1", "set KIPVS-REFUSE 10.96.0.1,tcp:80",
}

func TestServiceInUseLingers(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.put(newService(3).with(3))
		w.settle()
		w.busy(web, pod1, 1)
		before := len(w.guard.history)
		w.remove(s)
		report := w.round()
		if report.Lingering != 1 || report.Pending != 0 {
			t.Errorf("%+v", report)
		}
		if got := w.guard.history[before]; got != "add KIPVS-REFUSE 10.96.0.1,tcp:80" {
			t.Errorf("first: %s", got)
		}
		w.wait(10 * time.Second)
		w.equal(lingeringWeb...)
		w.busy(web, pod1, 0)
		w.settle()
		w.equal()
		if len(w.lingers.servers)+len(w.lingers.members)+len(w.lingers.bound)+len(w.drains)+len(w.timeouts) != 0 {
			t.Errorf("something is remembered: %+v", w.lingers)
		}
	})
}

func TestLingeringEndsAtTheDeadline(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.busy(web, pod1, 1)
		w.remove(s)
		w.wait(15*time.Minute + longestCheck)
		w.equal()
	})
}

func TestLingeringOutlivesARestart(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.busy(web, pod1, 1)
		w.remove(s)
		w.wait(10 * time.Second)
		w.start()
		w.wait(10 * time.Second)
		w.equal(lingeringWeb...)
		w.busy(web, pod1, 0)
		w.settle()
		w.equal()
	})
}

// The Service was deleted while no process ran.
func TestServiceDeletedMeanwhileLingers(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.busy(web, pod1, 1)
		delete(w.services, s.Name)
		w.start()
		w.wait(10 * time.Second)
		w.equal(lingeringWeb...)
	})
}

// Another Service takes the frontend: it serves at once, and the old connections
// drain behind it.
func TestLingeringYields(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.busy(web, pod1, 1)
		w.remove(s)
		w.wait(10 * time.Second)
		before := len(w.guard.history)
		heir := newService(1).with(3)
		heir.Name.Name = "heir"
		w.put(heir)
		if report := w.round(); report.Pending != 0 || report.Lingering != 0 {
			t.Errorf("%+v", report)
		}
		w.equal("rs 10.96.0.1:80/tcp 10.244.0.1:8080 w0")
		for _, line := range w.guard.history[before:] {
			if strings.Contains(line, "delete virtual") || strings.Contains(line, "unbind") {
				t.Error(line)
			}
		}
		w.busy(web, pod1, 0)
		w.settle()
		w.equal()
	})
}

// The Service itself comes back: nothing was deleted, and nothing is.
func TestLingeringServiceComesBack(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1))
		w.settle()
		w.busy(web, pod1, 1)
		w.remove(s)
		w.round()
		w.put(s)
		w.round()
		w.wantWeight(web, pod1, "w1")
		w.settle()
		w.equal()
	})
}

// One port of two goes while it is used: the address stays for the other anyway,
// and longer for the one that lingers.
func TestLingeringSharesItsAddress(t *testing.T) {
	bubble(t, func(w *world) {
		s := newService(1)
		s.Ports = append(s.Ports, plan.Port{Name: "https", Protocol: ipvsutil.TCP, Port: 443})
		w.put(s.with(1))
		w.settle()
		w.busy(web, pod1, 1)
		s.Ports = s.Ports[1:]
		w.put(s.with(1))
		w.wait(5 * time.Second)
		w.remove(s)
		w.wait(5 * time.Second)
		w.equal(lingeringWeb...)
		w.busy(web, pod1, 0)
		w.settle()
		w.equal()
	})
}

func TestCapturedAddressLingers(t *testing.T) {
	bubble(t, func(w *world) {
		s := newService(5).loadBalancer(5).nodePort(30005).with(1, 2)
		s.Type = plan.LoadBalancer
		w.put(s)
		w.settle()
		lb, nodePort := key("203.0.113.5:80", ipvsutil.TCP), key("192.0.2.11:30005", ipvsutil.TCP)
		w.busy(lb, pod1, 1)
		w.busy(nodePort, pod2, 1)
		w.remove(s)
		w.wait(10 * time.Second)
		w.equal(
			"vs 203.0.113.5:80/tcp rr", "rs 203.0.113.5:80/tcp 10.244.0.1:8080 w0", "route 203.0.113.5",
			"set KUBE-LOAD-BALANCER 203.0.113.5,tcp:80", "set KIPVS-CAPTURE 203.0.113.5,tcp:80",
			"set KIPVS-REFUSE 203.0.113.5,tcp:80",
			"vs 192.0.2.11:30005/tcp rr", "rs 192.0.2.11:30005/tcp 10.244.0.2:8080 w0",
			"set KUBE-NODE-PORT-TCP 30005", "set KIPVS-REFUSE 192.0.2.11,tcp:30005",
		)
		w.busy(lb, pod1, 0)
		w.busy(nodePort, pod2, 0)
		w.settle()
		w.equal()
	})
}

// The policy becomes Cluster while a pod uses the short circuit: the mark server
// lingers, known as ours by an entry of its own, and new connections of pods take
// the address server.
func TestShortCircuitLingers(t *testing.T) {
	bubble(t, func(w *world) {
		s := newService(5).loadBalancer(5)
		s.ExternalLocal = true
		s.ClusterIPs = s.ClusterIPs[:1]
		w.put(s.with(1, 2))
		w.settle()
		mark := ipvsutil.MarkKey(1, false)
		w.busy(mark, pod2, 1)
		s.ExternalLocal = false
		w.put(s)
		before := len(w.guard.history)
		w.wait(5 * time.Second)
		lingering := []string{
			"vs fwm 1 (IPv4) rr", "rs fwm 1 (IPv4) 10.244.0.2:8080 w0", "set KIPVS-SHORT-CIRCUIT 0.0.0.1,59:0",
		}
		w.equal(lingering...)
		taken := -1
		for i, line := range w.guard.history[before:] {
			if line == "delete KIPVS-SHORT-CIRCUIT 203.0.113.5,tcp:80" {
				taken = i
			}
			if strings.HasPrefix(line, "update real server fwm") && taken < 0 {
				t.Errorf("%s, while clients are still led there", line)
			}
		}
		w.start()
		w.wait(5 * time.Second)
		w.equal(lingering...)
		w.busy(mark, pod2, 0)
		w.settle()
		w.equal()
	})
}

// Where remote real servers serve, the client's source address must not be kept.
func TestPolicyFlipsAreSafeAtEveryStep(t *testing.T) {
	bubble(t, func(w *world) {
		s := newService(5).loadBalancer(5).nodePort(30005)
		s.Type = plan.LoadBalancer
		w.put(s.with(1, 2))
		w.settle()
		lb := key("203.0.113.5:80", ipvsutil.TCP)
		exception := ipsetutil.Member{
			Set: ipsetutil.LoadBalancerLocal.Name(false), Entry: plan.MemberOf(ipsetutil.LoadBalancer, lb).Entry,
		}
		for _, local := range []bool{true, false, true, false} {
			s.ExternalLocal = local
			before := len(w.guard.history)
			w.put(s)
			w.settle()
			kept, remote := !local, local // before the first step
			for _, line := range w.guard.history[before:] {
				switch {
				case line == "add "+exception.String():
					kept = true
				case line == "delete "+exception.String():
					kept = false
				case strings.HasPrefix(line, "create real server "+lb.String()+" -> "+pod2.String()),
					strings.HasPrefix(line, "update real server "+lb.String()+" -> "+pod2.String()+" w1"):
					remote = true
				case strings.HasPrefix(line, "update real server "+lb.String()+" -> "+pod2.String()+" w0"):
					remote = false
				}
				if kept && remote {
					t.Fatalf("to local %v: unsafe after %q in\n%s", local, line, strings.Join(w.guard.history[before:], "\n"))
				}
			}
			if kept != local || remote == local {
				t.Fatalf("to local %v: not seen in\n%s", local, strings.Join(w.guard.history[before:], "\n"))
			}
		}
	})
}

// Source ranges: nobody who may come in is dropped for a moment.
func TestSourceRangesComeBeforeTheFilter(t *testing.T) {
	bubble(t, func(w *world) {
		s := newService(5).loadBalancer(5)
		ranges := s.SourceRanges
		s.SourceRanges = nil
		w.put(s.with(1))
		w.settle()
		w.guard.history = nil
		s.SourceRanges = ranges
		w.put(s)
		w.settle()
		s.SourceRanges = nil
		w.put(s)
		w.settle()
		var order []string
		for _, line := range w.guard.history {
			if strings.Contains(line, "203.0.113.5") {
				order = append(order, line)
			}
		}
		want := "add KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.5,tcp:80,198.51.100.0/24\n" +
			"add KUBE-LOAD-BALANCER-FW 203.0.113.5,tcp:80\n" +
			"delete KUBE-LOAD-BALANCER-FW 203.0.113.5,tcp:80\n" +
			"delete KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.5,tcp:80,198.51.100.0/24"
		if got := strings.Join(order, "\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// A NodePort at an address that leaves the node goes with it, whether it had begun to
// linger before or not: nobody would know later whose it is.
func TestNodePortLeavesWithItsAddress(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		bubble(t, func(w *world) {
			s := newService(5).nodePort(30005)
			s.Type = plan.NodePort
			w.put(s.with(1, 2))
			w.settle()
			w.busy(key("192.0.2.11:30005", ipvsutil.TCP), pod1, 1)
			if deleted {
				w.remove(s)
				if report := w.round(); report.Lingering != 1 {
					t.Errorf("%+v", report)
				}
			}
			w.node.Addrs, w.node.NodePortAddrs = w.node.Addrs[1:], w.node.NodePortAddrs[1:]
			w.touched.Merge(w.ledger.Replace(ledger.Owner{}, plan.ForNode(w.node)))
			if !deleted {
				w.plan(s)
			}
			w.round()
			w.wait(10 * time.Second)
			w.equal()
		})
	}
}
