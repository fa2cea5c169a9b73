package watch

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kube-ipvs-proxy/proxier/plan"
)

// world is a source under test with the API server that it reads.
type world struct {
	t      *testing.T
	server *apiServer
	url    string
	api    *API
	cancel context.CancelFunc

	mu        sync.Mutex
	fresh     []Problem
	recovered []string
}

// quick are times for tests: what waits in earnest is short, what guards is long.
func quick() apiTimes {
	return apiTimes{
		silence: time.Minute, begin: time.Minute, list: time.Minute, steady: 50 * time.Millisecond,
		node: time.Minute, denied: 20 * time.Millisecond, retry: 20 * time.Millisecond, maxRetry: 200 * time.Millisecond,
	}
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, server: newAPIServer(t)}
	w.url = w.server.start().URL
	return w
}

// follow begins to read and returns when all was read once.
func (w *world) follow(times apiTimes) *world {
	w.t.Helper()
	w.begin(times, w.url)
	w.wait("first read", w.api.Synced)
	if d := w.api.Drain(); !d.All {
		w.t.Errorf("first Drain is %+v, want All", d)
	}
	return w
}

// begin begins to read.
func (w *world) begin(times apiTimes, hosts ...string) {
	w.t.Helper()
	w.with(client(w.t, hosts...), times)
}

func (w *world) with(c *Client, times apiTimes) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.t.Cleanup(cancel)
	config := APIConfig{Client: c, Recovered: func(resource string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.recovered = append(w.recovered, resource)
	}}
	api, err := newAPI(ctx, config, times, " NODE-1 ", func(p Problem) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.fresh = append(w.fresh, p)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.api = api
}

func (w *world) wait(what string, done func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if done() {
			return
		}
	}
	w.t.Fatalf("%s: not within 20 s; problems %v; states %+v", what, w.api.Problems(), w.api.States())
}

// settle waits until the source has heard of all changes of the server: it puts a
// Service of its own and waits for that, and returns what else became dirty.
func (w *world) settle() Dirty {
	w.t.Helper()
	var all Dirty
	heard := map[string]bool{}
	marks := []*corev1.Service{}
	for i, resource := range []string{"services", "endpointslices"} {
		m := apiService(fmt.Sprintf("mark-%d-%d", i, time.Now().UnixNano()), "10.96.255.1")
		if marks = append(marks, m); resource == "services" {
			w.server.put(m)
		} else {
			w.server.put(apiSlice(m.Name+"-x", m.Name, "10.244.255.1"))
		}
	}
	w.wait("settle", func() bool {
		d := w.api.Drain()
		all.All = all.All || d.All
		all.Triggers = append(all.Triggers, d.Triggers...)
		for _, n := range d.Services {
			if strings.HasPrefix(n.Name, "mark-") {
				heard[n.Name] = true
			} else {
				all.Services = append(all.Services, n)
			}
		}
		return heard[marks[0].Name] && heard[marks[1].Name]
	})
	return all
}

func (w *world) wantDirty(names ...string) {
	w.t.Helper()
	var got []string
	for _, n := range w.settle().Services {
		got = append(got, n.Name)
	}
	slices.Sort(got)
	got = slices.Compact(got)
	if !slices.Equal(got, names) {
		w.t.Errorf("dirty are %v, want %v", got, names)
	}
}

// reports are the problems told so far that hold text.
func (w *world) reports(text string) []Problem {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Problem
	for _, p := range w.fresh {
		if strings.Contains(p.String(), text) {
			out = append(out, p)
		}
	}
	return out
}

func (w *world) endpoints(name string) []string {
	_, list := w.api.Service(plan.ServiceName{Namespace: "default", Name: name})
	var out []string
	for _, e := range list {
		out = append(out, e.Addr.Addr().String())
	}
	return out
}

func (w *world) wantEndpoints(name string, addrs ...string) {
	w.t.Helper()
	if got := w.endpoints(name); !slices.Equal(got, addrs) {
		w.t.Errorf("endpoints of %s are %v, want %v", name, got, addrs)
	}
}

func apiService(name, ip string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.Unix(1700000000, 0),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: ip, ClusterIPs: []string{ip}, Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
}

func apiSlice(name, owner string, ips ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: owner}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for _, ip := range ips {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: new("node-1")})
	}
	return s
}

