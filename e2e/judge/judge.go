// Package judge runs the lab of e2e/testbed with a real API server: with the real
// kube-proxy instead of the product, in each of its modes, so that what a packet test
// wants of the product can be asked of the reference, too; or with the product under
// the rights that deploy/base gives it. It keeps what the API server has equal to the
// lab's folder of manifests: the API server of the kubeconfig that the environment
// names in KUBECONFIG, else one that it starts.
package judge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kube-ipvs-proxy/e2e/cluster"
	"kube-ipvs-proxy/e2e/relay"
	"kube-ipvs-proxy/e2e/testbed"
)

// Variable is the environment variable that names the proxy to run in the lab: empty
// for the product with a folder of manifests, API for the product with an API server,
// else Prefix and a mode.
const (
	Variable = "PROXY"
	API      = "api"
	Prefix   = "kube-proxy-"
)

// Modes are the modes of kube-proxy. The judge of Kubernetes' semantics is iptables;
// nftables holds the same but for what it leaves out on purpose.
func Modes() []string { return []string{"iptables", "ipvs", "nftables"} }

// Mode is the mode of kube-proxy that the value of Variable names, API for the product
// with an API server, empty for the product without.
func Mode(proxy string) (string, error) {
	switch proxy {
	case "", "kube-ipvs-proxy":
		return "", nil
	case API:
		return API, nil
	}
	mode, ok := strings.CutPrefix(proxy, Prefix)
	if !ok || !slices.Contains(Modes(), mode) {
		return "", fmt.Errorf("%s=%s: want nothing, %s, or %s with one of %s", Variable, proxy, API, Prefix, strings.Join(Modes(), ", "))
	}
	return mode, nil
}

// Open builds the lab with the proxies that the environment names by Variable, the
// product when it does not; none is started. end takes it down.
func Open(ctx context.Context) (lab *testbed.Lab, end func() error, err error) {
	mode, err := Mode(os.Getenv(Variable))
	if err != nil {
		return nil, nil, err
	}
	if mode == "" {
		lab, err := testbed.New()
		if err != nil {
			return nil, nil, err
		}
		return lab, lab.Close, nil
	}
	j, err := NewLab(ctx, mode)
	if err != nil {
		return nil, nil, err
	}
	return j.Lab, j.Close, nil
}

// Lab is a lab and what its proxies need.
type Lab struct {
	*testbed.Lab

	dir        string
	cluster    *cluster.Cluster
	kubeconfig string // of who may do everything
	config     *rest.Config
	client     kubernetes.Interface
	program    string // kube-proxy; empty until it is needed
	mirror     *mirror
	relays     []net.Listener // on the nodes
}

// Another is a proxy of another mode, or the product for API, on a node;
// testbed.Lab.Replace puts it in the place of the lab's own.
func (j *Lab) Another(ctx context.Context, node, mode string) (testbed.Proxy, error) {
	if mode != API {
		loadModules(ctx, j.Host(node), mode)
	}
	of, err := j.kindOf(ctx, mode)
	if err != nil {
		return nil, err
	}
	return &proxy{kind: of, host: j.Host(node), mirror: j.mirror, log: &testbed.Log{}}, nil
}

// kindOf is what the proxies of a mode have in common.
func (j *Lab) kindOf(ctx context.Context, mode string) (*kind, error) {
	if mode == API {
		return j.product(ctx)
	}
	if j.program == "" {
		var err error
		if j.program, err = j.CopyPeer(ctx, "kube-proxy"); err != nil {
			return nil, err
		}
	}
	return kubeProxy(mode, j.kubeconfig, j.program), nil
}

// Program is kube-proxy's path, once a lab has had one.
func (j *Lab) Program() string { return j.program }

// settleLimit is for kube-proxy in an emulated machine: in ipvs mode a change takes
// hundreds of processes.
const settleLimit = 3 * time.Minute

