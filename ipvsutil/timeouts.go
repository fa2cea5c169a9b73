package ipvsutil

// Timeouts are IPVS's own idle limits of connections, in seconds, for the whole
// network namespace. Conntrack's limits are others; of the two the shorter ends a
// connection.
type Timeouts struct {
	TCP    uint32 // established
	TCPFin uint32 // after a FIN
	UDP    uint32 // since the last packet
}