func apiNode(zone string, ips ...string) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelTopologyZone: zone}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24"}},
	}
	for _, ip := range ips {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return n
}

// small puts a Service with two endpoints and the Node.
func (w *world) small() *world {
	w.server.put(apiSlice("web-1", "web", "10.244.1.10", "10.244.2.10"), apiService("web", "10.96.0.1"), apiNode("z1", "172.30.0.2"))
	return w
}

func TestAPIFollowsChanges(t *testing.T) {
	w := newWorld(t).small().follow(quick())
	s, _ := w.api.Service(plan.ServiceName{Namespace: "default", Name: "web"})
	if s == nil || s.ClusterIPs[0] != netip.MustParseAddr("10.96.0.1") || s.Created.Unix() != 1700000000 {
		t.Errorf("Service is %+v", s)
	}
	w.wantEndpoints("web", "10.244.1.10", "10.244.2.10")
	if uid := w.api.UID(plan.ServiceName{Namespace: "default", Name: "web"}); uid != "uid-of-web" {
		t.Errorf("UID is %q", uid)
	}
	for accept := range w.server.accept {
		if !strings.HasPrefix(accept, "application/vnd.kubernetes.protobuf") {
			t.Errorf("asked for %q, want protobuf", accept)
		}
	}

	t.Log("equal objects dirty nothing")
	same := apiSlice("web-1", "web", "10.244.1.10", "10.244.2.10")
	same.Annotations = map[string]string{"a": "b"}
	relabelled := apiService("web", "10.96.0.1")
	relabelled.Labels = map[string]string{"new": "label"}
	w.server.put(same, relabelled)
	w.wantDirty()

	t.Log("a changed slice")
	w.server.put(apiSlice("web-1", "web", "10.244.1.10"))
	w.wantDirty("web")
	w.wantEndpoints("web", "10.244.1.10")

	t.Log("a slice before its Service, and a Service that goes")
	w.server.put(apiSlice("new-1", "new", "10.244.1.20"))
	w.wantDirty("new")
	w.server.put(apiService("new", "10.96.0.2"))
	w.wantDirty("new")
	w.wantEndpoints("new", "10.244.1.20")
	w.server.remove(apiService("new", "10.96.0.2"))
	w.wantDirty("new")
	if s, _ := w.api.Service(plan.ServiceName{Namespace: "default", Name: "new"}); s != nil {
		t.Errorf("deleted Service is %+v", s)
	}

	t.Log("a label moves a slice: both Services are dirty")
	w.server.put(apiSlice("new-1", "web", "10.244.1.20"))
	w.wantDirty("new", "web")
	w.wantEndpoints("web", "10.244.1.10", "10.244.1.20")
	w.wantEndpoints("new")

	t.Log("a slice without an owner, and one that is deleted")
	lost := apiSlice("new-1", "web", "10.244.1.20")
	lost.Labels = nil
	w.server.put(lost)
	w.wantDirty("web")
	if len(w.reports("has no label")) != 1 {
		t.Errorf("problems are %v", w.fresh)
	}
	w.server.remove(apiSlice("web-1", "web"))
	w.wantDirty("web")
	w.wantEndpoints("web")
}

func TestAPITellsProblemsOfObjectsOnce(t *testing.T) {
	w := newWorld(t).small().follow(quick())
	bad := apiService("bad", "10.96.0.9")
	bad.Spec.ExternalIPs = []string{"127.0.0.1"}
	w.server.put(bad)
	w.wantDirty("bad")
	bad.Annotations = map[string]string{"touch": "1"}
	w.server.put(bad)
	w.wantDirty()
	told := w.reports("externalIPs")
	if len(told) != 1 || len(w.api.Problems()) != 1 {
		t.Fatalf("told %v, present %v", told, w.api.Problems())
	}
	if name, ok := told[0].Service(); !ok || name.String() != "default/bad" {
		t.Errorf("problem %v belongs to %v %v", told[0], name, ok)
	}
	w.server.put(apiService("bad", "10.96.0.9"))
	w.wantDirty()
	if left := w.api.Problems(); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
}

