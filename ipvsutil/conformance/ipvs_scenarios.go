package conformance

import "kube-ipvs-proxy/ipvsutil"

// ipvsScenario is a list of ops on an empty namespace, their results, and what is
// there at the end.
type ipvsScenario struct {
	name  string
	steps []step
	want  string
}

// The objects that the scenarios play with.
var (
	web   = server("10.96.0.1:80/tcp")
	dns   = server("10.96.0.10:53/udp")
	dns6  = server("[fd00:10:96::10]:53/udp")
	sctp  = server("10.96.0.20:5000/sctp")
	mark4 = marked(131073, false)
	mark6 = marked(131073, true)
	pod   = real("10.244.1.2:8080", 1)
	pod6  = real("[fd00:10:244::2]:53", 1)
)

var ipvsScenarios = []ipvsScenario{
	{"all kinds", []step{
		{createServer(web), fine},
		{createServer(dns), fine},
		{createServer(dns6), fine},
		{createServer(sctp), fine},
		{createServer(mark4), fine},
		{createServer(mark6), fine},
		{createReal(web, pod), fine},
		{createReal(web, real("10.244.1.2:8081", 0)), fine},
		{createReal(dns6, pod6), fine},
		{createReal(dns6, real("[2001:db8::]:53", 65535)), fine}, // looks like IPv4 to some readers
		{createReal(mark4, real("10.244.1.2:0", 1)), fine},
		{createReal(mark4, pod), fine},
		{createReal(mark6, pod6), fine},
		{createReal(sctp, real("127.0.0.1:5000", 1)), fine},
	}, `vs 10.96.0.1:80/tcp rr
vs 10.96.0.10:53/udp rr
vs 10.96.0.20:5000/sctp rr
vs [fd00:10:96::10]:53/udp rr
vs fwm 131073 (IPv4) rr
vs fwm 131073 (IPv6) rr
rs 10.96.0.1:80/tcp 10.244.1.2:8080 w1
rs 10.96.0.1:80/tcp 10.244.1.2:8081 w0
rs 10.96.0.20:5000/sctp 127.0.0.1:5000 w1
rs [fd00:10:96::10]:53/udp [2001:db8::]:53 w65535
rs [fd00:10:96::10]:53/udp [fd00:10:244::2]:53 w1
rs fwm 131073 (IPv4) 10.244.1.2:0 w1
rs fwm 131073 (IPv4) 10.244.1.2:8080 w1
rs fwm 131073 (IPv6) [fd00:10:244::2]:53 w1
`},
	{"create twice", []step{
		{createServer(web), fine},
		{createServer(with(web, func(v *ipvsutil.VirtualServer) { v.Scheduler = "wlc" })), exists},
		{createServer(mark6), fine},
		{createServer(mark6), exists},
		{createReal(web, pod), fine},
		{createReal(web, real("10.244.1.2:8080", 5)), exists},
	}, `vs 10.96.0.1:80/tcp rr
vs fwm 131073 (IPv6) rr
rs 10.96.0.1:80/tcp 10.244.1.2:8080 w1
`},
	{"change what is missing", []step{
		{updateServer(web), noServer},
		{deleteServer(web), noServer},
		{updateServer(mark4), noServer},
		{createReal(web, pod), noServer},
		{updateReal(web, pod), noServer},
		{deleteReal(web, pod), noServer},
		{createServer(web), fine},
		{updateReal(web, pod), noReal},
		{deleteReal(web, pod), noReal},
		{updateServer(with(web, func(v *ipvsutil.VirtualServer) { v.Key.Protocol = ipvsutil.UDP })), noServer},
	}, "vs 10.96.0.1:80/tcp rr\n"},
	{"update in place", []step{
		{createServer(web), fine},
		{createReal(web, pod), fine},
		{updateServer(with(web, func(v *ipvsutil.VirtualServer) { v.Scheduler, v.Persistence = "wlc", 10800 })), fine},
		{updateReal(web, real("10.244.1.2:8080", 0)), fine},
		{createServer(dns6), fine},
		{updateServer(with(dns6, func(v *ipvsutil.VirtualServer) {
			v.Scheduler, v.Flags = "sh", ipvsutil.FlagSched1|ipvsutil.FlagSched2
		})), fine},
		{createServer(with(dns, func(v *ipvsutil.VirtualServer) { v.Flags, v.Persistence = ipvsutil.FlagOnePacket, 60 })), fine},
		{updateServer(dns), fine},
		{createServer(with(mark6, func(v *ipvsutil.VirtualServer) { v.Persistence = ipvsutil.MaxPersistence })), fine},
	}, `vs 10.96.0.1:80/tcp wlc persistent 10800
vs 10.96.0.10:53/udp rr
vs [fd00:10:96::10]:53/udp sh flags 0x18
vs fwm 131073 (IPv6) rr persistent 2678400
rs 10.96.0.1:80/tcp 10.244.1.2:8080 w0
`},
	{"delete", []step{
		{createServer(web), fine},
		{createReal(web, pod), fine},
		{createReal(web, real("10.244.1.3:8080", 1)), fine},
		{deleteReal(web, pod), fine},
		{createServer(dns6), fine},
		{createReal(dns6, pod6), fine},
		{deleteServer(dns6), fine},
		{createServer(dns6), fine}, // its real servers went with it
		{createServer(mark4), fine},
		{createServer(mark6), fine},
		{deleteServer(mark4), fine},
		{createServer(sctp), fine},
		{createReal(sctp, pod), fine},
		{deleteReal(sctp, pod), fine},
		{createReal(sctp, pod), fine}, // comes back
	}, `vs 10.96.0.1:80/tcp rr
vs 10.96.0.20:5000/sctp rr
vs [fd00:10:96::10]:53/udp rr
vs fwm 131073 (IPv6) rr
rs 10.96.0.1:80/tcp 10.244.1.3:8080 w1
rs 10.96.0.20:5000/sctp 10.244.1.2:8080 w1
`},
	{"schedulers", []step{
		{createServer(with(web, func(v *ipvsutil.VirtualServer) { v.Scheduler = "nosuch" })), noSuchOne},
		{createServer(with(web, func(v *ipvsutil.VirtualServer) { v.Scheduler = "" })), unnamable},
		{createServer(with(web, func(v *ipvsutil.VirtualServer) { v.Scheduler = "sixteen-letters-" })), unnamable},
		{createServer(web), fine},
		{createServer(with(web, func(v *ipvsutil.VirtualServer) { v.Scheduler = "nosuch" })), exists},
		{updateServer(with(web, func(v *ipvsutil.VirtualServer) { v.Scheduler = "nosuch" })), noSuchOne},
		{updateServer(with(dns, func(v *ipvsutil.VirtualServer) { v.Scheduler = "nosuch" })), noServer},
	}, "vs 10.96.0.1:80/tcp rr\n"},
	{"accepted by no one", []step{
		{createServer(with(web, func(v *ipvsutil.VirtualServer) { v.Key.Protocol = 1 })), invalid},
		{createServer(server("10.96.0.1:0/tcp")), invalid},
		{createServer(with(mark4, func(v *ipvsutil.VirtualServer) { v.Key.Protocol = ipvsutil.TCP })), invalid},
		{createServer(with(web, func(v *ipvsutil.VirtualServer) { v.Flags = 2 })), invalid},
		{createServer(with(web, func(v *ipvsutil.VirtualServer) { v.Persistence = ipvsutil.MaxPersistence + 1 })), invalid},
		{createServer(server("[::ffff:10.96.0.1]:80/tcp")), invalid},
		{createServer(web), fine},
		{createServer(dns6), fine},
		{createReal(web, real("10.244.1.2:8080", 65536)), invalid},
		{createReal(web, real("10.244.1.2:0", 1)), invalid},
		{createReal(web, pod6), invalid},
		{createReal(dns6, pod), invalid},
		{createReal(dns6, real("[::ffff:10.244.1.2]:53", 1)), invalid},
		{ipvsutil.Op{Server: web}, invalid},
		{createReal(web, pod), fine},
	}, `vs 10.96.0.1:80/tcp rr
vs [fd00:10:96::10]:53/udp rr
rs 10.96.0.1:80/tcp 10.244.1.2:8080 w1
`},
	{"addresses that are no one's", []step{
		{createServer(web), fine},
		{createServer(dns6), fine},
		{createReal(web, real("0.0.0.0:80", 1)), invalid},
		{createReal(web, real("224.0.0.5:80", 1)), invalid},
		{createReal(web, real("255.255.255.255:80", 1)), invalid},
		{createReal(dns6, real("[::]:53", 1)), invalid},
		{createReal(dns6, real("[ff02::5]:53", 1)), invalid},
		{createReal(dns6, real("[fe80::5]:53", 1)), invalid},
		{createReal(web, real("198.51.100.7:80", 1)), fine}, // no route to it
		{createReal(dns6, real("[::1]:53", 1)), fine},
	}, `vs 10.96.0.1:80/tcp rr
vs [fd00:10:96::10]:53/udp rr
rs 10.96.0.1:80/tcp 198.51.100.7:80 w1
rs [fd00:10:96::10]:53/udp [::1]:53 w1
`},
}
