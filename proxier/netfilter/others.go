package netfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Others is the door to what kube-proxy's other modes left on this host. The chains of
// its iptables mode go with Rules.Ensure, in one step with the jumps to ours.
type Others struct{ rules *Rules }

// Others is that door, with the programs of r.
func (r *Rules) Others() Others { return Others{r} }

// Serving reports whether chains of kube-proxy's iptables mode translate requests here.
// It reads once a family (one process).
func (o Others) Serving(ctx context.Context) (bool, error) {
	for _, f := range o.rules.families {
		l, err := f.programs.list(ctx)
		f.listed = nil
		if err != nil {
			return false, err
		}
		if iptablesModeServes(l) {
			return true, nil
		}
		f.listed, f.listedAt = l, time.Now()
	}
	return false, nil
}

// iptablesModeServes tells whether requests are led to chains that kube-proxy's iptables
// mode makes for each Service.
func iptablesModeServes(l listing) bool {
	return slices.ContainsFunc(l.table(tableNAT).chains[chainServices], func(rule string) bool {
		to := target(rule)
		return slices.ContainsFunc(leftoverPrefixes, func(prefix string) bool { return strings.HasPrefix(to, prefix) })
	})
}

// Came reports whether kube-proxy, in mode iptables or nftables, has brought its rules
// here: in each family it writes all of them at once. It reads once a family (one process).
func (o Others) Came(ctx context.Context) (bool, error) {
	tables := OtherTables()
	for _, f := range o.rules.families {
		if slices.Contains(tables, map[bool]string{false: "ip ", true: "ip6 "}[f.want.IPv6]+otherTable) {
			continue
		}
		l, err := f.programs.list(ctx)
		if err != nil || !iptablesModeWrote(l) {
			return false, err
		}
	}
	return true, nil
}

// iptablesModeWrote tells whether the chain that both have is the iptables mode's now:
// its last rule always leads to NodePorts.
func iptablesModeWrote(l listing) bool {
	return slices.ContainsFunc(l.table(tableNAT).chains[chainServices], func(rule string) bool {
		return target(rule) == "KUBE-NODEPORTS"
	})
}

// Remove deletes the tables of kube-proxy's nftables mode, each at once and whole. They
// would go on translating requests to endpoints that may have left, ahead of us.
func (Others) Remove(context.Context) (removed bool, err error) {
	var errs []error
	for _, table := range OtherTables() {
		if err := deleteTable(table); err != nil {
			errs = append(errs, fmt.Errorf("delete nftables table %s: %w", table, err))
		}
		removed = true
	}
	return removed, errors.Join(errs...)
}

// otherTable is the name of kube-proxy's nftables tables.
const otherTable = "kube-proxy"

// Messages and the attribute of nf_tables (include/uapi/linux/netfilter/nf_tables.h).
const (
	nftGetTable    = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETTABLE
	nftDeleteTable = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELTABLE
	nftTableName   = unix.NFTA_TABLE_NAME
)

// tableFamilies are the words of nft for the families.
var tableFamilies = map[string]uint8{"ip": unix.NFPROTO_IPV4, "ip6": unix.NFPROTO_IPV6}

// OtherTables are the tables of kube-proxy's nftables mode that are here, such as
// "ip kube-proxy"; none where the kernel has no nf_tables or we may not ask.
func OtherTables() []string {
	var tables []string
	for name, family := range tableFamilies {
		request := nl.NewNetlinkRequest(nftGetTable, unix.NLM_F_DUMP)
		request.AddRawData([]byte{family, 0, 0, 0})
		replies, err := request.Execute(unix.NETLINK_NETFILTER, 0)
		if err != nil {
			continue
		}
		for _, reply := range replies {
			attrs, err := nl.ParseRouteAttr(reply[min(headerLength, len(reply)):])
			if err != nil {
				continue
			}
			for _, a := range attrs {
				if a.Attr.Type == nftTableName && nl.BytesToString(a.Value) == otherTable {
					tables = append(tables, name+" "+otherTable)
				}
			}
		}
	}
	slices.Sort(tables)
	return tables
}

// deleteTable deletes a table of OtherTables with all that is in it. A missing one is no
// error.
func deleteTable(table string) error {
	family, name, _ := strings.Cut(table, " ")
	s, err := nl.Subscribe(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.SetReceiveTimeout(&unix.Timeval{Sec: tableWait}); err != nil {
		return err
	}
	if err := unix.Sendto(s.GetFd(), deletion(tableFamilies[family], name), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	messages, _, err := s.Receive()
	if err != nil {
		return err
	}
	for _, m := range messages {
		if m.Header.Type != unix.NLMSG_ERROR || len(m.Data) < 4 {
			continue
		}
		if code := syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data))); code != 0 && code != syscall.ENOENT {
			return code
		}
		return nil
	}
	return errors.New("the kernel gave no answer")
}

// tableWait is how many seconds the kernel may take to answer.
const tableWait = 10

// deletion is a transaction of one step; the kernel acknowledges that step when all is
// done.
func deletion(family uint8, name string) []byte {
	var b []byte
	message := func(kind, flags uint16, head []byte, attrs ...nl.NetlinkRequestData) {
		r := nl.NetlinkRequest{NlMsghdr: unix.NlMsghdr{
			Len: unix.SizeofNlMsghdr, Type: kind, Flags: unix.NLM_F_REQUEST | flags, Seq: 1,
		}}
		r.AddRawData(head)
		for _, a := range attrs {
			r.RawData = append(r.RawData, a.Serialize()...)
		}
		b = append(b, r.Serialize()...)
	}
	ofNFTables := []byte{unix.AF_UNSPEC, 0, 0, unix.NFNL_SUBSYS_NFTABLES} // the last two in the network's order
	message(unix.NFNL_MSG_BATCH_BEGIN, 0, ofNFTables)
	message(nftDeleteTable, unix.NLM_F_ACK, []byte{family, 0, 0, 0}, nl.NewRtAttr(nftTableName, nl.ZeroTerminated(name)))
	message(unix.NFNL_MSG_BATCH_END, 0, ofNFTables)
	return b
}