func TestAPIJSON(t *testing.T) {
	w := newWorld(t).small()
	c, err := Connect(Connection{Master: w.url, ContentType: "application/json", QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	w.with(c, quick())
	w.wait("first read", w.api.Synced)
	w.server.put(apiSlice("web-1", "web", "10.244.1.10"))
	w.wait("change", func() bool { return len(w.endpoints("web")) == 1 })
	for accept := range w.server.accept {
		if strings.Contains(accept, "protobuf") {
			t.Errorf("asked for %q, want JSON", accept)
		}
	}
}

func TestAPITriggers(t *testing.T) {
	w := newWorld(t)
	at := func(s *discoveryv1.EndpointSlice, when time.Time) *discoveryv1.EndpointSlice {
		s.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: when.Format(time.RFC3339Nano)}
		return s
	}
	start := time.Now()
	w.small()
	w.server.put(at(apiSlice("old-1", "old", "10.244.1.1"), start.Add(time.Hour)))
	w.follow(quick())
	if d := w.settle(); len(d.Triggers) != 0 {
		t.Errorf("the first read has triggers %v", d.Triggers)
	}
	w.server.put(at(apiSlice("web-1", "web", "10.244.1.10"), start.Add(-time.Hour)))
	w.server.put(at(apiSlice("new-1", "web", "10.244.1.11"), start.Add(time.Hour)))
	d := w.settle()
	if len(d.Triggers) != 1 || d.Triggers[0].Service.Name != "web" || d.Triggers[0].IPv6 || !d.Triggers[0].At.Equal(start.Add(time.Hour)) {
		t.Errorf("triggers are %v", d.Triggers)
	}
}

func TestAPINode(t *testing.T) {
	w := newWorld(t).small().follow(quick())
	check := func(zone string, addrs ...string) {
		t.Helper()
		info, ok := w.api.Node()
		var got []string
		for _, ip := range info.IPs {
			got = append(got, ip.String())
		}
		if !ok || info.Zone != zone || !slices.Equal(got, addrs) || info.PodCIDRs[0].String() != "10.244.1.0/24" {
			t.Errorf("Node is %+v %v, want zone %s and %v", info, ok, zone, addrs)
		}
	}
	check("z1", "172.30.0.2")

	t.Log("a heartbeat changes nothing")
	beat := apiNode("z1", "172.30.0.2")
	beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
	seen := func() uint64 { return w.api.States()[kindNode].Changes }
	before := seen()
	w.server.put(beat)
	w.server.put(apiNode("z2", "172.30.0.9"))
	w.wait("address", func() bool { return w.api.Drain().All })
	check("z2", "172.30.0.9")
	if seen() != before+1 {
		t.Errorf("%d changes of the Node, want 1", seen()-before)
	}

	t.Log("a deleted Node is told and stays")
	w.server.remove(apiNode("z2"))
	w.wait("report", func() bool { return len(w.reports("was deleted")) == 1 })
	check("z2", "172.30.0.9")
	if w.api.Drain().All {
		t.Error("a deleted Node makes all dirty")
	}
	w.server.put(apiNode("z2", "172.30.0.9"))
	w.wait("no problem", func() bool { return len(w.api.Problems()) == 0 })
	if w.api.Drain().All {
		t.Error("a Node that came back as it was makes all dirty")
	}
	w.server.remove(apiNode("z2"))
	w.wait("report", func() bool { return len(w.reports("was deleted")) == 2 })
	w.server.put(apiNode("z3", "172.30.0.9"))
	w.wait("zone", func() bool { return w.api.Drain().All })
	check("z3", "172.30.0.9")
}

func TestAPIWaitsForNode(t *testing.T) {
	w := newWorld(t)
	w.server.put(apiService("web", "10.96.0.1"), apiNode("z1")) // no address yet
	w.begin(quick(), w.url)
	w.wait("lists", func() bool {
		return !slices.ContainsFunc(w.api.States(), func(s ResourceState) bool { return !s.Listed })
	})
	if w.api.Synced() || len(w.api.Drain().Services) > 0 {
		t.Fatal("synced without an address of the Node")
	}
	w.server.put(apiNode("z1", "172.30.0.2"))
	w.wait("synced", w.api.Synced)

	w = newWorld(t)
	w.server.put(apiService("web", "10.96.0.1"))
	times := quick()
	times.node = 100 * time.Millisecond
	w.follow(times)
	if len(w.reports("does not exist")) != 1 {
		t.Errorf("told %v", w.fresh)
	}
	if info, ok := w.api.Node(); ok || info.Name != "node-1" {
		t.Errorf("Node is %+v %v", info, ok)
	}
}
