package api

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/watch"
)

// serve starts a server with a world.
func serve(t *testing.T, w *world.World) (*Server, string) {
	t.Helper()
	s := New()
	s.Put(world.NodeObject(world.NodeName))
	for _, service := range w.Services {
		s.Put(service.Object())
		for _, slice := range service.Slices() {
			s.Put(slice)
		}
	}
	if _, err := s.Prepare(nil); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := s.Serve(l)
	t.Cleanup(func() { s.Close(); stop() })
	return s, "http://" + l.Addr().String()
}

// until waits until ok.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// TestKubernetesClient: the client library that kube-proxy uses reads all and follows,
// in both encodings.
func TestKubernetesClient(t *testing.T) {
	for _, media := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		t.Run(media, func(t *testing.T) {
			w := world.New(world.Size{Services: 40, Endpoints: 130}, "default", world.NodeName)
			s, host := serve(t, w)
			if _, ok := s.Read(); ok {
				t.Error("both were read before anybody asked")
			}
			client, err := kubernetes.NewForConfig(&rest.Config{Host: host, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: media, AcceptContentTypes: media}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			factory := informers.NewSharedInformerFactory(client, 0)
			slices := factory.Discovery().V1().EndpointSlices().Informer()
			services := factory.Core().V1().Services().Informer()
			cidrs := factory.Networking().V1().ServiceCIDRs().Informer()
			factory.Start(ctx.Done())
			if !cache.WaitForCacheSync(ctx.Done(), slices.HasSynced, services.HasSynced, cidrs.HasSynced) {
				t.Fatal("not synced")
			}
			if n, m := len(services.GetStore().List()), len(slices.GetStore().List()); n != 41 || m != 81 {
				t.Fatalf("%d Services and %d slices, want 41 and 81", n, m)
			}
			if at, ok := s.Read(); !ok || time.Since(at) > time.Minute {
				t.Errorf("read at %v, %v", at, ok)
			}
			now, _ := w.Replace(5)
			s.Put(now.Slices()[1])
			key := "default/" + now.Slices()[1].Name
			until(t, "the new endpoint", func() bool {
				o, _, _ := slices.GetStore().GetByKey(key)
				return o.(*discoveryv1.EndpointSlice).Endpoints[29].Addresses[0] == now.Endpoints[129].String()
			})
			s.Delete(now.Object())
			added := w.Add(1)
			s.Put(added.Object())
			until(t, "the removed and the new Service", func() bool {
				_, old, _ := services.GetStore().GetByKey("default/" + now.Name)
				_, there, _ := services.GetStore().GetByKey("default/" + added.Name)
				return !old && there
			})
			node, err := client.CoreV1().Nodes().Get(ctx, world.NodeName, metav1.GetOptions{})
			if err != nil || node.Status.Addresses[0].Address != world.NodeIP.String() {
				t.Errorf("Node is %+v, %v", node, err)
			}
		})
	}
}

// TestOurReader: so does ours.
func TestOurReader(t *testing.T) {
	w := world.New(world.Size{Services: 40, Endpoints: 130}, "default", world.NodeName)
	s, host := serve(t, w)
	client, err := watch.NewClient(&rest.Config{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	a, err := watch.NewAPI(t.Context(), watch.APIConfig{Client: client}, world.NodeName, func(p watch.Problem) { t.Error(p) })
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the first read", a.Synced)
	a.Drain()
	if n := len(a.Names()); n != 41 {
		t.Errorf("%d Services, want 41", n)
	}
	now, _ := w.Replace(7)
	for _, slice := range now.Slices() {
		s.Put(slice)
	}
	until(t, "the new endpoint", func() bool {
		_, endpoints := a.Service(plan.ServiceName{Namespace: "default", Name: now.Name})
		for _, e := range endpoints {
			if e.Addr.Addr() == now.Endpoints[129] {
				return true
			}
		}
		return false
	})
}

// TestOthers: what is not served is said and noted; an Event is taken.
func TestOthers(t *testing.T) {
	s, host := serve(t, world.New(world.Size{Services: 3, Endpoints: 1}, "default", world.NodeName))
	get := func(path string) (int, string) {
		t.Helper()
		answer, err := http.Get(host + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	if code, _ := get("/api/v1/secrets"); code != http.StatusNotFound || len(s.Refused()) != 1 {
		t.Errorf("Secrets: %d; refused %v", code, s.Refused())
	}
	if code, _ := get("/api/v1/nodes/other"); code != http.StatusNotFound {
		t.Errorf("another Node: %d", code)
	}
	if code, text := get("/api/v1/services"); code != http.StatusOK || !strings.Contains(text, `"kind":"ServiceList"`) {
		t.Errorf("list: %d %s", code, text)
	}
	answer, err := http.Post(host+"/apis/events.k8s.io/v1/namespaces/default/events", "application/json", strings.NewReader("{}"))
	if err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatalf("Event: %v, %v", answer, err)
	}
	answer.Body.Close()
}
