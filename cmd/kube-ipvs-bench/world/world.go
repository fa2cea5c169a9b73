// Package world makes the Services of the benchmark and their changes: as values that
// can be compared with a kernel, and as objects of the Kubernetes API.
package world

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Addresses of the benchmark's cluster. The pods' range has three parts: endpoints at
// the beginning, endpoints that come later, and the client.
var (
	Pods     = netip.MustParsePrefix("10.128.0.0/9")
	Services = netip.MustParsePrefix("10.96.0.0/12")
	NodeIP   = netip.MustParseAddr("172.30.0.2")
	ClientIP = netip.MustParseAddr("10.224.0.2")
	// Early and Late are the parts of Pods in which endpoints are.
	Early = netip.MustParsePrefix("10.128.0.0/10")
	Late  = netip.MustParsePrefix("10.192.0.0/11")
)

const (
	// NodeName is the node that the proxies serve where there is no cluster.
	NodeName = "node-1"
	// PodPort and APIPort are the ports that endpoints listen on.
	PodPort, APIPort = 8080, 6443
	// maxServices is what the range of Services holds with room for changes.
	maxServices, maxEndpoints = 500_000, 4_000_000
)

// Size is how much there is to serve.
type Size struct {
	Services  int `json:"services"`
	Endpoints int `json:"endpoints"` // of each Service
}

// ParseSize reads a size like "5000x4".
func ParseSize(text string) (Size, error) {
	services, endpoints, _ := strings.Cut(text, "x")
	var s Size
	var err, err2 error
	s.Services, err = strconv.Atoi(services)
	s.Endpoints, err2 = strconv.Atoi(endpoints)
	if err != nil || err2 != nil || s.Services < 3 || s.Endpoints < 1 || s.Services > maxServices || s.Services*s.Endpoints > maxEndpoints {
		return Size{}, fmt.Errorf("size %q: want Services x endpoints of each, like 1000x4, at least 3x1", text)
	}
	return s, nil
}

// String returns a size like "5000x4".
func (s Size) String() string { return fmt.Sprintf("%dx%d", s.Services, s.Endpoints) }

// Service is one Service with one port.
type Service struct {
	Namespace, Name string
	PortName        string
	IP              netip.Addr
	Port            uint16
	Target          uint16 // port of the endpoints
	Endpoints       []netip.Addr
	// Local is the number of endpoints on Node: the first ones.
	Local int
	Node  string
}

// Frontend is where clients reach the Service.
func (s Service) Frontend() netip.AddrPort { return netip.AddrPortFrom(s.IP, s.Port) }

// Backends are where the Service's endpoints listen.
func (s Service) Backends() []netip.AddrPort {
	out := make([]netip.AddrPort, 0, len(s.Endpoints))
	for _, e := range s.Endpoints {
		out = append(out, netip.AddrPortFrom(e, s.Target))
	}
	return out
}

// World is all Services. It is used by one goroutine at a time.
type World struct {
	// Services are those of the size: first one like default/kubernetes. Probe stands for
	// itself: it has one endpoint, on another node, so that the answer to one request
	// tells whether a change of it has arrived.
	Services []Service
	Probe    int
	// Others is the number of frontends that are there besides, on addresses of their
	// own: those of the cluster that the Services are in.
	Others int

	namespace, node string

	size       Size
	next, late int
}

// New makes a world of a size and one Service more, the probe, in a namespace and for
// the proxy of a node.
func New(size Size, namespace, node string) *World {
	w := &World{size: size, namespace: namespace, node: node, late: 1}
	early := Early.Addr().As4()
	at := 256
	for i := range size.Services {
		s := w.name(fmt.Sprintf("service-%05d", i))
		if i == 0 {
			s.Name, s.PortName, s.Port, s.Target = "kubernetes", "https", 443, APIPort
		}
		for range size.Endpoints {
			s.Endpoints = append(s.Endpoints, plus(early, at))
			at++
		}
		s.Local = (size.Endpoints + 3) / 4
		w.Services = append(w.Services, s)
	}
	probe := w.name("probe")
	probe.Endpoints = []netip.Addr{plus(early, at)}
	w.Probe = len(w.Services)
	w.Services = append(w.Services, probe)
	return w
}

// Node is the name of the node.
func (w *World) Node() string { return w.node }

// Namespace is that of all Services.
func (w *World) Namespace() string { return w.namespace }

// Size is the size that the world was made with.
func (w *World) Size() Size { return w.size }

// name makes a Service without endpoints, at an address of its own.
func (w *World) name(name string) Service {
	w.next++
	return Service{Namespace: w.namespace, Node: w.node, Name: name, PortName: "http", Port: 80, Target: PodPort,
		IP: plus(Services.Addr().As4(), w.next)}
}

// Add adds a Service with so many endpoints, none of them on the node.
func (w *World) Add(endpoints int) Service {
	s := w.name(fmt.Sprintf("added-%05d", w.next))
	for range endpoints {
		s.Endpoints = append(s.Endpoints, w.fresh())
	}
	w.Services = append(w.Services, s)
	return s
}

// Remove takes the last Service away that Add added.
func (w *World) Remove() Service {
	last := w.Services[len(w.Services)-1]
	w.Services = w.Services[:len(w.Services)-1]
	return last
}

// Replace gives a Service a new endpoint in the place of its last one, and returns it
// as it is now, with the endpoint that left.
func (w *World) Replace(i int) (now Service, old netip.AddrPort) {
	s := &w.Services[i]
	last := len(s.Endpoints) - 1
	old = netip.AddrPortFrom(s.Endpoints[last], s.Target)
	s.Endpoints = append([]netip.Addr(nil), s.Endpoints...)
	s.Endpoints[last] = w.fresh()
	s.Local = min(s.Local, last)
	return *s, old
}

// Locals is the number of endpoints on the node.
func (w *World) Locals() int {
	n := 0
	for _, s := range w.Services {
		n += s.Local
	}
	return n
}

func (w *World) fresh() netip.Addr {
	w.late++
	return plus(Late.Addr().As4(), w.late)
}

func plus(base [4]byte, n int) netip.Addr {
	v := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	v += uint32(n)
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}

// Spread picks about n Services, spread over all.
func (w *World) Spread(n int) []Service {
	var out []Service
	for i := 0; i < len(w.Services); i += max(1, len(w.Services)/n) {
		out = append(out, w.Services[i])
	}
	return out
}

// SetIP takes the address that an API server has chosen.
func (s *Service) SetIP(text string) (err error) {
	s.IP, err = netip.ParseAddr(text)
	return err
}
