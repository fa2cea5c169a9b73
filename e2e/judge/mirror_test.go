package judge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const manifests = `---
apiVersion: v1
kind: Service
metadata: {namespace: a, name: web, creationTimestamp: null}
spec: {clusterIP: 10.96.0.9}
status: {loadBalancer: {}}
---
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: a, name: web}
addressType: IPv4
endpoints: []
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
`

func TestReadFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": manifests, "b.yaml": "", "c.txt": "no manifest"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := readFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []key{{"Service", "a", "web"}, {"EndpointSlice", "a", "web"}, {"Node", "", "node-1"}} {
		if objects[k] == nil {
			t.Errorf("no %v", k)
		}
	}
	if len(objects) != 3 {
		t.Errorf("%d objects, want 3", len(objects))
	}
	service, ok := objects[key{"Service", "a", "web"}].(*corev1.Service)
	if !ok || service.Spec.ClusterIP != "10.96.0.9" {
		t.Errorf("Service is %v", service)
	}
}

func TestReadObjectsRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"kind: Pod\n", "Pod"},
		{"kind: Service\nspec: {clusterAddress: 10.96.0.9}\n", "clusterAddress"},
		{"kind: [", "yaml"},
	} {
		err := readObjects([]byte(c.text), map[key]runtime.Object{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
}

func TestMode(t *testing.T) {
	for proxy, want := range map[string]string{"": "", "kube-ipvs-proxy": "", "api": "api", "kube-proxy-iptables": "iptables", "kube-proxy-nftables": "nftables"} {
		if got, err := Mode(proxy); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", proxy, got, err, want)
		}
	}
	for _, proxy := range []string{"iptables", "kube-proxy-", "kube-proxy-userspace"} {
		if _, err := Mode(proxy); err == nil {
			t.Errorf("%q is taken", proxy)
		}
	}
}
