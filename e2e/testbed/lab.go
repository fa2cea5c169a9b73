package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/proxier/watch"
)

// How long Settle waits, and Start for each node: machines that emulate are slow,
// above all when programs are read for the first time.
const (
	SettleLimit = 60 * time.Second
	StartLimit  = 3 * time.Minute
)

// nodesFile is the manifest of the Node objects.
const nodesFile = "00-nodes"

// Lab is the network with a proxy on each node.
type Lab struct {
	*Network
	Manifests *Manifests
	// SettleLimit is how long Settle waits; New sets it to the constant.
	SettleLimit time.Duration
	// Kubeconfig is the product's, where it reads an API server on each node; empty: it
	// reads Manifests.
	Kubeconfig string

	dir     string
	product string // empty until it is copied
	proxies map[string]Proxy
}

// New builds the network and the folder of manifests with the Node objects.
// No proxy runs yet: see Start.
func New() (*Lab, error) { return NewWith((*Lab).products) }

// NewWith is New with other proxies than the product: those that proxies gives, by the
// name of their node, when network and manifests are there.
func NewWith(proxies func(*Lab) (map[string]Proxy, error)) (*Lab, error) {
	network, err := NewNetwork()
	if err != nil {
		return nil, err
	}
	l := &Lab{Network: network, SettleLimit: SettleLimit}
	if err := l.prepare(proxies); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) prepare(proxies func(*Lab) (map[string]Proxy, error)) error {
	var err error
	if l.dir, err = os.MkdirTemp("", "lab-"); err != nil {
		return err
	}
	if l.Manifests, err = newManifests(l.dir); err != nil {
		return err
	}
	if err := l.ApplyNodes(nil); err != nil {
		return err
	}
	l.proxies, err = proxies(l)
	return err
}

// products are kube-ipvs-proxy on each node.
func (l *Lab) products() (map[string]Proxy, error) {
	program, err := l.Product()
	if err != nil {
		return nil, err
	}
	proxies := map[string]Proxy{}
	for _, n := range l.Nodes() {
		proxies[n.Name()] = &product{host: n, program: program, folder: l.Manifests.Dir(), log: &Log{}}
	}
	return proxies, nil
}

// Product is the path of kube-ipvs-proxy, which is copied when it is asked for first.
func (l *Lab) Product() (string, error) {
	if l.product == "" {
		path, err := FindProgram("kube-ipvs-proxy")
		if err != nil {
			return "", err
		}
		if l.product, err = CopyProgram(path, l.dir); err != nil {
			return "", err
		}
	}
	return l.product, nil
}

// CopyProgram copies an executable into a folder: where it was built may be a file
// system that is slow to read.
func CopyProgram(from, dir string) (string, error) {
	src, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer func() { _ = src.Close() }()
	to := filepath.Join(dir, filepath.Base(from))
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	// Large pieces: each is one request where the files are another system's.
	_, err = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, 512<<10))
	return to, errors.Join(err, dst.Close())
}

// FindProgram finds an executable of the project: in the folder that the environment
// names in BIN, else in bin of this folder or one above.
func FindProgram(name string) (string, error) {
	if bin := os.Getenv("BIN"); bin != "" {
		path := filepath.Join(bin, name)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: %w", errNoProgram, err)
		}
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "bin", name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errNoProgram
		}
	}
}

// Proxy is the proxy of a node.
func (l *Lab) Proxy(node string) Proxy {
	p := l.proxies[node]
	if p == nil {
		panic("testbed: no node " + node)
	}
	return p
}

// Replace gives a node another proxy; the one before must have been stopped.
func (l *Lab) Replace(node string, p Proxy) { l.proxies[node] = p }

// Start starts the proxies of all nodes with args, one after the other, and waits
// until they settled.
func (l *Lab) Start(ctx context.Context, args ...string) error {
	for _, n := range l.Nodes() {
		if err := l.Proxy(n.Name()).Start(args...); err != nil {
			return err
		}
		if err := l.settle(ctx, StartLimit, n.Name()); err != nil {
			return err
		}
	}
	return nil
}

// Restart stops the proxy of a node, starts it with other arguments and waits
// until it settled. It is started also if it did not stop in good order or had
// ended by itself; that is an error all the same.
func (l *Lab) Restart(ctx context.Context, node string, args ...string) error {
	p := l.Proxy(node)
	stopped := p.Stop(ctx)
	if err := p.Start(args...); err != nil {
		return errors.Join(stopped, err)
	}
	return errors.Join(stopped, l.settle(ctx, StartLimit, node))
}

// Settle waits until the proxies of the named nodes, of all when none is named,
// have brought the present manifests into the kernel.
func (l *Lab) Settle(ctx context.Context, nodes ...string) error {
	return l.settle(ctx, l.SettleLimit, nodes...)
}

func (l *Lab) settle(ctx context.Context, limit time.Duration, nodes ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("waited %v", limit))
	defer cancel()
	revision, err := watch.FolderRevision(l.Manifests.Dir())
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		nodes = []string{Node1, Node2, Node3}
	}
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = l.Proxy(n).Settle(ctx, revision) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ApplyNodes writes the Node objects of the table, each changed by change (nil:
// as they are). One whose name is made empty is left out.
func (l *Lab) ApplyNodes(change func(*corev1.Node)) error {
	return l.Manifests.Apply(nodesFile, nodeObjects(change)...)
}

// Close kills the proxies and takes the network down.
func (l *Lab) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var err error
	for _, p := range l.proxies {
		if p.Running() {
			err = errors.Join(err, p.Kill(ctx))
		}
	}
	return errors.Join(err, l.Network.Close(), os.RemoveAll(l.dir))
}
