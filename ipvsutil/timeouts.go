package ipvsutil

// Timeouts are IPVS's own idle limits of connections, in seconds, for the whole
// network namespace. Conntrack's limits are others; of the two the shorter ends a
// connection.
type Timeouts struct {
	TCP    uint32 // established
	TCPFin uint32 // after a FIN
	UDP    uint32 // since the last packet
}

// MaxTimeout is the most that a limit may be. What the kernel's clock can count
// depends on its ticks a second; at a thousand, the most that is built, it is this.
const MaxTimeout = 1<<31/1000 - 1
