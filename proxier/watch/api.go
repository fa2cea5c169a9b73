package watch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kube-ipvs-proxy/proxier/plan"
)

// APIConfig is what the source of the API server needs.
type APIConfig struct {
	Client *Client
	// NodeWait is how long the first read waits for a Node with an address; zero means
	// 30 s, as in kube-proxy, and a negative value not at all.
	NodeWait time.Duration
	// Recovered is called when a resource that could not be read is read again; it may
	// be nil.
	Recovered func(resource string)
}

// API is a source that reads Services, EndpointSlices and this Node from the API
// server and follows their changes. An outage of any length changes nothing. It may
// be used from several goroutines. The values it returns are shared and must not be
// changed.
type API struct {
	changed  chan struct{}
	stores   []*store // by kind
	nodeName string
	started  time.Time

	// telling makes calls of onProblem one after the other.
	telling   sync.Mutex
	onProblem func(Problem)

	mu    sync.Mutex
	index *index
	// nodeWaited: the first read does not wait for the Node any longer.
	synced, nodeWaited bool
	triggers           []Trigger
}

// NewAPI follows the API server until ctx ends. It returns at once; the first read is
// done when Synced says so. nodeName is the name of this node, in any case and with
// blanks around it. onProblem is called once for each problem that appears, one call
// at a time and not under a lock; it may be nil.
func NewAPI(ctx context.Context, c APIConfig, nodeName string, onProblem func(Problem)) (*API, error) {
	times := defaultTimes()
	if c.Client != nil && !c.Client.pings {
		times.silence = silencePlain
	}
	if c.NodeWait != 0 {
		times.node = max(0, c.NodeWait)
	}
	return newAPI(ctx, c, times, nodeName, onProblem)
}

func newAPI(ctx context.Context, c APIConfig, times apiTimes, nodeName string, onProblem func(Problem)) (*API, error) {
	if c.Client == nil {
		return nil, errors.New("source of the API server: no client")
	}
	if c.Recovered == nil {
		c.Recovered = func(string) {}
	}
	if onProblem == nil {
		onProblem = func(Problem) {}
	}
	name := nodeKey(nodeName)
	a := &API{changed: make(chan struct{}, 1), nodeName: name, started: time.Now(), onProblem: onProblem, index: newIndex(name)}
	a.index.unread = true
	a.add(kindService, &feed{client: c.Client.core, resource: "services", item: &corev1.Service{}, list: &corev1.ServiceList{},
		label: "!" + labelProxyName, field: "spec.clusterIP!=" + corev1.ClusterIPNone})
	a.add(kindSlice, &feed{client: c.Client.discovery, resource: "endpointslices", item: &discoveryv1.EndpointSlice{},
		list: &discoveryv1.EndpointSliceList{}, label: "!" + labelHeadless})
	a.add(kindNode, &feed{client: c.Client.core, resource: "nodes", item: &corev1.Node{}, list: &corev1.NodeList{},
		field: "metadata.name=" + name})
	// A feed tells what goes wrong; the reflector's own lines would say it again.
	ctx = klog.NewContext(ctx, logr.Discard())
	for _, s := range a.stores {
		s.feed.servers, s.feed.times, s.feed.problem, s.feed.recovered = c.Client.servers, times, a.tell, c.Recovered
		go a.reflect(ctx, s)
	}
	go a.waitNode(ctx, times.node)
	return a, nil
}

// add makes the store of one kind.
func (a *API) add(k kind, f *feed) {
	a.stores = append(a.stores, &store{api: a, kind: k, feed: f, objects: make(map[objectKey]*object)})
}

// reflect reads one resource until ctx ends.
func (a *API) reflect(ctx context.Context, s *store) {
	logger := logr.Discard()
	requests := &cache.ListWatch{ListWithContextFunc: s.feed.listOnce, WatchFuncWithContext: s.feed.open}
	r := cache.NewReflectorWithOptions(requests, nil, s, cache.ReflectorOptions{
		Name: s.feed.resource, TypeDescription: s.kind.String(), Logger: &logger,
		Backoff: &wait.Backoff{Duration: s.feed.times.retry, Cap: s.feed.times.maxRetry, Factor: 2, Jitter: 0.5, Steps: 20},
	})
	r.RunWithContext(ctx)
}

// waitNode ends the wait for the Node.
func (a *API) waitNode(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
		a.change(func() { a.nodeWaited = true })
	}
}

