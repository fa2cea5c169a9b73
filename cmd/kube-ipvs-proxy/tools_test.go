package main

import (
	"bytes"
	"errors"
	"maps"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/explain"
	"kube-ipvs-proxy/proxier/netfilter"
)

// TestHelpOfTheTools has an example and fits 80 columns.
func TestHelpOfTheTools(t *testing.T) {
	for _, name := range []string{"list", "explain", "verify", "plan", "cleanup", "doctor", "status"} {
		root := command()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs([]string{name, "--help"})
		if err := root.Execute(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(out.String(), "\nExamples:\n  kube-ipvs-proxy "+name) {
			t.Errorf("%s has no example:\n%s", name, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if len(line) > 81 {
				t.Errorf("%s: %d columns: %s", name, len(line)-1, line)
			}
		}
	}
}

// TestCleanupKeepsWhatFits: of a set that has outgrown kube-proxy's, as many entries
// as it can have.
func TestCleanupKeepsWhatFits(t *testing.T) {
	set := ipsetutil.IPVSIPs.For(false)
	set.MaxElem = 2
	r := resized{set: set, members: map[ipsetutil.Entry]uint32{}}
	for _, a := range []string{"10.96.0.3", "10.96.0.1", "10.96.0.2"} {
		r.members[ipsetutil.Entry{Addr: netip.MustParseAddr(a)}] = 0
	}
	want := map[ipsetutil.Entry]uint32{{Addr: netip.MustParseAddr("10.96.0.1")}: 0, {Addr: netip.MustParseAddr("10.96.0.2")}: 0}
	if got := r.fitting(); !maps.Equal(got, want) {
		t.Errorf("%v fit, want %v", got, want)
	}
	notes := (&cleaner{resized: []resized{r}}).resizeSets().notes
	if len(notes) != 1 || !strings.Contains(notes[0], "set KUBE-IPVS-IPS loses 1 of its entries") {
		t.Errorf("said %q", notes)
	}
}

func TestToolsRefuse(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"list -o yaml", `-o "yaml": must be one of`},
		{"list -o ipvsadm --rate", "--rate"},
		{"verify -o wide", `-o "wide"`},
		{"explain web", `"web": must be NAMESPACE/NAME`},
		{"explain shop/web --to here", `--to "here": must be an IP address`},
		{"verify --served-by=cilium", `--served-by "cilium": must be kube-proxy-ipvs`},
		{"cleanup --for=cilium", `--for "cilium": must be kube-proxy-ipvs`},
		{"doctor --manifests /does/not/exist", "/does/not/exist"},
	} {
		root := command()
		root.SetArgs(strings.Fields(test.args))
		err := root.Execute()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.args, err, test.want)
		}
	}
}

// TestWithoutIPVS: the part that a kernel without ip_vs cannot have is named, and the rest
// is judged.
func TestWithoutIPVS(t *testing.T) {
	raw := config.Defaults()
	raw.Manifests, raw.HostnameOverride, raw.ClusterCIDR = folder(t, toldManifest), "node-1", "10.244.0.0/16"
	options, err := raw.Validate()
	if err != nil {
		t.Fatal(err)
	}
	s, err := openScene(t.Context(), view{raw: raw, options: options})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.eyes = func() (*eyes, error) { return openEyesOn("none such") }

	var verified, explained, found bytes.Buffer
	v, err := s.verify(t.Context())
	if err != nil || v.err() == nil {
		t.Errorf("verify: %v, %v", v.err(), err)
	}
	q, err := parseQuestion("shop/web:http", "10.96.0.10")
	if err := errors.Join(err, s.ask(&q)); err != nil {
		t.Fatal(err)
	}
	observed, _ := s.observe(t.Context())
	err = errors.Join(v.print(&verified, "text"), printPaths(&explained, "text", q, explain.Explain(q, s.explainNode(observed))),
		printFindings(&found, "text", explain.Diagnose(s.facts(t.Context(), false))))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		out  *bytes.Buffer
		says string
	}{
		{&verified, "virtual servers: could not be read kernel has no IPVS: module ip_vs is missing (try: modprobe ip_vs)"},
		{&verified, "1 Services: "},
		{&explained, "kernel virtual servers could not be read: kernel has no IPVS"},
		{&explained, "endpoint 10.244.1.10:8080 pod web-1 on node-1: takes connections"},
		{&found, "warning virtual servers could not be read: kernel has no IPVS"},
		{&found, "next: load what is missing"},
	} {
		if text := strings.Join(strings.Fields(test.out.String()), " "); !strings.Contains(text, test.says) {
			t.Errorf("it does not say %q: %s", test.says, test.out)
		}
	}
}

