// Package cluster runs a throw-away Kubernetes API server with its etcd as plain
// processes on this host's loopback: no kubelet, no controllers, RBAC on. What
// Services and EndpointSlices there are is what its user writes. All certificates
// and data are in a temporary folder; the processes are killed when this process
// ends, however that happens.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
)

// The Service ranges of the API server, as in the lab of e2e/testbed.
const (
	ServiceRange4 = "10.96.0.0/16"
	ServiceRange6 = "fd96::/108"
)

// readyLimit is how long etcd and the API server may take to answer; a start
// takes 4 s, in an emulated machine 40 s.
const readyLimit = 3 * time.Minute

// Cluster is a running API server.
type Cluster struct {
	programs  Programs
	dir       string
	port      int
	authority *authority
	client    *kubernetes.Clientset
	etcd, api *child
}

// Start runs etcd and the API server and returns when the API server says that
// it is ready. Close ends them.
func Start(ctx context.Context, p Programs) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "cluster-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{programs: p, dir: dir}
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("waited %v", readyLimit))
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	var err error
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	if err := c.authority.writeServerFiles(c.dir); err != nil {
		return err
	}
	if c.port, err = freePort(); err != nil {
		return err
	}
	if c.etcd, err = startChild(c.programs.Etcd, c.etcdArgs()); err != nil {
		return err
	}
	// The API server waits for etcd by itself, and its own start takes longer.
	if c.api, err = startChild(c.programs.APIServer, c.apiArgs()); err != nil {
		return err
	}
	config, err := c.Config(Admin)
	if err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	return c.waitReady(ctx)
}

// etcdArgs are etcd's: one member that nobody else can find, and no promise to
// survive a crash of the host.
func (c *Cluster) etcdArgs() []string {
	return []string{
		"--data-dir", filepath.Join(c.dir, "etcd"),
		"--listen-client-urls", c.etcdURL(""), "--advertise-client-urls", c.etcdURL(""),
		"--listen-client-http-urls", c.etcdURL("http-"), // apart: faster than one for both
		"--listen-peer-urls", "http://127.0.0.1:0",
		"--unsafe-no-fsync", "--log-level", "warn",
	}
}

// etcdURL is a socket in the cluster's folder: no port that others could take.
func (c *Cluster) etcdURL(kind string) string {
	return "unix://" + filepath.Join(c.dir, kind+"etcd.sock")
}

func (c *Cluster) apiArgs() []string {
	file := func(name string) string { return filepath.Join(c.dir, name) }
	return []string{
		"--etcd-servers", c.etcdURL(""),
		"--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(c.port),
		// Nobody is told an address of this server: one for documentation will do.
		"--advertise-address", "192.0.2.1", "--endpoint-reconciler-type", "none",
		"--cert-dir", c.dir,
		"--tls-cert-file", file(serverCert), "--tls-private-key-file", file(serverKey), "--client-ca-file", file(caCert),
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", file(tokenKey), "--service-account-signing-key-file", file(tokenKey),
		"--service-cluster-ip-range", ServiceRange4 + "," + ServiceRange6,
		"--authorization-mode", "RBAC",
		"--allow-privileged", // as in kubeadm's clusters: node agents need it
		// What would refuse objects for lack of the rest of a cluster, or change them.
		"--disable-admission-plugins", "ServiceAccount,NamespaceLifecycle,TaintNodesByCondition",
		"--enable-priority-and-fairness=false",
	}
}

// waitReady polls the API server until it is ready.
func (c *Cluster) waitReady(ctx context.Context) error {
	config, err := c.Config(Admin)
	if err != nil {
		return err
	}
	client, err := httpClient(config)
	if err != nil {
		return err
	}
	for {
		last := askReady(ctx, client, config.Host+"/readyz")
		if last == nil {
			return nil
		}
		select {
		case <-c.etcd.exited:
			return c.etcd.ended()
		case <-c.api.exited:
			return c.api.ended()
		case <-ctx.Done():
			return fmt.Errorf("API server is not ready: %w: %w\n%s", context.Cause(ctx), last, c.api.output.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func askReady(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s\n%s", url, response.Status, text)
	}
	return nil
}

// Port is the port of the API server on 127.0.0.1.
func (c *Cluster) Port() int { return c.port }

// Server is the API server's address for clients on this host.
func (c *Cluster) Server() string { return "https://127.0.0.1:" + strconv.Itoa(c.port) }

// Client is a client that may do everything, as fast as it can.
func (c *Cluster) Client() *kubernetes.Clientset { return c.client }

// Objects writes objects into the API.
func (c *Cluster) Objects() Objects { return NewObjects(c.client) }

// Pids are the process ids of etcd and the API server, to measure them.
func (c *Cluster) Pids() (etcd, api int) { return c.etcd.pid(), c.api.pid() }

// Close kills the processes and deletes their data.
func (c *Cluster) Close() error {
	var err error
	for _, p := range []*child{c.api, c.etcd} {
		if p != nil {
			err = errors.Join(err, p.kill())
		}
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// freePort is a port of 127.0.0.1 that nobody listened on just now.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil || !ok {
		return 0, fmt.Errorf("free port: %v: %w", l.Addr(), err)
	}
	return addr.Port, nil
}
