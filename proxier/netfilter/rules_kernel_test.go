//go:build kernel

package netfilter

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEnsureTwiceWritesOnce(t *testing.T) {
	eachBackend(t, func(t *testing.T, h *host) {
		r := h.rules()
		h.wantWrong(r)
		h.ensure(r, true)
		h.wantRight(r)
		before := h.save()
		h.ensure(r, false)
		h.ensure(h.rules(), false) // a restarted process
		if diff := cmp.Diff(before, h.save()); diff != "" {
			t.Errorf("rules changed:\n%s", diff)
		}
		for _, ipv6 := range []bool{false, true} {
			tables := Render(h.flags, ipv6).Tables
			wantJumps(t, h, ipv6, tables[1], "OUTPUT")
			wantJumps(t, h, ipv6, tables[2], "INPUT")
		}
	})
}

// wantJumps compares the targets of a built-in chain with the jumps wanted.
func wantJumps(t *testing.T, h *host, ipv6 bool, table Table, from string) {
	t.Helper()
	var want, got []string
	for _, j := range table.jumpsFrom(from) {
		want = append(want, j.To)
	}
	for _, rule := range h.list(ipv6, table.Name, from) {
		got = append(got, target(rule))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s %s %s: %q, want %q", familyName(ipv6), table.Name, from, got, want)
	}
}

func TestDamageIsSeenAndMended(t *testing.T) {
	damages := map[string]func(h *host, ipv6 bool){
		"table flushed": func(h *host, ipv6 bool) { h.run(ipv6, "-t", "nat", "-F") },
		"chain flushed": func(h *host, ipv6 bool) { h.run(ipv6, "-t", "mangle", "-F", chainOutput) },
		"chain deleted": func(h *host, ipv6 bool) {
			h.run(ipv6, "-F", chainFirewall)
			h.restore(ipv6, "*filter\n-D INPUT 1\n-D FORWARD 1\n-X "+chainFirewall+"\nCOMMIT\n")
		},
		"everything gone": func(h *host, ipv6 bool) {
			for _, table := range []string{"mangle", "nat", "filter"} {
				h.run(ipv6, "-t", table, "-F")
				h.run(ipv6, "-t", table, "-X")
			}
		},
		"rule added": func(h *host, ipv6 bool) { h.run(ipv6, "-I", chainFrontends, "-j", "ACCEPT") },
		"rule replaced": func(h *host, ipv6 bool) {
			h.run(ipv6, "-t", "nat", "-R", chainMarkMasq, "1", "-j", "MARK", "--set-mark", "1")
		},
		"jump deleted": func(h *host, ipv6 bool) { h.run(ipv6, "-t", "mangle", "-D", "INPUT", "1") },
		"jump twice":   func(h *host, ipv6 bool) { h.run(ipv6, "-t", "nat", "-A", "OUTPUT", "-j", chainServices) },
		"jump with a condition": func(h *host, ipv6 bool) {
			h.run(ipv6, "-t", "nat", "-R", "POSTROUTING", "1", "-p", "tcp", "-j", chainKubePostrt)
		},
		"jumps out of order": func(h *host, ipv6 bool) {
			h.restore(ipv6, "*filter\n-D INPUT 2\n-A INPUT -j "+chainFrontends+"\nCOMMIT\n")
		},
		"foreign jump ahead": func(h *host, ipv6 bool) {
			h.restore(ipv6, "*nat\n:CNI-HOSTPORT - [0:0]\n-I PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT\nCOMMIT\n")
		},
		"stamp gone": func(h *host, ipv6 bool) { h.run(ipv6, "-F", stampChain) },
	}
	eachBackend(t, func(t *testing.T, h *host) {
		r := h.ensured()
		before := h.save()
		for name, damage := range damages {
			damage(h, false)
			damage(h, true)
			for _, f := range r.families {
				if changed, err := f.ensure(context.Background()); err != nil || !changed {
					t.Fatalf("%s %s: changed %v, %v; want it mended", name, familyName(f.want.IPv6), changed, err)
				}
			}
			if name == "foreign jump ahead" {
				for _, ipv6 := range []bool{false, true} {
					h.run(ipv6, "-t", "nat", "-D", "PREROUTING", "2")
					h.run(ipv6, "-t", "nat", "-X", "CNI-HOSTPORT")
				}
			}
		}
		if diff := cmp.Diff(sorted(before), sorted(h.save())); diff != "" {
			t.Fatalf("after mending:\n%s", diff)
		}
	})
}

