package kernel

import (
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil/netlink"
)

// Names and numbers of include/uapi/linux/netfilter/ipset/ip_set.h.

// protocolVersion is the oldest version that kernels take, and every kernel does.
// Version 7 only adds commands that are not used here.
const protocolVersion = 6

// headerSize is the size of struct nfgenmsg, with which each message begins.
const headerSize = 4

// Commands; the message type is the subsystem and the command.
const (
	cmdProtocol = unix.NFNL_SUBSYS_IPSET<<8 | 1
	cmdCreate   = unix.NFNL_SUBSYS_IPSET<<8 | 2
	cmdDestroy  = unix.NFNL_SUBSYS_IPSET<<8 | 3
	cmdSwap     = unix.NFNL_SUBSYS_IPSET<<8 | 6
	cmdList     = unix.NFNL_SUBSYS_IPSET<<8 | 7
	cmdAdd      = unix.NFNL_SUBSYS_IPSET<<8 | 9
	cmdDelete   = unix.NFNL_SUBSYS_IPSET<<8 | 10
	cmdTest     = unix.NFNL_SUBSYS_IPSET<<8 | 11
	cmdType     = unix.NFNL_SUBSYS_IPSET<<8 | 13
)

// Attributes of a command.
const (
	attrProtocol    = 1
	attrSetName     = 2
	attrTypeName    = 3
	attrSetName2    = 3 // of swap
	attrRevision    = 4
	attrFamily      = 5
	attrFlags       = 6
	attrData        = 7
	attrADT         = 8
	attrLine        = 9
	attrRevisionMin = 10
	attrProtocolMin = 10
)

// Attributes within attrData: of an entry and of the parameters of a set.
const (
	dataIP       = 1
	dataIPTo     = 2
	dataCIDR     = 3
	dataPort     = 4
	dataPortTo   = 5
	dataProtocol = 7
	dataFlags    = 8
	dataLine     = 9
	dataMark     = 10
	// Parameters of a set.
	dataTimeout    = 6
	dataMarkMask   = 11
	dataBitmask    = 12
	dataHashSize   = 18
	dataMaxElem    = 19
	dataNetmask    = 20
	dataEntries    = 24
	dataReferences = 25
	// Parts of an entry, in the same range of numbers.
	dataEther   = 17
	dataName    = 18
	dataIP2     = 20
	dataCIDR2   = 21
	dataIP2To   = 22
	dataIface   = 23
	dataSKBMark = 27
)

// Attributes within an address.
const (
	addressIPv4 = 1
	addressIPv6 = 2
)

// Flags of a command (attrFlags).
const (
	flagListNames   = 1 << 1
	flagListHeaders = 1 << 2
)

// Flags of a set or entry (dataFlags).
const (
	flagNoMatch  = 1 << 2
	flagCounters = 1 << 3
	flagComment  = 1 << 4
	flagForceAdd = 1 << 5
	flagSKBInfo  = 1 << 6
)

// ordered marks an attribute as being in network byte order, which ipset requires
// of ports, addresses and parameters.
const ordered = netlink.NetByteOrder

// Error codes beyond the errnos; the last two depend on the set's type.
const (
	codeProtocol     = 4097
	codeFindType     = 4098
	codeMaxSets      = 4099
	codeBusy         = 4100
	codeNoName2      = 4101
	codeTypeMismatch = 4102
	codeExist        = 4103
	codeInvalidCIDR  = 4104
	codeNetmask      = 4105
	codeFamily       = 4106
	codeTimeout      = 4107
	codeReferenced   = 4108
	codeAddressIPv4  = 4109
	codeAddressIPv6  = 4110
	codeCounter      = 4111
	codeComment      = 4112
	codeMarkMask     = 4113
	codeSKBInfo      = 4114
	codeFull         = 4352 // of a hash; of a bitmap: out of range
	codeNullEntry    = 4353 // of a hash
	codeNoProtocol   = 4354 // of a hash
	codeMissingProto = 4355 // of a hash
)
