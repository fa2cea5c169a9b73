package health

import "sync"

// changes counts the changes of Services and endpoints, and those of them that no
// complete round has brought to the kernel.
type changes struct {
	mu                  sync.Mutex
	services, endpoints changeCount
}

type changeCount struct {
	total, done int
	// covered is the total at the begin of the round that runs or ran last.
	covered int
}

func (c *changeCount) pending() float64 { return float64(c.total - c.done) }

func (c *changes) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.services.covered, c.endpoints.covered = c.services.total, c.endpoints.total
}

func (c *changes) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.services.done, c.endpoints.done = c.services.covered, c.endpoints.covered
}

// read returns a function that reads something of one of the counts.
func (c *changes) read(of *changeCount, what func(*changeCount) float64) func() float64 {
	return func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return what(of)
	}
}

// ServicesChanged counts n changes of Services that were noticed. Call it before
// the loop is woken.
func (m *Monitor) ServicesChanged(n int) {
	m.changes.mu.Lock()
	defer m.changes.mu.Unlock()
	m.changes.services.total += n
}

// EndpointsChanged counts n changes of EndpointSlices, like ServicesChanged.
func (m *Monitor) EndpointsChanged(n int) {
	m.changes.mu.Lock()
	defer m.changes.mu.Unlock()
	m.changes.endpoints.total += n
}