func service(at string, protocol ipvsutil.Protocol, change func(*ipvs.Service)) *ipvs.Service {
	a := netip.MustParseAddrPort(at)
	s := &ipvs.Service{Address: net.IP(a.Addr().AsSlice()), Port: a.Port(), Protocol: uint16(protocol), SchedName: "rr", AddressFamily: unix.AF_INET, Netmask: wholeIPv4, Flags: bitHashed}
	if a.Addr().Is6() {
		s.AddressFamily, s.Netmask = unix.AF_INET6, wholeIPv6
	}
	if change != nil {
		change(s)
	}
	return s
}

func destination(at string, weight int, forward uint32) *ipvs.Destination {
	a := netip.MustParseAddrPort(at)
	return &ipvs.Destination{Address: net.IP(a.Addr().AsSlice()), Port: a.Port(), Weight: weight, ConnectionFlags: forward}
}

// ipvsadmOutput is what ipvsadm 1.31 printed for the servers of TestIPVSAdmFormat.
const ipvsadmOutput = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn
FWM  -6 rr
TCP  10.96.0.1:443 mh (mh-port)
  -> 200.2.2.4:53                 Masq    0      0          0         
  -> 10.2.2.4:53                  Masq    3      0          0         
TCP  10.96.0.2:443 sh (sh-fallback,sh-port)
TCP  10.96.0.3:443 wlc (flag-1,flag-3) persistent 300 mask 255.255.255.0
TCP  100.64.0.2:30080 rr
TCP  172.30.0.2:30080 rr
UDP  203.0.113.7:53 rr ops
UDP  203.0.113.8:53 rr persistent 360 ops
  -> 10.2.2.2:53                  Tunnel  1      0          0         
  -> 10.2.2.3:53                  Route   65535  0          0         
SCTP 10.96.0.9:99 rr
TCP  [fd96::10]:80 rr persistent 10 mask 64
  -> [fd44::1:1234:1234:1234:10]:8080 Masq    1      0          0         
