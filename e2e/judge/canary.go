package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kube-ipvs-proxy/e2e/cluster"
	"kube-ipvs-proxy/e2e/testbed"
)

// canary is the number of a Service that comes into the API after other changes,
// with an endpoint on each node; zero is none. kube-proxy gets the changes of a kind
// in order and answers at the Service's health check port when it has written its
// rules: one answer of the new Service that counts an endpoint tells that all of the
// changes before are in the kernel.
type canary int

const canaryNamespace = "canary"

func (c canary) name() string { return fmt.Sprintf("canary-%d", c) }

// Two canaries are there for a moment: neighbours have ports and addresses of their
// own. They are above those of the tests' Services.
func (c canary) port() int32 { return 32766 + int32(c%2) }
func (c canary) address(f testbed.Family) string {
	if f == testbed.IPv6 {
		return fmt.Sprintf("fd96::f:%x", 0xfff0+c%2)
	}
	return fmt.Sprintf("10.96.255.%d", 240+c%2)
}

// fly puts the next canary into the API and takes this one away.
func (c canary) fly(ctx context.Context, api cluster.Objects) (canary, error) {
	next := c + 1
	if err := api.Apply(ctx, next.objects()...); err != nil {
		return c, err
	}
	return next, api.Delete(ctx, c.objects()...)
}

func (c canary) objects() []runtime.Object {
	dual := corev1.IPFamilyPolicyRequireDualStack
	v4, v6 := c.address(testbed.IPv4), c.address(testbed.IPv6)
	objects := []runtime.Object{&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: canaryNamespace, Name: c.name()},
		Spec: corev1.ServiceSpec{
			Type:      corev1.ServiceTypeLoadBalancer,
			ClusterIP: v4, ClusterIPs: []string{v4, v6},
			IPFamilies:                    []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			IPFamilyPolicy:                &dual,
			ExternalTrafficPolicy:         corev1.ServiceExternalTrafficPolicyLocal,
			HealthCheckNodePort:           c.port(),
			AllocateLoadBalancerNodePorts: new(false),
			Ports:                         []corev1.ServicePort{{Name: "p", Protocol: corev1.ProtocolTCP, Port: 9}},
		},
	}}
	for _, f := range testbed.Families() {
		objects = append(objects, c.slice(f))
	}
	return objects
}

// slice has an endpoint on each node, at an address that no pod has.
func (c canary) slice(f testbed.Family) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: canaryNamespace,
			Name:      c.name() + "-" + strings.ToLower(f.String()),
			Labels:    map[string]string{discoveryv1.LabelServiceName: c.name()},
		},
		AddressType: discoveryv1.AddressType(f.String()),
		Ports:       []discoveryv1.EndpointPort{{Name: new("p"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(9))}},
	}
	for i, node := range []string{testbed.Node1, testbed.Node2, testbed.Node3} {
		address := fmt.Sprintf("10.244.%d.250", i+1)
		if f == testbed.IPv6 {
			address = fmt.Sprintf("fd44:0:0:%d::250", i+1)
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	return s
}

// seen tells whether the proxy of a node has the canary in the kernel, in one family.
// The health check port is open where NodePorts are: which addresses those are
// depends on the flags.
func (c canary) seen(ctx context.Context, h *testbed.Host, f testbed.Family) bool {
	loopback := netip.IPv6Loopback()
	if f == testbed.IPv4 {
		loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	for _, a := range append(h.NodeAddrs(f), loopback) {
		if ok, err := c.ask(ctx, h, netip.AddrPortFrom(a, uint16(c.port()))); err == nil {
			return ok
		}
	}
	return false
}

// askLimit is how long one question may take: it does not leave the node.
const askLimit = 2 * time.Second

func (c canary) ask(ctx context.Context, h *testbed.Host, at netip.AddrPort) (bool, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			err = h.Do(func() (err error) {
				conn, err = (&net.Dialer{Timeout: askLimit}).DialContext(ctx, network, address)
				return err
			})
			return conn, err
		},
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+"/healthz", nil)
	if err != nil {
		return false, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return false, err
	}
	var answer struct {
		Service        struct{ Namespace, Name string }
		LocalEndpoints int
	}
	if err := errors.Join(json.NewDecoder(response.Body).Decode(&answer), response.Body.Close()); err != nil {
		return false, err
	}
	return answer.Service.Namespace == canaryNamespace && answer.Service.Name == c.name() && answer.LocalEndpoints > 0, nil
}
