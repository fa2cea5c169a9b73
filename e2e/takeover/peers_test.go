//go:build kernel && peers

package takeover

import (
	"context"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/judge"
	"kube-ipvs-proxy/e2e/testbed"
)

// TestTakeOverFromKubeProxy has the real kube-proxy serve a node, stops it and starts this
// proxy as the overlay does, and goes back, in each of kube-proxy's modes. The figures in
// the README are those that it prints.
func TestTakeOverFromKubeProxy(t *testing.T) {
	j, err := judge.NewLab(t.Context(), judge.API)
	if err != nil {
		t.Fatal(err)
	}
	j.SettleLimit = slow
	top := newStage(t, j.Lab, j.Close)
	ours := j.Proxy(node)
	for _, mode := range []string{"ipvs", "iptables", "nftables"} {
		t.Run(mode, func(t *testing.T) {
			s := &stage{T: t, lab: j.Lab, program: top.program}
			h := &handover{stage: s, mode: mode, kubeconfig: j.Kubeconfig}
			var err error
			if h.theirs, err = j.Another(t.Context(), node, mode); err != nil {
				t.Fatal(err)
			}
			h.ours, h.cleanKubeProxy = ours, j.Program()+" --cleanup"
			t.Cleanup(h.kill)
			h.there()
			h.back()
		})
	}
}

// slow is for a proxy that starts under load in an emulated machine: kube-proxy starts
// dozens of programs there, each of which takes seconds.
const slow = 8 * time.Minute

// excluded is the range of the strangers' server.
const excluded = "192.0.2.0/24"

// handover is one mode's part.
type handover struct {
	*stage
	mode                       string
	theirs, ours               testbed.Proxy
	kubeconfig, cleanKubeProxy string
}

// kill ends what a failure left running.
func (h *handover) kill() {
	for _, p := range []testbed.Proxy{h.theirs, h.ours} {
		if p.Running() {
			_ = p.Kill(context.Background()) // it may have ended by itself, which was told
		}
	}
}

// start puts a proxy on the node and waits until it has settled.
func (h *handover) start(p testbed.Proxy, args ...string) {
	h.Helper()
	h.lab.Replace(node, p)
	h.do(p.Start(args...))
	h.settle()
}

func (h *handover) startTheirs() {
	h.Helper()
	var args []string
	if h.mode == "ipvs" {
		args = []string{"--ipvs-exclude-cidrs", excluded}
	}
	h.start(h.theirs, args...)
}

// there is the way from kube-proxy to us.
func (h *handover) there() {
	h.Helper()
	h.do(apply(h.lab, draining))
	h.startTheirs()
	h.plantStrangers()
	load := h.load(few(loops(h.lab)))
	h.do(apply(h.lab, drained))
	h.settle()
	time.Sleep(calm)

	began := time.Now()
	h.do(h.theirs.Stop(h.Context()))
	h.tool(h.program + " run --init-only --hostname-override " + node)
	h.start(h.ours)
	took := time.Since(began)
	time.Sleep(calm)
	load.Stop()
	h.unharmed(load, time.Time{}, began, h.mode+", before")
	h.Logf("settled after %v", took)
	h.unharmed(load, began, time.Now(), h.mode+" to us", Connects, Streams)
	h.strangersLive("after the way from kube-proxy " + h.mode)
	h.tool(strings.Join([]string{h.program, "verify", "--kubeconfig", h.kubeconfig, "--hostname-override", node, "--cluster-cidr", testbed.ClusterCIDR}, " "))
	h.nothingLeft()
}

// back is the way from us to kube-proxy.
func (h *handover) back() {
	h.Helper()
	load := h.load(few(loops(h.lab)))
	began := time.Now()
	h.do(h.ours.Stop(h.Context()))
	clean := make(chan error, 1)
	go func() { // a Pod of its own: it does not know when kube-proxy comes
		successor := map[bool]string{true: "kube-proxy-ipvs", false: "kube-proxy"}[h.mode == "ipvs"]
		_, err := h.lab.Host(node).Exec(h.Context(), h.program, "cleanup", "--for="+successor)
		clean <- err
	}()
	h.startTheirs()
	took := time.Since(began)
	h.do(<-clean)
	time.Sleep(calm)
	load.Stop()
	h.Logf("settled after %v", took)
	if h.mode == "nftables" {
		h.flushed(load, began)
	} else {
		h.unharmed(load, began, time.Now(), "back to "+h.mode)
		h.strangersLive("back to " + h.mode)
	}
	for _, list := range []string{"iptables-save", "ip6tables-save", "ipset list -n", "ip rule", "ip -6 rule"} {
		if out := h.tool(list); strings.Contains(out, "KIPVS-") || strings.Contains(out, "18768") {
			h.Errorf("back to %s: %s still has something of ours:\n%s", h.mode, list, out)
		}
	}
	h.do(h.theirs.Stop(h.Context()))
	_, _ = h.lab.Host(node).Exec(h.Context(), "sh", "-c", h.cleanKubeProxy) // it fails at strangers' sets
	h.removeStrangers()
}

// flushed is the way back to nftables mode: kube-proxy flushes IPVS when it starts, with
// the servers of all others, and has no rules yet. How long that lasts is told; what it
// serves after that is judged.
func (h *handover) flushed(load *Load, began time.Time) {
	h.Helper()
	h.figures(load, began, time.Now(), "back to nftables")
	settled := time.Now()
	after := h.load(few(loops(h.lab)))
	time.Sleep(calm)
	after.Stop()
	h.unharmed(after, settled, time.Now(), "nftables, after", Kinds()...)
}

// removeStrangers makes room for the next mode; kube-proxy has taken some of them.
func (h *handover) removeStrangers() {
	for _, line := range []string{
		"ipvsadm -C", "ipset destroy BLOCKED", "nft delete table ip mine", "ip address del 192.0.2.98/32 dev lo",
		"iptables -t filter -D INPUT -p tcp --dport 2222 -j ACCEPT", "iptables -t nat -D POSTROUTING -s 192.0.2.0/24 -j MASQUERADE",
		"ip6tables -t filter -D INPUT -p tcp --dport 2222 -j ACCEPT", "ip6tables -t nat -D POSTROUTING -s fd00::/64 -j MASQUERADE",
	} {
		_, _ = h.lab.Host(node).Exec(h.Context(), "sh", "-c", line)
	}
}