// sorted sorts the chain lines of a listing, whose order is that of making.
func sorted(save string) []string {
	var declared, rest []string
	for line := range strings.Lines(save) {
		if strings.HasPrefix(line, ":") {
			declared = append(declared, line)
		} else if strings.HasPrefix(line, "-A") {
			rest = append(rest, line)
		}
	}
	slices.Sort(declared)
	slices.SortStableFunc(rest, func(a, b string) int {
		return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1])
	})
	return append(declared, rest...)
}

// foreignRules are of a network plugin, an administrator and the kubelet.
const foreignRules = `*mangle
:cali-PREROUTING - [0:0]
-A PREROUTING -j cali-PREROUTING
-A cali-PREROUTING -j MARK --set-xmark 0x1000000/0x1000000
COMMIT
*nat
:CNI-HOSTPORT - [0:0]
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT
-A POSTROUTING -m comment --comment "say \"-j KUBE-SERVICES\"" -j MASQUERADE
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:host - [0:0]
-P INPUT DROP
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -j KUBE-FIREWALL
-A INPUT -p tcp -m tcp --dport 22 -g host
-A KUBE-FIREWALL -j RETURN
-A host -j ACCEPT
COMMIT
`

func TestForeignRulesSurvive(t *testing.T) {
	eachBackend(t, func(t *testing.T, h *host) {
		for _, ipv6 := range []bool{false, true} {
			h.restore(ipv6, foreignRules)
		}
		before := h.save()
		r := h.ensured()
		h.wantRight(r)
		after := h.save()
		for line := range strings.Lines(before) {
			if !strings.Contains(after, line) {
				t.Errorf("Ensure lost %s", line)
			}
		}
		h.run(false, "-F", chainGuard)
		h.ensure(r, true)
		h.remove(r, nil)
		if diff := cmp.Diff(before, h.save()); diff != "" {
			t.Errorf("Remove left another state:\n%s", diff)
		}
		h.remove(r, nil) // twice is once
		if diff := cmp.Diff(before, h.save()); diff != "" {
			t.Errorf("the second Remove left another state:\n%s", diff)
		}
	})
}

func (h *host) remove(r *Rules, wantKept []string) {
	h.t.Helper()
	kept, err := r.Remove(context.Background())
	if err != nil {
		h.t.Fatalf("Remove: %v", err)
	}
	if !slices.Equal(kept, wantKept) {
		h.t.Fatalf("Remove kept %q, want %q", kept, wantKept)
	}
}

func TestRemoveKeepsChainsThatOthersUse(t *testing.T) {
	eachBackend(t, func(t *testing.T, h *host) {
		r := h.ensured()
		h.restore(false, "*nat\n:CNI-SETMARK - [0:0]\n-A CNI-SETMARK -j KUBE-MARK-MASQ\nCOMMIT\n")
		h.ensure(r, false)
		kept := []string{"IPv4 nat KUBE-MARK-MASQ"}
		h.remove(r, kept)
		h.remove(r, kept)
		for line := range strings.Lines(h.save()) {
			if strings.HasPrefix(line, "-A") && !strings.Contains(line, "CNI-SETMARK") || strings.HasPrefix(line, ":KIPVS") {
				t.Errorf("left over: %s", line)
			}
		}
	})
}

// iptablesModeRules is what kube-proxy's iptables mode leaves of a Service without
// endpoints and of one with.
const iptablesModeRules = `*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-SVC-ABC - [0:0]
:KUBE-SEP-ABC - [0:0]
:KUBE-MARK-DROP - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -p tcp -m tcp --dport 80 -j KUBE-SVC-ABC
-A KUBE-SVC-ABC -j KUBE-SEP-ABC
-A KUBE-SEP-ABC -j MARK --set-xmark 0x4000/0x4000
COMMIT
*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-IPVS-OUT-FILTER - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-OUT-FILTER
-A KUBE-SERVICES -p tcp -m tcp --dport 81 -j REJECT
COMMIT
`

