//go:build peers

package deploy

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-ipvs-proxy/e2e/cluster"
	"kube-ipvs-proxy/proxier/watch"
)

// TestRights uses the API as the ServiceAccount of the base: what the program does is
// allowed, and every other verb on every resource that the server has is not.
func TestRights(t *testing.T) {
	s := startServer(t)
	s.must(t, "apply", "--server-side", "-k", folder(t, "base"))
	config, err := s.Config(cluster.ServiceAccount("kube-system", "kube-ipvs-proxy"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	waitAllowed(t, client)
	// Which its own reader waits for.
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.30.0.2"}}},
	}
	if err := s.Objects().Apply(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Run("source", func(t *testing.T) { testSource(t, config) })
	t.Run("enough", func(t *testing.T) { testEnough(t, client) })
	t.Run("no more", func(t *testing.T) { testNoMore(t, s, client) })
}

// waitAllowed waits until the authorizer has heard of the role.
func waitAllowed(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		_, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			return
		}
		if !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// testSource runs the program's own reader of the API server until it has read all.
func testSource(t *testing.T, config *rest.Config) {
	client, err := watch.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	api, err := watch.NewAPI(ctx, watch.APIConfig{Client: client}, "node-1", func(p watch.Problem) {
		t.Errorf("problem: %v", p)
	})
	if err != nil {
		t.Fatal(err)
	}
	for !api.Synced() {
		select {
		case <-api.Changed():
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("has not read all: %+v", api.States())
		}
	}
}

// testEnough lists, watches and writes what the program does.
func testEnough(t *testing.T, client kubernetes.Interface) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	services := metav1.ListOptions{LabelSelector: "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name"}
	node := metav1.ListOptions{FieldSelector: "metadata.name=node-1"}
	for what, call := range map[string]func() error{
		"list Services": func() error { _, err := client.CoreV1().Services("").List(ctx, services); return err },
		"get a Service": func() error {
			_, err := client.CoreV1().Services("kube-system").Get(ctx, "kube-ipvs-proxy", metav1.GetOptions{})
			return err
		},
		"list EndpointSlices": func() error { _, err := client.DiscoveryV1().EndpointSlices("").List(ctx, services); return err },
		"list this Node":      func() error { _, err := client.CoreV1().Nodes().List(ctx, node); return err },
		"watch Services":      func() error { w, err := client.CoreV1().Services("").Watch(ctx, services); return stop(w, err) },
		"watch EndpointSlices": func() error {
			w, err := client.DiscoveryV1().EndpointSlices("").Watch(ctx, services)
			return stop(w, err)
		},
		"watch this Node": func() error { w, err := client.CoreV1().Nodes().Watch(ctx, node); return stop(w, err) },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "node-1.1"}, EventTime: metav1.NowMicro(),
		ReportingController: "kube-proxy", ReportingInstance: "node-1", Action: "StartKubeProxy", Reason: "Starting", Type: "Normal",
		Regarding: corev1.ObjectReference{Kind: "Node", Name: "node-1"},
	}
	if _, err := client.EventsV1().Events("default").Create(ctx, event, metav1.CreateOptions{}); err != nil {
		t.Errorf("create an Event: %v", err)
	}
	series := []byte(`{"series":{"count":2,"lastObservedTime":"2030-01-01T00:00:00.000000Z"}}`)
	if _, err := client.EventsV1().Events("default").Patch(ctx, "node-1.1", types.StrategicMergePatchType, series, metav1.PatchOptions{}); err != nil {
		t.Errorf("patch an Event: %v", err)
	}
}

// stop ends a watch that could be begun.
func stop(w interface{ Stop() }, err error) error {
	if err == nil {
		w.Stop()
	}
	return err
}

// testNoMore asks for each verb on each resource of the server. What a ServiceAccount
// without any role may do is not the role's.
func testNoMore(t *testing.T, s *server, client kubernetes.Interface) {
	allowed := map[string]string{
		"/services": "get list watch", "/nodes": "get list watch", "discovery.k8s.io/endpointslices": "get list watch",
		"events.k8s.io/events": "create patch",
	}
	_, lists, err := s.Client().Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Config(cluster.ServiceAccount("kube-system", "somebody"))
	if err != nil {
		t.Fatal(err)
	}
	somebody, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
				asked++
				want := slices.Contains(strings.Fields(allowed[gv.Group+"/"+r.Name]), verb)
				got := may(t, client, gv.Group, r.Name, verb)
				if got != want && (want || !may(t, somebody, gv.Group, r.Name, verb)) {
					t.Errorf("%s %s of group %q: allowed %v, want %v", verb, r.Name, gv.Group, got, want)
				}
			}
		}
	}
	if asked < 300 {
		t.Errorf("only %d questions asked", asked)
	}
	t.Logf("%d questions asked", asked)
	// Not only in words.
	if _, err := client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("Secrets: %v", err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-ipvs-proxy"}}
	if _, err := client.CoreV1().Services("kube-system").Update(t.Context(), service, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("update of a Service: %v", err)
	}
}

// may asks the API server what this client may do, in all namespaces.
func may(t *testing.T, client kubernetes.Interface, group, resource, verb string) bool {
	t.Helper()
	resource, sub, _ := strings.Cut(resource, "/")
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: group, Version: "*", Resource: resource, Subresource: sub, Verb: verb,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
