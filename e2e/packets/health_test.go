//go:build kernel

package packets

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/e2e/testbed"
)

// healthPort is the healthCheckNodePort of the tests here.
const healthPort = 32700

// withHealth is an eTP Local Service with a health port.
func withHealth(endpoints ...endpoint) service {
	return service{endpoints: endpoints, loadBalancer: true, externalLocal: true, change: func(o *corev1.Service) {
		o.Spec.HealthCheckNodePort = healthPort
	}}
}

// health is what a health port answers.
type health struct {
	code   int
	weight string
	local  int // localEndpoints of the body
}

// healthAt asks the health port at an address by way of a host.
func (w way) healthAt(from string, at netip.Addr) (health, error) {
	dial := func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		err = lab.Host(from).Do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
			return err
		})
		return conn, err
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 3 * time.Second}
	r, err := client.Get("http://" + netip.AddrPortFrom(at, healthPort).String() + "/")
	if err != nil {
		return health{}, err
	}
	text, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return health{}, err
	}
	var body struct {
		LocalEndpoints int `json:"localEndpoints"`
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return health{}, err
	}
	return health{r.StatusCode, r.Header.Get("X-Load-Balancing-Endpoint-Weight"), body.LocalEndpoints}, nil
}

// wantHealth asks N.
func (w way) wantHealth(want health) {
	w.Helper()
	w.wantHealthAt(w.addr(N), want)
}

// wantHealthAt gives the port some time to open: the kernel's state is settled before.
func (w way) wantHealthAt(at netip.Addr, want health) {
	w.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		got, err := w.healthAt(X, at)
		if err == nil && got == want {
			return
		}
		if time.Now().After(deadline) {
			w.Errorf("health port at %v says %+v (%v), want %+v", at, got, err, want)
			return
		}
	}
}

func TestStatement118HealthPortCountsLocalEndpoints(t *testing.T) {
	s := begin(t)
	s.service(withHealth(ready(L1, L2, Rm)...)) // each has two ports
	s.eachTCP(func(w way) { w.wantHealth(health{200, "2", 2}) })
}

func TestStatement119HealthPortWithoutReadyLocalEndpoint(t *testing.T) {
	s := begin(t)
	v := s.service(withHealth(ready(Rm)...))
	s.eachTCP(func(w way) { w.wantHealth(health{503, "0", 0}) })
	v.endpoints = []endpoint{{L1, isServing}}
	s.apply(v)
	s.eachTCP(func(w way) { w.wantHealth(health{503, "0", 0}) })
}

func TestStatement121HealthPortPassesLaterRules(t *testing.T) {
	s := begin(t)
	s.service(withHealth(ready(L1)...))
	for _, f := range testbed.Families() {
		rule := []string{"INPUT", "-p", "tcp", "--dport", strconv.Itoa(healthPort), "-j", "DROP"}
		s.run(iptables(f), append([]string{"-A"}, rule...)...)
		t.Cleanup(func() { s.run(iptables(f), append([]string{"-D"}, rule...)...) })
	}
	s.eachTCP(func(w way) { w.wantHealth(health{200, "1", 1}) })
}
