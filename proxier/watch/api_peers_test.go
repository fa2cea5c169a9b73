//go:build peers

package watch

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kube-ipvs-proxy/e2e/cluster"
	"kube-ipvs-proxy/proxier/plan"
)

// These tests build and run the real API server: a build that fails fails them.

// rights are all that the proxy may do, and as much as it needs.
var rights = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"services", "nodes"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
}

// realWorld is a source that reads the real API server.
type realWorld struct {
	*world
	cluster *cluster.Cluster
}

func newReal(t *testing.T) *realWorld {
	return &realWorld{world: &world{t: t}, cluster: cluster.Begin(t)}
}

// newService is a Service as users write it.
func newService(name, ip string) *corev1.Service {
	s := apiService(name, ip)
	s.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}
	return s
}

// client is a client of a user of the cluster.
func (r *realWorld) client(u cluster.User) *Client {
	r.t.Helper()
	config, err := r.cluster.Config(u)
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := NewClient(config)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// builtIn tells the Service of the API server, which makes it when it likes.
func builtIn(n plan.ServiceName) bool { return n.Name == "kubernetes" }

// until waits until the Services with these names were dirty, and no others.
func (r *realWorld) until(names ...string) {
	r.t.Helper()
	dirty := map[string]bool{}
	deadline := time.Now().Add(time.Minute)
	for len(dirty) < len(names) {
		if time.Now().After(deadline) {
			r.t.Fatalf("dirty are %v, want %v; problems %v", dirty, names, r.api.Problems())
		}
		d := r.api.Drain()
		for _, n := range slices.DeleteFunc(d.Services, builtIn) {
			if !slices.Contains(names, n.Name) {
				r.t.Errorf("%s is dirty, want %v", n, names)
			}
			dirty[n.Name] = true
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAPIWithRealServer(t *testing.T) {
	r := newReal(t)
	user := cluster.ServiceAccount("kube-system", "kube-ipvs-proxy")
	if err := r.cluster.Grant(t.Context(), user, rights...); err != nil {
		t.Fatal(err)
	}
	admin := r.cluster.Client()
	headless := newService("headless", "None")
	other := newService("other", "10.96.0.77")
	other.Labels = map[string]string{labelProxyName: "somebody"}
	if err := r.cluster.Objects().Apply(t.Context(), newService("web", "10.96.0.10"), headless, other,
		apiSlice("web-1", "web", "10.244.1.10", "10.244.2.10"), apiNode("z1", "172.30.0.2")); err != nil {
		t.Fatal(err)
	}
	client := r.client(user)
	r.with(client, defaultTimes())
	r.wait("first read", r.api.Synced)
	r.api.Drain()
	web := plan.ServiceName{Namespace: "default", Name: "web"}
	got := slices.DeleteFunc(r.api.Names(), builtIn)
	if !slices.Equal(got, []plan.ServiceName{web}) {
		t.Errorf("Services are %v, want %v", got, web)
	}
	r.wantEndpoints("web", "10.244.1.10", "10.244.2.10")

	services, sliceDoor := admin.CoreV1().Services("default"), admin.DiscoveryV1().EndpointSlices("default")
	patch := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	merge := func(name, text string) {
		t.Helper()
		_, err := services.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		patch(err)
	}
	t.Log("changes that matter, and one that does not")
	merge("web", `{"metadata":{"annotations":{"a":"b"}}}`)
	merge("web", `{"spec":{"internalTrafficPolicy":"Local"}}`)
	r.until("web")
	if s, _ := r.api.Service(web); !s.InternalLocal {
		t.Errorf("Service is %+v", s)
	}
	t.Log("another proxy's label takes a Service away, and gives it back")
	merge("web", `{"metadata":{"labels":{"`+labelProxyName+`":"x"}}}`)
	r.until("web")
	if s, _ := r.api.Service(web); s != nil {
		t.Errorf("Service of another proxy is %+v", s)
	}
	merge("web", `{"metadata":{"labels":{"`+labelProxyName+`":null}}}`)
	r.until("web")
	if err := r.cluster.Objects().Apply(t.Context(), newService("new", "10.96.0.11")); err != nil {
		t.Fatal(err)
	}
	r.until("new")
	t.Log("a label moves a slice")
	_, err := sliceDoor.Patch(t.Context(), "web-1", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"kubernetes.io/service-name":"new"}}}`), metav1.PatchOptions{})
	patch(err)
	r.until("web", "new")
	r.wantEndpoints("new", "10.244.1.10", "10.244.2.10")
	patch(sliceDoor.Delete(t.Context(), "web-1", metav1.DeleteOptions{}))
	r.until("new")
	patch(services.Delete(t.Context(), "new", metav1.DeleteOptions{}))
	r.until("new")

	r.node(admin.CoreV1().Nodes().Delete)
	r.outage()
	r.events(client)
	if told := r.reports("forbidden"); len(told) > 0 {
		t.Errorf("the rights are not enough: %v", told)
	}
}

// node changes the Node in place, and deletes it.
func (r *realWorld) node(del func(context.Context, string, metav1.DeleteOptions) error) {
	r.t.Helper()
	if err := r.cluster.Objects().Apply(r.t.Context(), apiNode("z2", "172.30.0.9")); err != nil {
		r.t.Fatal(err)
	}
	r.wait("Node", func() bool {
		info, _ := r.api.Node()
		return info.Zone == "z2" && info.IPs[0].String() == "172.30.0.9" && info.PodCIDRs[0].String() == "10.244.1.0/24"
	})
	if err := del(r.t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.wait("report", func() bool { return len(r.reports("was deleted")) == 1 })
	if info, ok := r.api.Node(); !ok || info.Zone != "z2" {
		r.t.Errorf("deleted Node is %+v %v", info, ok)
	}
	r.api.Drain()
}

// outage kills the API server and starts it again.
func (r *realWorld) outage() {
	r.t.Helper()
	if err := r.cluster.StopAPI(); err != nil {
		r.t.Fatal(err)
	}
	r.wait("trouble", func() bool { return r.state(kindService).Problem != "" })
	before := slices.DeleteFunc(r.api.Names(), builtIn)
	if err := r.cluster.StartAPI(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	ready := time.Now()
	d, after := r.api.Drain(), slices.DeleteFunc(r.api.Names(), builtIn)
	if d.Services = slices.DeleteFunc(d.Services, builtIn); d.All || len(d.Services) > 0 || !slices.Equal(after, before) {
		r.t.Errorf("the outage made %+v dirty; Services are %v", d, after)
	}
	if err := r.cluster.Objects().Apply(r.t.Context(), newService("after", "10.96.0.12")); err != nil {
		r.t.Fatal(err)
	}
	r.until("after")
	r.t.Logf("a change is seen %v after the API server was ready again", time.Since(ready).Round(time.Millisecond))
	for _, p := range r.reports("of the API server") {
		r.t.Log(p)
	}
	r.wait("recovered", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.recovered) >= 3
	})
}

// events writes Events and the count of one.
func (r *realWorld) events(client *Client) {
	r.t.Helper()
	var mu sync.Mutex
	var failed []Problem
	e := NewEvents(client, EventsConfig{NodeName: "node-1", UID: r.api.UID, OnProblem: func(p Problem) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, p)
	}})
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	go e.Run(ctx)
	e.Node(Normal, "Starting", "StartKubeProxy", "")
	e.Service(plan.ServiceName{Namespace: "default", Name: "web"}, Warning, "CannotServe", "ProgramService", "a note")
	var list *eventsv1.EventList
	r.wait("Events", func() bool {
		var err error
		if list, err = r.cluster.Client().EventsV1().Events("default").List(ctx, metav1.ListOptions{}); err != nil {
			r.t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		return len(list.Items) >= 2 || len(failed) > 0
	})
	if len(failed) > 0 {
		r.t.Fatalf("Events: %v", failed)
	}
	at := slices.IndexFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.Kind == "Service" })
	one := list.Items[at]
	web, err := r.cluster.Client().CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	if one.Regarding.UID != web.UID || one.Note != "a note" || one.Type != corev1.EventTypeWarning {
		r.t.Errorf("Event is %+v", one)
	}
	if err := (clientSink{client}).patch(ctx, "default", one.Name, countPatch(7, time.Now())); err != nil {
		r.t.Fatal(err)
	}
	got, err := r.cluster.Client().EventsV1().Events("default").Get(ctx, one.Name, metav1.GetOptions{})
	if err != nil || got.Series == nil || got.Series.Count != 7 {
		r.t.Errorf("counted Event is %+v, %v", got, err)
	}
}

// TestAPIWithRealServerAndFewerRights has no right to read Nodes or to write Events.
func TestAPIWithRealServerAndFewerRights(t *testing.T) {
	r := newReal(t)
	user := cluster.ServiceAccount("kube-system", "few")
	few := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list", "watch"}}, rights[1]}
	if err := r.cluster.Grant(t.Context(), user, few...); err != nil {
		t.Fatal(err)
	}
	if err := r.cluster.Objects().Apply(t.Context(), newService("web", "10.96.0.10"), apiSlice("web-1", "web", "10.244.1.10")); err != nil {
		t.Fatal(err)
	}
	client := r.client(user)
	times := defaultTimes()
	times.node = time.Second
	r.with(client, times)
	r.wait("first read", r.api.Synced)
	r.wantEndpoints("web", "10.244.1.10")
	r.wait("report", func() bool { return len(r.reports("")) > 0 })
	told := r.reports("")
	if len(told) != 1 || told[0].Object != "nodes of the API server" {
		t.Errorf("told %v, want one problem of nodes", told)
	}
	t.Log(told)
	failed := make(chan Problem, 10)
	e := NewEvents(client, EventsConfig{NodeName: "node-1", OnProblem: func(p Problem) { failed <- p }})
	go e.Run(t.Context())
	e.Node(Normal, "Starting", "StartKubeProxy", "")
	select {
	case p := <-failed:
		t.Log(p)
	case <-time.After(20 * time.Second):
		t.Error("nobody told that Events cannot be written")
	}
}
