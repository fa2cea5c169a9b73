package health

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ServiceName is the namespace and name of a Service.
type ServiceName struct {
	Namespace, Name string
}

// String returns "namespace/name".
func (n ServiceName) String() string { return n.Namespace + "/" + n.Name }

// Check is the health check of one Service for load balancers
// (spec.healthCheckNodePort).
type Check struct {
	// Port zero means that the Service has none.
	Port uint16
	// LocalReady counts the distinct ready endpoint addresses on this node, for IPv4
	// and IPv6. Endpoints that end do not count, though they still get traffic.
	LocalReady [2]int
}

// Checks answers the health checks of Services: one HTTP server for each Service
// and address, which says 200 when the Service has ready endpoints on this node and
// the proxy is healthy, else 503. Whether the node is eligible plays no part: that
// is a question for /healthz.
//
// Its methods change values and return at once; Run opens and closes what they ask for.
type Checks struct {
	healthy func() bool
	failed  func(ServiceName, error)
	changed chan struct{}
	// retry is the time between two tries to listen.
	retry time.Duration

	mu     sync.Mutex
	checks map[ServiceName]Check
	addrs  []netip.Addr
}

// NewChecks returns Checks without a Service or address. Healthy tells how the
// proxy is; failed is told, once for each Service, port and address, that a port
// cannot be served (it is tried again until it can).
func NewChecks(healthy func() bool, failed func(ServiceName, error)) *Checks {
	return &Checks{
		healthy: healthy, failed: failed, changed: make(chan struct{}, 1), retry: listenRetry,
		checks: map[ServiceName]Check{},
	}
}

// Update says what the checks of all Services are. A Service that is not among them
// is no longer checked. To say the same again costs a comparison.
func (c *Checks) Update(checks map[ServiceName]Check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reopen := len(checks) != len(c.checks)
	for name, check := range checks {
		known, ok := c.checks[name]
		reopen = reopen || !ok || known.Port != check.Port
	}
	c.checks = maps.Clone(checks)
	if reopen {
		c.poke()
	}
}

// Set says what the check of one Service is; port zero: it has none.
func (c *Checks) Set(name ServiceName, check Check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.checks[name]
	if check.Port == 0 {
		delete(c.checks, name)
	} else {
		c.checks[name] = check
	}
	if known.Port != check.Port {
		c.poke()
	}
}

// SetAddresses says at which addresses of this node health checks are served. An
// unspecified address (0.0.0.0, ::) stands for all of its family. Pass addresses of
// families that the host has. A link-local IPv6 address without its zone cannot be
// listened at and is left out.
func (c *Checks) SetAddresses(addrs []netip.Addr) {
	usable := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool {
		return !a.IsValid() || a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == ""
	})
	slices.SortFunc(usable, netip.Addr.Compare)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(usable, c.addrs) {
		c.addrs = usable
		c.poke()
	}
}

func (c *Checks) poke() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// check returns the check of a Service; the zero value when it has none.
func (c *Checks) check(name ServiceName) Check {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checks[name]
}

// place is where the check of a Service is served.
type place struct {
	name ServiceName
	port uint16
	addr netip.Addr
}

// places returns all places at which there should be a server.
func (c *Checks) places() map[place]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[place]bool, len(c.checks)*len(c.addrs))
	for name, check := range c.checks {
		if check.Port == 0 {
			continue
		}
		for _, addr := range c.addrs {
			all[place{name, check.Port, addr}] = true
		}
	}
	return all
}

// Run serves until the context ends, and closes all ports then.
func (c *Checks) Run(ctx context.Context) {
	servers := newCheckServers(c)
	defer servers.closeAll()
	for {
		retry := servers.match(ctx, c.places())
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		case <-retry:
		}
	}
}
