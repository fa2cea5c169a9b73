package ipvsutil

import "net/netip"

// StaleFlow names the conntrack flows of all clients that reached Real through
// Frontend (their original destination), and must do so no more. Frontend is an
// address server's key. The zero Real means every real server.
type StaleFlow struct {
	Frontend Key
	Real     netip.AddrPort
}
