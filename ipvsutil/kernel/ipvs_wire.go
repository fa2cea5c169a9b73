package kernel

// Numbers of IPVS's generic netlink family (include/uapi/linux/ip_vs.h).
const (
	ipvsFamily  = "IPVS"
	ipvsVersion = 1
)

// Commands.
const (
	cmdNewService = iota + 1
	cmdSetService
	cmdDelService
	cmdGetService
	cmdNewDest
	cmdSetDest
	cmdDelDest
	cmdGetDest
	_ // the sync daemon's three
	_
	_
	cmdSetConfig
	cmdGetConfig
	_ // only in the reply to the next
	cmdGetInfo
)

// Attributes of a command.
const (
	attrService = iota + 1
	attrDest
	_
	attrTimeoutTCP
	attrTimeoutTCPFin
	attrTimeoutUDP
)

// Attributes of a virtual server.
const (
	svcFamily = iota + 1
	svcProtocol
	svcAddr
	svcPort
	svcMark
	svcScheduler
	svcFlags
	svcTimeout
	svcNetmask
	_ // 32-bit statistics
	svcEngine
)

// Attributes of a real server.
const (
	destAddr = iota + 1
	destPort
	destForwarding
	destWeight
	destUpper
	destLower
	destActive
	destInactive
	destPersistent
	_ // 32-bit statistics
	destFamily
)

// infoVersion is the attribute of the answer to cmdGetInfo that counts.
const infoVersion = 1

const (
	flagPersistent = 0x1
	flagHashed     = 0x2 // the kernel's note that the server is in its table

	forwardingMask       = 0x7
	forwardingMasquerade = 0

	// addrSize is the size of union nf_inet_addr; IPv4 has the first four bytes.
	addrSize = 16
)
