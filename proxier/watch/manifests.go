package watch

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"kube-ipvs-proxy/proxier/plan"
)

// Manifests is a source that reads Services, EndpointSlices and Nodes from the YAML
// and JSON files of a folder and follows their changes. It may be used from several
// goroutines. The values it returns are shared and must not be changed.
type Manifests struct {
	onProblem func(Problem)
	changed   chan struct{}
	done      chan struct{}

	mu       sync.Mutex
	index    *index
	revision string
	synced   bool
	// listedWhole: the last listing of the folder was without a fault; partial are
	// the files with documents that were never read.
	listedWhole bool
	partial     int
	count       counters
}

// NewManifests reads dir and follows it until ctx ends. It returns at once; the
// first read is done when Synced says so. nodeName is the name of this node, in any
// case and with blanks around it. onProblem is called once for each problem that
// appears, from one goroutine and not under a lock; it may be nil. A dir that is no
// readable folder now is an error; one that vanishes later is a problem, and all
// that was read from it stays.
func NewManifests(ctx context.Context, dir, nodeName string, onProblem func(Problem)) (*Manifests, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("manifest folder: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("manifest folder: %s is not a folder", dir)
	}
	if _, err := os.ReadDir(dir); err != nil {
		return nil, fmt.Errorf("manifest folder: %w", err)
	}
	if onProblem == nil {
		onProblem = func(Problem) {}
	}
	m := &Manifests{
		onProblem: onProblem,
		changed:   make(chan struct{}, 1),
		done:      make(chan struct{}),
		index:     newIndex(nodeKey(nodeName)),
	}
	go m.follow(ctx, newReader(dir))
	return m, nil
}

// Changed receives when Drain has something new to say.
func (m *Manifests) Changed() <-chan struct{} { return m.changed }

// Synced reports whether the folder was read once to its end. Before that nothing
// may be concluded from what is missing.
func (m *Manifests) Synced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced
}

// Complete reports whether every file was read without a fault at least once. While
// it is false an object may be missing of which no good state was ever seen: what
// the kernel holds from an earlier process may still be wanted.
func (m *Manifests) Complete() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listedWhole && m.partial == 0
}

// Drain returns what changed since the last call. It is empty before the first read
// is done.
func (m *Manifests) Drain() Dirty {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.synced {
		return Dirty{}
	}
	d := Dirty{Services: slices.SortedFunc(maps.Keys(m.index.dirty), compareNames), All: m.index.all, Revision: m.revision}
	clear(m.index.dirty)
	m.index.all = false
	return d
}

// Service returns the present state of a Service: nil when there is none or when it
// is not for this proxy, and the endpoints of its slices all the same, sorted by
// port name, protocol and address.
func (m *Manifests) Service(name plan.ServiceName) (*plan.Service, []plan.Endpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.service(name)
}

// Names returns all Services of which there is an object or a slice, sorted.
func (m *Manifests) Names() []plan.ServiceName {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Keys(m.index.entries), compareNames)
}

// Node returns what is known of this node. Without a Node object it is false, and
// only the name is set.
func (m *Manifests) Node() (NodeInfo, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.index.node == nil {
		return NodeInfo{Name: m.index.nodeName}, false
	}
	return *m.index.node, true
}

// Problems returns the present problems, sorted by file and place.
func (m *Manifests) Problems() []Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.problemList()
}

// take makes an update of the reader the present state and tells whom it concerns.
func (m *Manifests) take(u update, r *reader) {
	m.mu.Lock()
	m.index.replace(u.files)
	if u.listed {
		m.index.report("", u.folder)
		m.listedWhole = u.whole
	}
	m.partial = r.partial
	// The folder vanished before it was read once: that is no first read.
	first := !m.synced && u.files != nil
	if first {
		m.synced, m.index.all = true, true
	}
	revision := r.sum.String()
	news := first || m.revision != revision || len(m.index.dirty) > 0 || m.index.all
	m.revision = revision
	m.count = r.count
	fresh := m.index.fresh
	m.index.fresh = nil
	m.mu.Unlock()

	for _, p := range fresh {
		m.onProblem(p)
	}
	if news && u.files != nil {
		select {
		case m.changed <- struct{}{}:
		default:
		}
	}
}

// compareNames orders Services by namespace and name.
func compareNames(a, b plan.ServiceName) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}