// change changes the index under the lock, and tells whom it concerns.
func (a *API) change(do func()) {
	a.mu.Lock()
	do()
	if !a.synced && a.stores[kindService].listed && a.stores[kindSlice].listed &&
		(a.nodeWaited || a.index.node != nil && len(a.index.node.IPs) > 0) {
		a.synced, a.index.all, a.index.unread = true, true, false
	}
	news := a.synced && (len(a.index.dirty) > 0 || a.index.all)
	fresh := a.index.fresh
	a.index.fresh = nil
	a.mu.Unlock()
	for _, p := range fresh {
		a.tell(p)
	}
	if news {
		select {
		case a.changed <- struct{}{}:
		default:
		}
	}
}

// take has the index take in that the object of a key is another one. A Node that is
// gone stays as it was: it is deleted by mistake, or to be made anew.
func (a *API) take(key objectKey, old, now *object) {
	if key.kind == kindNode {
		if now != nil {
			a.index.change(key, &object{node: a.lastNode()}, now)
			a.index.report(key.String(), now.problems)
		}
		return
	}
	a.index.change(key, old, now)
	var problems []Problem
	if now != nil {
		problems = now.problems
	}
	if len(problems) > 0 || old != nil && len(old.problems) > 0 {
		a.index.report(key.String(), problems)
	}
}

// missNode reports that the Node is not there.
func (a *API) missNode() {
	p := Problem{Object: objectKey{kind: kindNode, name: a.nodeName}.String(), Reason: "does not exist; waiting for it"}
	if a.index.node != nil {
		p.Reason = "was deleted; its last state is used until it comes back"
	}
	a.index.report(p.Object, []Problem{p})
}

// lastNode is what was last known of the Node.
func (a *API) lastNode() NodeInfo {
	if a.index.node == nil {
		return NodeInfo{}
	}
	return *a.index.node
}

// tell reports a problem.
func (a *API) tell(p Problem) {
	a.telling.Lock()
	defer a.telling.Unlock()
	a.onProblem(p)
}

// Changed receives when Drain has something new to say.
func (a *API) Changed() <-chan struct{} { return a.changed }

// Synced reports whether all Services and EndpointSlices were read once, and this
// Node too unless it took too long. Before that nothing may be concluded from what is
// missing.
func (a *API) Synced() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.synced
}

// Drain returns what changed since the last call. It is empty before Synced.
func (a *API) Drain() Dirty {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.synced {
		return Dirty{}
	}
	d := Dirty{Services: slices.SortedFunc(maps.Keys(a.index.dirty), compareNames), All: a.index.all, Triggers: a.triggers}
	clear(a.index.dirty)
	a.index.all, a.triggers = false, nil
	return d
}

// Service returns the present state of a Service: nil when there is none or when it
// is not for this proxy, and the endpoints of its slices all the same, sorted by
// port name, protocol and address.
func (a *API) Service(name plan.ServiceName) (*plan.Service, []plan.Endpoint) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.index.service(name)
}

// Names returns all Services of which there is an object or a slice, sorted.
func (a *API) Names() []plan.ServiceName {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Keys(a.index.entries), compareNames)
}

// UID returns the UID of a Service, empty when there is none.
func (a *API) UID(name plan.ServiceName) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.stores[kindService].objects[objectKey{kindService, name.Namespace, name.Name}]; o != nil {
		return o.uid
	}
	return ""
}

// Node returns what was last known of this node. As long as no Node was seen it is
// false, and only the name is set.
func (a *API) Node() (NodeInfo, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.index.node == nil {
		return NodeInfo{Name: a.nodeName}, false
	}
	return *a.index.node, true
}

// Problems returns the present problems: those of objects, and of resources that
// cannot be read.
func (a *API) Problems() []Problem {
	a.mu.Lock()
	out := a.index.problemList()
	a.mu.Unlock()
	for _, s := range a.stores {
		if state := s.feed.present(); state.Problem != "" {
			out = append(out, Problem{Object: s.feed.object(), Reason: state.Problem})
		}
	}
	slices.SortFunc(out, Problem.compare)
	return out
}

// States returns how the reading of each resource goes.
func (a *API) States() []ResourceState {
	var out []ResourceState
	for _, s := range a.stores {
		out = append(out, s.feed.present())
	}
	return out
}
