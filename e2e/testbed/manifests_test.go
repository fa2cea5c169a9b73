package testbed

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestManifestsAreWholeFiles(t *testing.T) {
	m, err := newManifests(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Apply("web", &corev1.Service{}, &discoveryv1.EndpointSlice{}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(m.path("web"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: Service\n", "kind: EndpointSlice\n", "apiVersion: discovery.k8s.io/v1\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if err := m.Apply("pod", &corev1.Pod{}); err == nil {
		t.Error("a Pod was taken")
	}
	if err := m.Remove("web"); err != nil {
		t.Error(err)
	}
	if err := m.Remove("web"); err == nil {
		t.Error("a missing file was removed")
	}
	if left, err := os.ReadDir(m.staging); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestEveryChangeHasItsOwnTime(t *testing.T) {
	m, err := newManifests(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	for range 100 {
		if err := m.ApplyText("same", "---\n"); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(m.path("same"))
		if err != nil {
			t.Fatal(err)
		}
		seen[info.ModTime().UnixNano()] = true
	}
	if len(seen) != 100 {
		t.Errorf("100 changes have %d times", len(seen))
	}
}

func TestNodeObjects(t *testing.T) {
	objects := nodeObjects(func(n *corev1.Node) {
		if n.Name == Node2 {
			n.Labels[corev1.LabelTopologyZone] = "elsewhere"
		}
	})
	if len(objects) != 3 {
		t.Fatalf("%d nodes", len(objects))
	}
	n := objects[1].(*corev1.Node)
	if n.Labels[corev1.LabelTopologyZone] != "elsewhere" || n.Spec.PodCIDR != "10.244.2.0/24" || n.Status.Addresses[1].Address != "fd30::3" {
		t.Errorf("got %+v", n)
	}
}