func TestStatement105LeftoversOfKubeProxyGo(t *testing.T) {
	eachBackend(t, func(t *testing.T, h *host) {
		want := h.ensuredFresh()
		for _, ipv6 := range []bool{false, true} {
			h.restore(ipv6, iptablesModeRules)
		}
		r := h.rules()
		h.ensure(r, true)
		h.wantRight(r)
		got := slices.DeleteFunc(sorted(h.save()), func(line string) bool {
			return strings.HasPrefix(line, ":KUBE-MARK-DROP ")
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("unlike a fresh host:\n%s", diff)
		}
	})
}

// ensuredFresh returns the sorted rules of a host that had none, and takes them out.
func (h *host) ensuredFresh() []string {
	h.t.Helper()
	r := h.ensured()
	rules := sorted(h.save())
	h.remove(r, nil)
	return rules
}

func TestMissingSetIsNamed(t *testing.T) {
	eachBackend(t, func(t *testing.T, h *host) {
		command(t, "", "ipset", "destroy", "KIPVS-REFUSE")
		changed, err := h.rules().Ensure(context.Background())
		if !errors.Is(err, ErrNoSet) || !strings.Contains(err.Error(), "KIPVS-REFUSE") {
			t.Errorf("%v, want ErrNoSet with the set's name", err)
		}
		if !changed {
			t.Error("IPv6 was not written, although only an IPv4 set is missing")
		}
	})
}

func TestLockOfAnotherProgramIsBusy(t *testing.T) {
	newNamespace(t)
	h := newHost(t, BackendLegacy)
	r := h.rules()
	holdLock(t)
	start := time.Now()
	_, err := r.Ensure(context.Background())
	if !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if took := time.Since(start); took > 3*lockWait*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestOtherFlagsAreWritten(t *testing.T) {
	eachBackend(t, func(t *testing.T, h *host) {
		r := h.ensured()
		flags := h.flags
		flags.MasqueradeAll, flags.AcceptInput, flags.TCPBeLiberal = true, false, true
		flags.MasqueradePorts = PortRange{1024, 29999}
		flags.Detector = Detector{Mode: DetectInterfacePrefix, Interface: "veth"}
		if err := r.SetFlags(flags); err != nil {
			t.Fatal(err)
		}
		h.wantWrong(r)
		h.ensure(r, true)
		h.wantRight(r)
		h.ensure(r, false)
	})
}

func TestIPv6OffIsNoted(t *testing.T) {
	newNamespace(t)
	command(t, "", "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
	r, err := New(context.Background(), podNetwork())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Notes()) != 1 || !strings.Contains(r.Notes()[0], "IPv6 is off") {
		t.Errorf("notes %q, want one about IPv6", r.Notes())
	}
	if len(r.families) != 1 {
		t.Errorf("%d families, want 1", len(r.families))
	}
	only := podNetwork()
	only.IPv4 = false
	if _, err := New(context.Background(), only); err == nil {
		t.Error("IPv6 alone: want an error")
	}
}

// TestGoldenRulesAreTaken gives the text of every golden file to iptables-restore,
// first as a test and then for good.
func TestGoldenRulesAreTaken(t *testing.T) {
	eachBackend(t, func(t *testing.T, h *host) {
		r := h.rules()
		for name, flags := range flagSets() {
			flags.Backend, flags.IPVSMatch = h.backend, h.flags.IPVSMatch
			for _, ipv6 := range []bool{false, true} {
				text := Render(flags, ipv6).String()
				command(t, text, program(h.backend, ipv6, "-restore"), "-w", "5", "--noflush", "--test")
			}
			if err := r.SetFlags(flags); err != nil {
				t.Fatal(err)
			}
			h.ensure(r, true)
			t.Logf("%s: taken", name)
		}
	})
}
