package judge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"kube-ipvs-proxy/e2e/cluster"
	"kube-ipvs-proxy/proxier/watch"
)

// key names an object of the API.
type key struct{ kind, namespace, name string }

// mirror keeps the objects of the API equal to those of a folder of manifests.
type mirror struct {
	api  cluster.Objects
	dir  string
	stop context.CancelFunc
	done chan struct{} // closed when follow has ended

	mu       sync.Mutex
	revision string // of the folder, when the API was last made equal
	objects  map[key]runtime.Object
	canary   canary // of that revision
}

// newMirror makes the API equal to the folder for the first time, and from then on
// until close.
func newMirror(ctx context.Context, api cluster.Objects, dir string) (*mirror, error) {
	m := &mirror{api: api, dir: dir, done: make(chan struct{}), objects: map[key]runtime.Object{}}
	if _, err := m.sync(ctx); err != nil {
		return nil, err
	}
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	go m.follow(ctx)
	return m, nil
}

// followPeriod is how often the folder is looked at while nobody waits: tests also
// change manifests without waiting for it.
const followPeriod = 100 * time.Millisecond

// follow looks after the folder until close. What the API refuses is told to those
// who wait for that revision; here it only has to be tried again.
func (m *mirror) follow(ctx context.Context) {
	defer close(m.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(followPeriod):
			_, _ = m.sync(ctx)
		}
	}
}

// close also takes the objects out of the API: another lab may ask the same one.
func (m *mirror) close(ctx context.Context) error {
	m.stop()
	<-m.done
	return m.api.Delete(ctx, slices.AppendSeq(m.canary.objects(), maps.Values(m.objects))...)
}

// state is a revision of the folder and the canary that came after it.
type state struct {
	revision string
	canary   canary
}

// sync makes the API equal to the folder as it is now.
func (m *mirror) sync(ctx context.Context) (state, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	revision, err := watch.FolderRevision(m.dir)
	if err != nil {
		return state{}, err
	}
	if revision != m.revision {
		if err := m.bring(ctx, revision); err != nil {
			return state{}, err
		}
	}
	return state{m.revision, m.canary}, nil
}

// bring makes the API equal to the folder, then sends a canary.
func (m *mirror) bring(ctx context.Context, revision string) error {
	now, err := readFolder(m.dir)
	if err != nil {
		return err
	}
	var changed, gone []runtime.Object
	for k, o := range now {
		if !reflect.DeepEqual(m.objects[k], o) {
			changed = append(changed, o)
		}
	}
	nodes := false
	for k, o := range m.objects {
		if now[k] == nil {
			gone = append(gone, o)
		}
	}
	for _, o := range append(changed, gone...) {
		_, isNode := o.(*corev1.Node)
		nodes = nodes || isNode
	}
	// What goes makes room for addresses and ports of what comes.
	if err := m.api.Delete(ctx, gone...); err != nil {
		return err
	}
	if err := m.api.Apply(ctx, changed...); err != nil {
		return err
	}
	if nodes {
		time.Sleep(nodePause)
	}
	next, err := m.canary.fly(ctx, m.api)
	if err != nil {
		return err
	}
	m.objects, m.canary = now, next
	if after, err := watch.FolderRevision(m.dir); err != nil || after != revision {
		return err // the files changed while we read them: the next look begins anew
	}
	m.revision = revision
	return nil
}

// nodePause is how long a change of a Node has to arrive: no canary tells.
const nodePause = time.Second

// readFolder reads all objects of a folder, each by itself.
func readFolder(dir string) (map[key]runtime.Object, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	objects := map[key]runtime.Object{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed just now
		}
		if err == nil {
			err = readObjects(text, objects)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return objects, nil
}

// readObjects adds the objects of a manifest of several documents.
func readObjects(text []byte, objects map[key]runtime.Object) error {
	documents := yaml.NewYAMLToJSONDecoder(bytes.NewReader(text))
	for {
		var raw runtime.RawExtension
		err := documents.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(raw.Raw) == 0 || string(raw.Raw) == "null" {
			continue
		}
		k, o, err := readObject(raw.Raw)
		if err != nil {
			return err
		}
		objects[k] = o
	}
}

func readObject(text []byte) (key, runtime.Object, error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return key{}, nil, err
	}
	var o interface {
		runtime.Object
		metav1.Object
	}
	switch kind.Kind {
	case "Service":
		o = &corev1.Service{}
	case "EndpointSlice":
		o = &discoveryv1.EndpointSlice{}
	case "Node":
		o = &corev1.Node{}
	default:
		return key{}, nil, fmt.Errorf("kind %q is none of the proxy's", kind.Kind)
	}
	if err := yaml.UnmarshalStrict(text, o); err != nil {
		return key{}, nil, err
	}
	return key{kind.Kind, o.GetNamespace(), o.GetName()}, o, nil
}