FWM  7 rr
FWM  7 IPv6 rr
`

func TestIPVSAdmFormat(t *testing.T) {
	flags := func(scheduler string, bits uint32) func(*ipvs.Service) {
		return func(s *ipvs.Service) { s.SchedName, s.Flags = scheduler, s.Flags|bits }
	}
	persistent := func(bits, timeout, netmask uint32) func(*ipvs.Service) {
		return func(s *ipvs.Service) {
			s.Flags, s.Timeout, s.Netmask = s.Flags|bits|bitPersistent, timeout, netmask
		}
	}
	mark := func(n uint32, family uint16) *ipvs.Service {
		return &ipvs.Service{FWMark: n, AddressFamily: family, SchedName: "rr", Netmask: wholeIPv4}
	}
	list := []seen{
		{service: service("203.0.113.7:53", ipvsutil.UDP, flags("rr", 0x4))},
		{service("203.0.113.8:53", ipvsutil.UDP, persistent(0x4, 360, wholeIPv4)), []*ipvs.Destination{
			destination("10.2.2.3:53", 65535, ipvs.ConnFwdDirectRoute), destination("10.2.2.2:53", 1, ipvs.ConnFwdTunnel)}},
		{service: service("172.30.0.2:30080", ipvsutil.TCP, nil)},
		{service: service("100.64.0.2:30080", ipvsutil.TCP, nil)},
		{service: mark(7, unix.AF_INET6)}, {service: mark(4294967290, unix.AF_INET)}, {service: mark(7, unix.AF_INET)},
		{service("[fd96::10]:80", ipvsutil.TCP, persistent(0, 10, 64)), []*ipvs.Destination{destination("[fd44:0:0:1:1234:1234:1234:10]:8080", 1, 0)}},
		{service: service("10.96.0.9:99", ipvsutil.SCTP, nil)},
		{service: service("10.96.0.3:443", ipvsutil.TCP, func(s *ipvs.Service) {
			persistent(0x28, 300, 0x00ffffff)(s)
			s.SchedName = "wlc"
		})},
		{service: service("10.96.0.2:443", ipvsutil.TCP, flags("sh", 0x18))},
		{service("10.96.0.1:443", ipvsutil.TCP, flags("mh", 0x10)), []*ipvs.Destination{
			destination("10.2.2.4:53", 3, 0), destination("200.2.2.4:53", 0, 0)}},
	}
	var b strings.Builder
	printIPVSAdm(&b, "IP Virtual Server version 1.2.1 (size=4096)", list)
	if diff := cmp.Diff(ipvsadmOutput, b.String()); diff != "" {
		t.Errorf("want -, have +\n%s", diff)
	}
}

func TestServerInOurWords(t *testing.T) {
	s := seen{service("10.96.0.3:443", ipvsutil.TCP, func(s *ipvs.Service) { s.Flags, s.Timeout = s.Flags|bitPersistent|0x8, 300 }), []*ipvs.Destination{
		destination("10.2.2.4:53", 3, 0), destination("10.2.2.5:53", 1, ipvs.ConnFwdTunnel), destination("10.2.2.6:53", 0, 0)}}
	s.reals[2].UpperThreshold = 1796025600 // when it began to drain
	got := s.server()
	want := ipvsutil.VirtualServer{
		Key: ipvsutil.Key{Addr: netip.MustParseAddrPort("10.96.0.3:443"), Protocol: ipvsutil.TCP}, Scheduler: "rr", Flags: 0x8, Persistence: 300,
	}
	if got.VirtualServer != want {
		t.Errorf("got %+v, want %+v", got.VirtualServer, want)
	}
	if drained := got.RealServers[2].RealServer; drained.Foreign || drained.Drained != 1796025600 {
		t.Errorf("got %+v", drained)
	}
	if got.RealServers[0].Foreign || !got.RealServers[1].Foreign || got.RealServers[0].Weight != 3 {
		t.Errorf("got %+v", got.RealServers)
	}
	s.service.Netmask = 0xffffff
	if !s.server().Foreign {
		t.Error("a netmask of persistence is not told")
	}
}

func TestListPicks(t *testing.T) {
	at := netip.MustParseAddrPort("10.96.0.10:80")
	r := row{Service: "shop/web", key: ipvsutil.Key{Addr: at}, RealServers: []realRow{{addr: netip.MustParseAddrPort("10.244.1.10:8080")}}}
	for _, test := range []struct {
		listing listing
		want    bool
	}{
		{listing{}, true}, {listing{namespace: "shop"}, true}, {listing{namespace: "sho"}, false},
		{listing{service: "web"}, true}, {listing{service: "shop/web"}, true}, {listing{service: "test/web"}, false},
		{listing{address: "10.96.0.10"}, true}, {listing{address: "10.96.0.10:80"}, true}, {listing{address: "10.96.0.10:81"}, false},
		{listing{address: "10.244.1.10"}, true}, {listing{address: "10.244.1.1"}, false},
	} {
		if got := test.listing.picks(r); got != test.want {
			t.Errorf("%+v: %v", test.listing, got)
		}
	}
}

// TestCleanupOrder: addresses go before servers, servers before rules, rules before
// sets, and the sets of our own names last.
func TestCleanupOrder(t *testing.T) {
	a := netip.MustParseAddr("10.96.0.10")
	c := &cleaner{
		bound: []netip.Addr{a, netip.MustParseAddr("10.96.0.11")}, captured: []netip.Addr{netip.MustParseAddr("203.0.113.7")},
		device:   device{there: true, kind: "dummy", addrs: []netip.Addr{a}},
		servers:  []ipvsutil.VirtualServer{{Key: ipvsutil.MarkKey(3, false)}, {Key: ipvsutil.Key{Addr: netip.AddrPortFrom(a, 80), Protocol: ipvsutil.TCP}}},
		setNames: []string{"KIPVS-CAPTURE", "KUBE-CLUSTER-IP"}, policyRules: []string{"IPv4 fwmark"},
		withdrawal: netfilter.Withdrawal{Removed: []string{"IPv4 nat KUBE-SERVICES"}}, rules: &netfilter.Rules{},
	}
	show := func(steps []step) (text string) {
		for _, s := range steps {
			for _, o := range s.objects {
				text += s.verb + " " + o + "\n"
			}
		}
		return text
	}
	want := "release 203.0.113.7\ndelete kube-ipvs0 with 10.96.0.10\nunbind 10.96.0.11\n" +
		"delete virtual server fwm 3 (IPv4)\ndelete virtual server 10.96.0.10:80/tcp\n" +
		"delete conntrack flows to 10.96.0.10:80/tcp\nremove chain IPv4 nat KUBE-SERVICES\n" +
		"delete IPv4 fwmark\ndestroy set KUBE-CLUSTER-IP\ndestroy set KIPVS-CAPTURE\n"
	if diff := cmp.Diff(want, show(c.steps())); diff != "" {
		t.Error(diff)
	}
	want = "bind to kube-ipvs0 10.96.0.11\nbind to kube-ipvs0 203.0.113.7\nremove chain IPv4 nat KUBE-SERVICES\ndelete virtual server fwm 3 (IPv4)\n" +
		"release 203.0.113.7\ndelete IPv4 fwmark\ndestroy set KIPVS-CAPTURE\n"
	small := ipsetutil.ClusterIP.For(false)
	c.resized = []resized{{set: small}, {set: ipsetutil.Refuse.For(false)}}
	want = strings.Replace(want, "destroy", "make anew with kube-proxy's size set KUBE-CLUSTER-IP\ndestroy", 1)
	if diff := cmp.Diff(want, show(c.handoverSteps())); diff != "" {
		t.Error(diff)
	}
	c.elsewhere = c.captured
	if text := show(c.handoverSteps()); strings.Contains(text, "kube-ipvs0 203.0.113.7") {
		t.Errorf("an address of another device is bound:\n%s", text)
	}
	c.device.foreign = []string{"192.0.2.1/24"}
	if text := show(c.steps()); strings.Contains(text, "kube-ipvs0") || !strings.Contains(text, "unbind 10.96.0.10\n") {
		t.Errorf("a device with addresses of others:\n%s", text)
	}
}

// TestCleanupKnowsKubeProxy: what carries kube-proxy's names alone is kube-proxy's.
func TestCleanupKnowsKubeProxy(t *testing.T) {
	c := &cleaner{setNames: []string{"KUBE-CLUSTER-IP"}, device: device{there: true, kind: "dummy"}}
	if c.present() {
		t.Error("taken for ours")
	}
	c.leaveKubeProxy()
	for _, s := range c.steps() {
		if len(s.objects) > 0 {
			t.Errorf("would %s %v", s.verb, s.objects)
		}
	}
	if len(c.notes) != 1 {
		t.Errorf("notes %q", c.notes)
	}
	if c.setNames = []string{"KIPVS-6-REFUSE"}; !c.present() {
		t.Error("our last set is not taken for ours")
	}
}

func TestReserves(t *testing.T) {
	tcp, health := ipsetutil.NodePortTCP.Name(false), ipsetutil.HealthCheckNodePort.Name(true)
	desired := map[ipsetutil.Member]uint32{}
	for set, ports := range map[string][]uint16{
		tcp: {30001, 32001, 32003}, health: {32002}, ipsetutil.ClusterIP.Name(false): {32004},
	} {
		for _, port := range ports {
			desired[ipsetutil.Member{Set: set, Entry: ipsetutil.Entry{Port: port}}] = 0
		}
	}
	local := explain.Range{From: 32000, To: 60999}
	reserved := map[uint16]bool{32001: true, 32002: true, 32003: true}
	if !reserves(reserved, maps.All(desired), local) {
		t.Error("all are reserved")
	}
	for port := range reserved {
		lacking := maps.Clone(reserved)
		delete(lacking, port)
		if reserves(lacking, maps.All(desired), local) {
			t.Errorf("%d is not reserved", port)
		}
	}
}
