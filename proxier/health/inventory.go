package health

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Inventory is how much there is after a round.
type Inventory struct {
	// Services that claim something.
	Services int
	// VirtualServers, RealServers, BoundAddresses and CapturedAddresses are those of
	// IPv4 and IPv6.
	VirtualServers, RealServers       [2]int
	BoundAddresses, CapturedAddresses [2]int
	// SetMembers counts the members of each of our sets.
	SetMembers map[string]int
	// SetSizes are the most members that each of them that is a hash can hold now.
	SetSizes map[string]uint32
	// NoLocalInternal and NoLocalExternal count, for IPv4 and IPv6, the ports of
	// Services whose internal or external traffic policy is Local and that have
	// endpoints, but none on this node.
	NoLocalInternal, NoLocalExternal [2]int
}

// SetInventory says how much there is now.
func (m *Monitor) SetInventory(i Inventory) {
	i.SetMembers, i.SetSizes = maps.Clone(i.SetMembers), maps.Clone(i.SetSizes)
	m.inventory.mu.Lock()
	defer m.inventory.mu.Unlock()
	m.inventory.now = i
}

// inventoryCollector shows one Inventory as a whole: a set that is gone leaves no
// metric behind.
type inventoryCollector struct {
	families []Family

	services, virtual, real, bound, captured, members, sizes, noLocal *prometheus.Desc

	mu  sync.Mutex
	now Inventory
}

func newInventoryCollector(families []Family) *inventoryCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &inventoryCollector{
		families: families,
		services: desc(ownPrefix+"services", "Services that are served."),
		virtual:  desc(ownPrefix+"virtual_servers", "Virtual servers that are desired.", labelFamily),
		real:     desc(ownPrefix+"real_servers", "Real servers that are desired.", labelFamily),
		bound:    desc(ownPrefix+"bound_addresses", "Addresses that are bound to the device.", labelFamily),
		captured: desc(ownPrefix+"captured_addresses", "Addresses that are captured port by port.", labelFamily),
		members:  desc(ownPrefix+"set_members", "Members that an ipset should have.", "set"),
		sizes:    desc(ownPrefix+"set_max_members", "Members that an ipset can hold; it is made bigger before it is full.", "set"),
		noLocal: desc("kubeproxy_sync_proxy_rules_no_local_endpoints_total",
			"Ports with traffic policy Local that have endpoints, but none on this node.",
			"traffic_policy", labelFamily),
	}
}

// Describe is part of prometheus.Collector.
func (c *inventoryCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.services, c.virtual, c.real, c.bound, c.captured, c.members, c.sizes, c.noLocal} {
		to <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *inventoryCollector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	now := c.now
	c.mu.Unlock()
	tell := func(d *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	tell(c.services, now.Services)
	for _, f := range c.families {
		family := f.String()
		tell(c.virtual, now.VirtualServers[f], family)
		tell(c.real, now.RealServers[f], family)
		tell(c.bound, now.BoundAddresses[f], family)
		tell(c.captured, now.CapturedAddresses[f], family)
		tell(c.noLocal, now.NoLocalInternal[f], "internal", family)
		tell(c.noLocal, now.NoLocalExternal[f], "external", family)
	}
	for set, count := range now.SetMembers {
		tell(c.members, count, set)
	}
	for set, size := range now.SetSizes {
		tell(c.sizes, int(size), set)
	}
}
