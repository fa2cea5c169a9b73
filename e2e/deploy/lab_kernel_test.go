//go:build kernel

package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// imageDir is what the command image prepared.
func imageDir() string { return filepath.Join(binDir(), "image") }

func binDir() string {
	if bin := os.Getenv("BIN"); bin != "" {
		return bin
	}
	return "../../bin"
}

// newLab is the lab with the DaemonSet's Pod on each node.
func newLab(t *testing.T) (*testbed.Lab, map[string]*container) {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "image-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	root := filepath.Join(dir, "root")
	if err := errors.Join(mountCgroups(), placeImage(root)); err != nil {
		t.Fatal(err)
	}
	containers := map[string]*container{}
	lab, err := testbed.NewWith(func(l *testbed.Lab) (map[string]testbed.Proxy, error) {
		proxies := map[string]testbed.Proxy{}
		for _, h := range l.Nodes() {
			c, err := newContainer(h, dir, root, l.Manifests.Dir())
			if err != nil {
				return nil, err
			}
			containers[h.Name()], proxies[h.Name()] = c, c
		}
		return proxies, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return lab, containers
}

// placeImage makes the image's files as the Dockerfile's last stage does, in memory.
func placeImage(root string) error {
	for _, c := range [][]string{
		{"cp", "-a", filepath.Join(imageDir(), RootDir), root},
		{"cp", filepath.Join(binDir(), "kube-ipvs-proxy"), filepath.Join(root, Entrypoint)},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s (go run ./e2e/deploy/image prepares it)", strings.Join(c, " "), err, out)
		}
	}
	return nil
}

// mountCgroups gives runc the control groups that the machine lacks.
func mountCgroups() error {
	const dir = "/sys/fs/cgroup"
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err
	}
	if fs.Type == unix.CGROUP2_SUPER_MAGIC || fs.Type == unix.TMPFS_MAGIC {
		return nil
	}
	return unix.Mount("cgroup2", dir, "cgroup2", 0, "")
}

const (
	clusterIP = "10.96.0.50"
	nodePort  = 30050
)

// apply writes a Service of both protocols with endpoints on two nodes.
func apply(t *testing.T, lab *testbed.Lab) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: clusterIP, ClusterIPs: []string{clusterIP},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		},
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		name := strings.ToLower(string(protocol))
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: name, Protocol: protocol, Port: 80, NodePort: nodePort})
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new(name), Protocol: new(protocol), Port: new(int32(8080))})
	}
	for _, pod := range []string{testbed.PodL1, testbed.PodRm} {
		h := lab.Host(pod)
		for _, p := range []probe.Protocol{probe.TCP, probe.UDP} {
			if _, err := h.Serve(p, netip.AddrPortFrom(h.Addr(testbed.IPv4), 8080)); err != nil {
				t.Fatal(err)
			}
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{h.Addr(testbed.IPv4).String()}, NodeName: new(h.Node),
		})
	}
	if err := lab.Manifests.Apply("web", service, slice); err != nil {
		t.Fatal(err)
	}
}

// reach asks the Service from a pod, from a node and from outside, and wants both
// endpoints to answer.
func reach(t *testing.T, lab *testbed.Lab) {
	t.Helper()
	inside := netip.AddrPortFrom(netip.MustParseAddr(clusterIP), 80)
	outside := netip.AddrPortFrom(lab.Host(testbed.Node1).Addr(testbed.IPv4), nodePort)
	for _, c := range []struct {
		from string
		to   netip.AddrPort
	}{{testbed.PodC1, inside}, {testbed.Node1, inside}, {testbed.PodC2, inside}, {testbed.PodR3, inside}, {testbed.Client, outside}} {
		for _, p := range []probe.Protocol{probe.TCP, probe.UDP} {
			who := map[string]bool{}
			for _, r := range lab.Host(c.from).Many(probe.Call{Protocol: p, To: c.to}, 8, 2) {
				if r.Outcome != probe.OK {
					t.Fatalf("%s to %v, %v: %v", c.from, c.to, p, r)
				}
				who[r.Who] = true
			}
			if len(who) != 2 || !who[testbed.PodL1] || !who[testbed.PodRm] {
				t.Errorf("%s to %v, %v: %v answered", c.from, c.to, p, who)
			}
		}
	}
}

// get asks a server of a node from the node itself, as the kubelet does.
func get(ctx context.Context, h *testbed.Host, url string) (string, error) {
	dial := func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		doErr := h.Do(func() error {
			conn, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, addr)
			return nil
		})
		return conn, errors.Join(err, doErr)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s\n%s", url, answer.Status, text)
	}
	return string(text), err
}
