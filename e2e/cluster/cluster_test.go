//go:build peers

package cluster

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// These tests build and run the real API server: a build that fails fails them.

// startLimit is how long a start may take on a busy host with two CPUs.
const startLimit = 60 * time.Second

func begin(t *testing.T) *Cluster {
	t.Helper()
	programs, err := FindPrograms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	c, err := Start(t.Context(), programs)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	t.Logf("ready after %v", took.Round(time.Millisecond))
	if took > startLimit {
		t.Errorf("start took %v, want less than %v", took, startLimit)
	}
	return c
}

func TestCluster(t *testing.T) {
	c := begin(t)
	t.Run("objects", func(t *testing.T) { testObjects(t, c) })
	t.Run("rights", func(t *testing.T) { testRights(t, c) })
	t.Run("machine", func(t *testing.T) { testMachine(t, c) })
	testClose(t, c)
}

func service(clusterIP, ingress string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "anywhere", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type:      corev1.ServiceTypeLoadBalancer,
			ClusterIP: clusterIP, ClusterIPs: []string{clusterIP},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{
			Ingress: []corev1.LoadBalancerIngress{{IP: ingress}},
		}},
	}
}

func slice(addresses ...string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "anywhere", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: addresses}},
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
}

func node(address string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
		Spec:       corev1.NodeSpec{PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24"}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
	}
}

func testObjects(t *testing.T, c *Cluster) {
	for _, v := range []struct{ what, clusterIP, ingress, endpoint, node string }{
		{"created", "10.96.3.4", "203.0.113.1", "10.244.1.10", "172.30.0.2"},
		{"changed in place", "10.96.3.4", "203.0.113.2", "10.244.1.11", "172.30.0.3"},
		{"made anew", "10.96.3.5", "203.0.113.2", "10.244.1.11", "172.30.0.3"},
	} {
		objects := []runtime.Object{service(v.clusterIP, v.ingress), slice(v.endpoint), node(v.node)}
		if err := c.Objects().Apply(t.Context(), objects...); err != nil {
			t.Fatalf("%s: %v", v.what, err)
		}
		s, err := c.Client().CoreV1().Services("anywhere").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if s.Spec.ClusterIP != v.clusterIP || len(s.Status.LoadBalancer.Ingress) != 1 || s.Status.LoadBalancer.Ingress[0].IP != v.ingress {
			t.Errorf("%s: Service is %v", v.what, s)
		}
		slices, err := c.Client().DiscoveryV1().EndpointSlices("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(slices.Items) != 1 || slices.Items[0].Endpoints[0].Addresses[0] != v.endpoint {
			t.Errorf("%s: EndpointSlices are %v", v.what, slices.Items)
		}
		n, err := c.Client().CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(n.Status.Addresses) != 1 || n.Status.Addresses[0].Address != v.node || len(n.Spec.Taints) > 0 {
			t.Errorf("%s: Node is %v", v.what, n)
		}
	}
	for range 2 { // the second time there is nothing
		if err := c.Objects().Delete(t.Context(), service("", ""), slice(), node("")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Client().CoreV1().Services("anywhere").Get(t.Context(), "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("deleted Service: %v", err)
	}
	bad := service("192.0.2.1", "203.0.113.1")
	if err := c.Objects().Apply(t.Context(), bad); !apierrors.IsInvalid(err) {
		t.Errorf("a ClusterIP outside the range: %v", err)
	}
}

func testRights(t *testing.T, c *Cluster) {
	u := ServiceAccount("kube-system", "reader")
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list"}}
	if err := c.Grant(t.Context(), u, rule); err != nil {
		t.Fatal(err)
	}
	text, err := c.Kubeconfig(u, c.Server())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("what was granted: %v", err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what was not granted: %v", err)
	}
}

// testMachine asks from inside a QEMU machine, by the only way out that it has.
func testMachine(t *testing.T, c *Cluster) {
	dir := t.TempDir()
	vm, config := filepath.Join(dir, "vm"), filepath.Join(dir, "kubeconfig")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", vm, "../vm")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build vm: %v\n%s", err, out)
	}
	kubectl, err := Peers(t.Context(), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Kubeconfig(Admin, GuestServer)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	ask := exec.CommandContext(t.Context(), vm, "--machine=qemu", "--cpus=1", "--memory=1G", "--timeout=3m", "--api", strconv.Itoa(c.Port()),
		"--", kubectl[0], "--kubeconfig", config, "get", "--raw", "/readyz")
	out, err := ask.CombinedOutput()
	if err != nil || string(out) != "ok" {
		t.Fatalf("%v: %v\n%s", ask, err, out)
	}
	t.Logf("machine, kubectl and answer: %v", time.Since(start).Round(time.Millisecond))
}

func testClose(t *testing.T, c *Cluster) {
	etcd, api := c.Pids()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{etcd, api} {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d after Close: %v", pid, err)
		}
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder after Close: %v", err)
	}
}

func TestStartOfWhatIsNoServer(t *testing.T) {
	_, err := Start(context.Background(), Programs{Etcd: "/bin/true", APIServer: "/bin/false"})
	if err == nil {
		t.Fatal("started")
	}
	t.Log(err)
}
