//go:build kernel

package packets

import (
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"kube-ipvs-proxy/e2e/judge"
	"kube-ipvs-proxy/e2e/probe"
)

const (
	// atOnce is the limit for a refusal: less than the second after which a lost
	// first packet is sent again.
	atOnce = 900 * time.Millisecond
	// silence is how long a drop is waited for: one packet sent again.
	silence = 1200 * time.Millisecond
)

// caller asks from one host.
type caller struct {
	way
	host     string
	call     probe.Call
	n        int
	parallel int // calls under way
}

// from asks once from a host; times and bound say otherwise.
func (w way) from(host string) caller {
	return caller{way: w, host: host, call: probe.Call{Protocol: w.proto}, n: 1, parallel: 4}
}

// times asks n times.
func (c caller) times(n int) caller {
	c.n = n
	return c
}

// patience is how many times as many calls a proxy gets that picks at random, not by
// turns: more, or one for the product.
func patience(more int) int {
	if mode, err := judge.Mode(os.Getenv(judge.Variable)); err != nil || mode == "" || mode == "ipvs" {
		return 1
	}
	return more
}

// inTurn asks one after the other, not several at once.
func (c caller) inTurn() caller {
	c.parallel = 1
	return c
}

// bound asks with a source address.
func (c caller) bound(a netip.Addr) caller {
	c.call.From = netip.AddrPortFrom(a, 0)
	return c
}

// to asks one frontend.
func (c caller) to(at netip.AddrPort) answers {
	c.call.To = at
	return answers{c, lab.Host(c.host).Many(c.call, c.n, c.parallel)}
}

// dropped asks one frontend twice and wants no answer at all. A process of the node
// that drops is told so when it sends UDP.
func (c caller) dropped(at netip.AddrPort) {
	c.Helper()
	a := c.silent(at)
	for _, r := range a.results {
		if r.Outcome != probe.Timeout && !a.deniedByOwnNode(r) {
			a.fail("want no answer")
			return
		}
	}
}

// unserved asks one frontend twice and wants nobody to serve, be it by silence or
// by a refusal.
func (c caller) unserved(at netip.AddrPort) {
	c.Helper()
	a := c.silent(at)
	for _, r := range a.results {
		if r.Outcome == probe.OK {
			a.fail("want nobody to answer")
			return
		}
	}
}

// silent asks twice where no answer is expected.
func (c caller) silent(at netip.AddrPort) answers {
	c.call.To, c.call.Timeout = at, silence
	return answers{c, lab.Host(c.host).Many(c.call, 2, 2)}
}

// answers are the results of one caller.
type answers struct {
	caller
	results []probe.Result
}

// reach wants an answer to every call, by each of the hosts at least once and by
// no other.
func (a answers) reach(hosts ...string) answers {
	a.Helper()
	for more := patience(4); more > 1 && len(a.who()) < len(hosts); more-- {
		a.results = append(a.results, lab.Host(a.host).Many(a.call, a.n, a.parallel)...)
	}
	for _, r := range a.results {
		if r.Outcome != probe.OK {
			a.fail("want answers of %v", hosts)
			return a
		}
	}
	want := slices.Sorted(slices.Values(hosts))
	if got := slices.Sorted(maps.Keys(a.who())); !slices.Equal(got, want) {
		a.fail("%v answered, want %v", got, want)
	}
	return a
}

// who are those that answered.
func (a answers) who() map[string]bool {
	who := map[string]bool{}
	for _, r := range a.results {
		if r.Outcome == probe.OK {
			who[r.Who] = true
		}
	}
	return who
}

// seen wants the endpoints to have seen one of the addresses as source.
func (a answers) seen(sources ...netip.Addr) answers {
	a.Helper()
	for _, r := range a.results {
		if r.Outcome == probe.OK && !slices.Contains(sources, r.Source.Addr()) {
			a.fail("source is %v, want one of %v", r.Source.Addr(), sources)
			return a
		}
	}
	return a
}

// refused wants a refusal at once. What is slow is asked once more: an emulated
// machine may be held up once, a refusal by ICMP that is limited is slow again.
func (a answers) refused() {
	a.Helper()
	slow := false
	for _, r := range a.results {
		if !a.isRefusal(r) {
			a.fail("want a refusal at once")
			return
		}
		slow = slow || r.Took > atOnce
	}
	if !slow {
		return
	}
	a.results = lab.Host(a.host).Many(a.call, len(a.results), 4)
	for _, r := range a.results {
		if !a.isRefusal(r) || r.Took > atOnce {
			a.fail("want a refusal at once")
			return
		}
	}
}

func (a answers) isRefusal(r probe.Result) bool {
	return r.Outcome == probe.Refused || r.Outcome == probe.Unreachable || a.deniedByOwnNode(r)
}

// deniedByOwnNode tells whether the caller's own kernel dropped or rejected a
// datagram: EPERM, as rules of iptables always make it.
func (a answers) deniedByOwnNode(r probe.Result) bool {
	return r.Outcome == probe.Denied && a.proto == UDP && a.host == N
}

// failLines is how many results a failure shows.
const failLines = 8

func (a answers) fail(format string, args ...any) {
	a.Helper()
	var lines []string
	for _, r := range a.results {
		lines = append(lines, r.String())
	}
	lines = slices.Compact(lines)
	lines = lines[:min(failLines, len(lines))]
	args = append([]any{a.host, a.call.To}, args...)
	args = append(args, strings.Join(lines, "\n  "))
	a.Errorf("%s to %v: "+format+"\n  %s", args...)
}
