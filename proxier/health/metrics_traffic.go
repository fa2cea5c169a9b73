package health

import "github.com/prometheus/client_golang/prometheus"

// Traffic is what the virtual servers of one Service have carried since they were made.
// Numbers only grow. Without a name it is the sum of all Services that have no Traffic of their own.
type Traffic struct {
	Namespace, Name                          string
	Connections                              uint64
	PacketsIn, PacketsOut, BytesIn, BytesOut uint64
}

// ShowTraffic adds metrics of Services' traffic. Read is called whenever somebody asks
// for the metrics; how many Services it returns is the caller's to bound. Call it once,
// before the metrics are served.
func (m *Monitor) ShowTraffic(read func() []Traffic) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(ownPrefix+name, help, append([]string{"namespace", "service"}, labels...), nil)
	}
	m.registry.MustRegister(trafficCollector{
		read:        read,
		connections: desc("service_connections_total", "Connections to the Service; without a name: to all others."),
		packets:     desc("service_packets_total", "Packets to the endpoints of the Service (in) and from them (out).", "direction"),
		bytes:       desc("service_bytes_total", "Bytes to the endpoints of the Service (in) and from them (out).", "direction"),
	})
}

type trafficCollector struct {
	read                        func() []Traffic
	connections, packets, bytes *prometheus.Desc
}

// Describe is part of prometheus.Collector.
func (c trafficCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.connections, c.packets, c.bytes} {
		to <- d
	}
}

// Collect is part of prometheus.Collector.
func (c trafficCollector) Collect(to chan<- prometheus.Metric) {
	for _, t := range c.read() {
		tell := func(d *prometheus.Desc, value uint64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), append([]string{t.Namespace, t.Name}, labels...)...)
		}
		tell(c.connections, t.Connections)
		tell(c.packets, t.PacketsIn, "in")
		tell(c.packets, t.PacketsOut, "out")
		tell(c.bytes, t.BytesIn, "in")
		tell(c.bytes, t.BytesOut, "out")
	}
}
