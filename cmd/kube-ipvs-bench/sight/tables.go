package sight

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil/netlink"
)

// Attributes of nf_tables (include/uapi/linux/netfilter/nf_tables.h).
const (
	attrTable       = 1 // of chains, rules and lists of elements alike
	attrChainName   = 3
	attrRuleChain   = 2
	attrElementsSet = 2
	attrElements    = 3
	attrElementKey  = 1
	attrElementData = 2
	attrValue       = 1 // of a key or of data
	attrGeneration  = 1
)

// tables reads one table of nf_tables, of IPv4's family.
type tables struct {
	table  string
	socket *netlink.Socket
	// generation is that of the last look which did not find what it wanted: as long
	// as it stays, nothing can have changed.
	generation uint32
}

func openTables(table string) (tables, error) {
	socket, err := netlink.Open(unix.NETLINK_NETFILTER)
	return tables{table: table, socket: socket}, err
}

func (t *tables) Close() { _ = t.socket.Close() } // only read from

// request is a request to nf_tables in IPv4's family.
func request(command uint16, fill func(*netlink.Attributes)) netlink.Request {
	body := netlink.Attributes{unix.NFPROTO_IPV4, 0, 0, 0} // struct nfgenmsg
	if fill != nil {
		fill(&body)
	}
	return netlink.Request{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | command, Body: body}
}

// attribute finds an attribute.
func attribute(attributes []byte, kind uint16) []byte {
	for a, err := range netlink.Parse(attributes) {
		if err == nil && a.Type == kind {
			return a.Data
		}
	}
	return nil
}

// name finds an attribute that is a text.
func name(body []byte, kind uint16) string {
	return strings.TrimRight(string(attribute(body[4:], kind)), "\x00")
}

// look does what is expensive only if something has changed since the last look that
// failed.
func (t *tables) look(ctx context.Context, see func() (bool, error)) (bool, error) {
	bodies, err := t.socket.Do(ctx, request(unix.NFT_MSG_GETGEN, nil))
	if err != nil {
		return false, err
	}
	if len(bodies) == 0 || len(attribute(bodies[0][4:], attrGeneration)) != 4 {
		return false, errors.New("nf_tables tells no generation")
	}
	generation := binary.BigEndian.Uint32(attribute(bodies[0][4:], attrGeneration))
	if generation == t.generation {
		return false, nil
	}
	ok, err := see()
	if errors.Is(err, netlink.ErrInterrupted) {
		return false, nil // it changes right now
	}
	if !ok && err == nil {
		t.generation = generation
	}
	return ok, err
}

// rules reads the rules of a chain; none when the chain is not there.
func (t *tables) rules(ctx context.Context, chain string) ([][]byte, error) {
	var out [][]byte
	err := t.socket.Dump(ctx, request(unix.NFT_MSG_GETRULE, func(b *netlink.Attributes) {
		b.String(attrTable, t.table)
		b.String(attrRuleChain, chain)
	}), func(body []byte) error {
		if name(body, attrRuleChain) == chain {
			out = append(out, bytes.Clone(body))
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return out, err
}

// chains reads the names of all chains.
func (t *tables) chains(ctx context.Context) (map[string]bool, error) {
	have := map[string]bool{}
	err := t.socket.Dump(ctx, request(unix.NFT_MSG_GETCHAIN, nil), func(body []byte) error {
		if name(body, attrTable) == t.table {
			have[name(body, attrChainName)] = true
		}
		return nil
	})
	return have, err
}

// elements calls each with the key and the data of every element of a map; none when
// the map is not there.
func (t *tables) elements(ctx context.Context, set string, each func(key, data []byte)) error {
	err := t.socket.Dump(ctx, request(unix.NFT_MSG_GETSETELEM, func(b *netlink.Attributes) {
		b.String(attrTable, t.table)
		b.String(attrElementsSet, set)
	}), func(body []byte) error {
		for element, err := range netlink.Parse(attribute(body[4:], attrElements)) {
			if err != nil {
				return err
			}
			each(attribute(attribute(element.Data, attrElementKey), attrValue),
				attribute(attribute(element.Data, attrElementData), attrValue))
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}