// NewLab builds a lab with kube-proxy in a mode on each node, or with the product for
// the mode API; none is started.
func NewLab(ctx context.Context, mode string) (*Lab, error) {
	j := &Lab{}
	var err error
	j.Lab, err = testbed.NewWith(func(l *testbed.Lab) (map[string]testbed.Proxy, error) {
		return j.proxies(ctx, l, mode)
	})
	if err != nil {
		return nil, errors.Join(err, j.close())
	}
	j.SettleLimit = settleLimit
	return j, nil
}

// Close kills the proxies and what they need, and takes the network down.
func (j *Lab) Close() error { return errors.Join(j.Lab.Close(), j.close()) }

func (j *Lab) close() error {
	var err error
	if j.mirror != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = j.mirror.close(ctx)
	}
	for _, r := range j.relays {
		err = errors.Join(err, r.Close())
	}
	if j.cluster != nil {
		err = errors.Join(err, j.cluster.Close())
	}
	return errors.Join(err, os.RemoveAll(j.dir))
}

func (j *Lab) proxies(ctx context.Context, l *testbed.Lab, mode string) (map[string]testbed.Proxy, error) {
	j.Lab = l
	var err error
	if j.dir, err = os.MkdirTemp("", "judge-"); err != nil {
		return nil, err
	}
	if j.kubeconfig, err = j.findAPI(ctx); err != nil {
		return nil, err
	}
	if j.config, err = clientcmd.BuildConfigFromFlags("", j.kubeconfig); err != nil {
		return nil, err
	}
	j.config.QPS = -1 // no limit
	if j.client, err = kubernetes.NewForConfig(j.config); err != nil {
		return nil, err
	}
	// A proxy looks for its Node when it starts.
	if j.mirror, err = newMirror(ctx, cluster.NewObjects(j.client), l.Manifests.Dir()); err != nil {
		return nil, err
	}
	if mode != API {
		loadModules(ctx, l.Host(testbed.Node1), mode)
	}
	of, err := j.kindOf(ctx, mode)
	if err != nil {
		return nil, err
	}
	if mode == API {
		l.Kubeconfig = of.kubeconfig
	}
	proxies := map[string]testbed.Proxy{}
	for _, n := range l.Nodes() {
		l, err := listen(n)
		if err != nil {
			return nil, err
		}
		j.relays = append(j.relays, l)
		go relay.Serve(l, strings.TrimPrefix(j.config.Host, "https://"))
		proxies[n.Name()] = &proxy{kind: of, host: n, mirror: j.mirror, log: &testbed.Log{}}
	}
	return proxies, nil
}

// relayAddr is where a node finds the API server, on its own loopback, at a port that no
// test uses.
const relayAddr = "127.0.0.1:16443"

// listen opens relayAddr on a node, for an API server that only this process reaches.
func listen(h *testbed.Host) (l net.Listener, err error) {
	err = h.Do(func() error {
		l, err = net.Listen("tcp4", relayAddr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: relay to the API server: %w", h.Name(), err)
	}
	return l, nil
}

// loadModules loads what nodes have before kube-proxy starts there. Where the kernel has
// it built in, or has none, kube-proxy finds out.
func loadModules(ctx context.Context, h *testbed.Host, mode string) {
	names := []string{"nf_conntrack"}
	if mode == "ipvs" {
		names = append(names, "ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh")
	}
	for _, name := range names {
		_, _ = h.Exec(ctx, "modprobe", "-q", name)
	}
}

// findAPI gives the kubeconfig of the API server that the environment names, as where
// it runs outside of the machine, else of one that it starts.
func (j *Lab) findAPI(ctx context.Context) (string, error) {
	if path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); path != "" {
		return path, nil
	}
	programs, err := cluster.FindPrograms(ctx)
	if err != nil {
		return "", err
	}
	if j.cluster, err = cluster.Start(ctx, programs); err != nil {
		return "", err
	}
	config, err := j.cluster.Kubeconfig(cluster.Admin, j.cluster.Server())
	if err != nil {
		return "", err
	}
	path := filepath.Join(j.dir, "kubeconfig")
	return path, os.WriteFile(path, config, 0o600)
}
