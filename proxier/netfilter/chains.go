package netfilter

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil/netlink"
)

// Requests of nf_tables (include/uapi/linux/netfilter/nf_tables.h).
const (
	nftGetChain = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETCHAIN
	nftGetRule  = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETRULE
)

// tries bounds how often what others change meanwhile is read.
const tries = 5

// nftChains lists the chains of a family that nf_tables has. Only of nat's chain of
// Services it is asked whether there are rules.
func nftChains(ctx context.Context, ipv6 bool) (found chains, err error) {
	socket, err := netlink.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	defer func() { _ = socket.Close() }()
	for range tries {
		if found, err = listChains(ctx, socket, ipv6); !errors.Is(err, netlink.ErrInterrupted) {
			break
		}
	}
	return found, err
}

func listChains(ctx context.Context, socket *netlink.Socket, ipv6 bool) (chains, error) {
	found := chains{}
	err := socket.Dump(ctx, netlink.Request{Type: nftGetChain, Body: header(ipv6)}, func(body []byte) error {
		table, name := "", ""
		for a, err := range netlink.Parse(body[min(headerLength, len(body)):]) {
			switch {
			case err != nil:
				return err
			case a.Type == unix.NFTA_CHAIN_TABLE:
				table = a.String()
			case a.Type == unix.NFTA_CHAIN_NAME:
				name = a.String()
			}
		}
		found[table+" "+name] = false
		return nil
	})
	services := tableNAT + " " + chainServices
	if _, there := found[services]; err != nil || !there {
		return found, err
	}
	rules := header(ipv6)
	rules.String(unix.NFTA_RULE_TABLE, tableNAT)
	rules.String(unix.NFTA_RULE_CHAIN, chainServices)
	err = socket.Dump(ctx, netlink.Request{Type: nftGetRule, Body: rules}, func([]byte) error {
		found[services] = true
		return nil
	})
	return found, err
}

// legacyChains lists the chains of a family in mangle and nat of the legacy back end.
func legacyChains(_ context.Context, ipv6 bool) (chains, error) {
	family := openLegacy(ipv6)
	if family == nil {
		return nil, nil
	}
	defer func() { _ = family.close() }()
	tables, err := family.tables()
	if err != nil {
		return nil, err
	}
	found := chains{}
	for _, table := range tables {
		text, err := family.entries(table)
		if err != nil {
			return nil, err
		}
		if err := found.addEntries(table, text, family.level == unix.SOL_IPV6); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// getEntries is IPT_SO_GET_ENTRIES and IP6T_SO_GET_ENTRIES: the answer begins with the
// table's name and the size of the entries, which follow at entriesAt.
const (
	getEntries = 65
	sizeAt     = 32
	entriesAt  = 40
)

// entries reads a table as the kernel keeps it.
func (f *legacyFamily) entries(table string) ([]byte, error) {
	for range tries {
		info, err := f.info(table)
		if err != nil {
			return nil, err
		}
		answer := make([]byte, entriesAt+int(info.Size))
		copy(answer, info.Name[:])
		binary.NativeEndian.PutUint32(answer[sizeAt:], info.Size)
		switch err := f.ask(getEntries, unsafe.Pointer(&answer[0]), len(answer)); {
		case err == nil:
			return answer[entriesAt:], nil
		case !errors.Is(err, unix.EAGAIN): // another size by now
			return nil, err
		}
	}
	return nil, unix.EAGAIN
}

// A chain of somebody's begins with an entry whose target bears this name and has the
// chain's name as its data, and ends with an entry of its own; the last entry of a table
// looks like the beginning of another one (include/uapi/linux/netfilter/x_tables.h).
const (
	targetOfHead = "ERROR"
	targetNameAt = 2
	targetDataAt = 32
)

var errEntries = errors.New("legacy table: entries make no sense")

// addEntries adds the chains of a table that somebody made.
func (c chains) addEntries(table string, text []byte, ipv6 bool) error {
	offsetsAt := 88 // of struct ipt_entry's target_offset and next_offset
	if ipv6 {
		offsetsAt = 140
	}
	chain, entries := "", 0
	for len(text) > 0 {
		if len(text) < offsetsAt+4 {
			return errEntries
		}
		to := int(binary.NativeEndian.Uint16(text[offsetsAt:]))
		next := int(binary.NativeEndian.Uint16(text[offsetsAt+2:]))
		if next > len(text) || to+targetDataAt > next || to < offsetsAt {
			return errEntries
		}
		target := text[to:next]
		if cString(target[targetNameAt:targetDataAt]) == targetOfHead {
			chain, entries = table+" "+cString(target[targetDataAt:]), 0
		}
		if chain != "" {
			c[chain] = entries > 1 // the first is the head, the last the end
			entries++
		}
		text = text[next:]
	}
	return nil
}

func cString(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}
