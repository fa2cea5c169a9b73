package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/api"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// source is the API server that a proxy reads from.
type source interface {
	// load makes all objects, may change what of the world the server decides, and
	// serves l, which is on the node. It returns a kubeconfig for the node.
	load(ctx context.Context, w *world.World, l net.Listener) (access []byte, err error)
	// putEndpoints changes the endpoints of a Service.
	putEndpoints(ctx context.Context, s world.Service) error
	// add makes a Service more.
	add(ctx context.Context, w *world.World, endpoints int) (world.Service, error)
	remove(ctx context.Context, s world.Service) error
	// read is when a proxy had read Services and EndpointSlices; false: it has not, or
	// this is not known.
	read() (time.Time, bool)
	// refused is what was asked for and is not served.
	refused() []string
	close() error
}

// sourceOf is a new source for a world of a size, and that world.
func (b *bench) sourceOf(size world.Size) (source, *world.World) {
	if b.cluster != nil {
		return b.cluster.source(size)
	}
	return &memory{prepared: b.prepared}, world.New(size, "default", world.NodeName)
}

// memory is a source in this process.
type memory struct {
	// prepared are the answers for worlds of this size, shared by all trials.
	prepared map[world.Size]api.Prepared
	server   *api.Server
	stop     func()
}

const kubeconfigText = `apiVersion: v1
kind: Config
clusters: [{name: bench, cluster: {server: "http://%s"}}]
contexts: [{name: bench, context: {cluster: bench}}]
current-context: bench
`

func (m *memory) load(_ context.Context, w *world.World, l net.Listener) ([]byte, error) {
	m.server = api.New()
	objects := []runtime.Object{world.NodeObject(w.Node())}
	for _, s := range w.Services {
		objects = append(objects, s.Object())
		for _, slice := range s.Slices() {
			objects = append(objects, slice)
		}
	}
	m.server.Put(objects...)
	var err error
	if m.prepared[w.Size()], err = m.server.Prepare(m.prepared[w.Size()]); err != nil {
		return nil, err
	}
	m.stop = m.server.Serve(l)
	return fmt.Appendf(nil, kubeconfigText, l.Addr()), nil
}

func (m *memory) putEndpoints(_ context.Context, s world.Service) error {
	for _, slice := range s.Slices() {
		m.server.Put(slice)
	}
	return nil
}

func (m *memory) add(ctx context.Context, w *world.World, endpoints int) (world.Service, error) {
	s := w.Add(endpoints)
	m.server.Put(s.Object())
	return s, m.putEndpoints(ctx, s)
}

func (m *memory) remove(_ context.Context, s world.Service) error {
	for _, slice := range s.Slices() {
		m.server.Delete(slice)
	}
	m.server.Delete(s.Object())
	return nil
}

func (m *memory) read() (time.Time, bool) { return m.server.Read() }

func (m *memory) refused() []string { return m.server.Refused() }

func (m *memory) close() error {
	if m.server == nil {
		return nil
	}
	m.server.Close()
	m.stop()
	return nil
}
