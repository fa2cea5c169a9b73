//go:build kernel

package netfilter

import (
	"encoding/binary"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// TestCaseD10BoundedMemory: all flows of a frontend are deleted in memory that has
// nothing to do with their number. FLOWS says another number, such as 500000, for which the
// machine's nf_conntrack_max has to be raised first: a namespace cannot.
func TestCaseD10BoundedMemory(t *testing.T) {
	newNamespace(t)
	number := 50_000
	if text := os.Getenv("FLOWS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		number = n
	}
	fill(t, number)
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	peak := watchHeap()
	start := time.Now()
	deleted, err := (&Rules{}).DeleteFlows(t.Context(), []ipvsutil.StaleFlow{stale(ipvsutil.UDP, "10.96.0.10:53", "")})
	took := time.Since(start)
	most := int64(peak()) - int64(before.HeapAlloc)
	t.Logf("%d flows deleted in %v, the heap at most %d KiB larger", deleted, took.Round(time.Millisecond), most>>10)
	if err != nil || deleted != number {
		t.Errorf("deleted %d of %d, error %v", deleted, number, err)
	}
	if left := strings.TrimSpace(command(t, "", "conntrack", "-C")); left != "0" {
		t.Errorf("%s flows are left", left)
	}
	if most > 8<<20 {
		t.Errorf("the heap grew by %d KiB", most>>10)
	}
}

// fill puts flows of as many clients to 10.96.0.10:53 into the table.
func fill(t *testing.T, number int) {
	t.Helper()
	socket, err := netlink.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	var batch []netlink.Request
	for i := range number {
		var client [4]byte
		binary.BigEndian.PutUint32(client[:], 100<<24+uint32(i))
		batch = append(batch, creation(netip.AddrPortFrom(netip.AddrFrom4(client), 1024)))
		if len(batch) < 128 && i < number-1 {
			continue
		}
		for i, err := range socket.Execute(t.Context(), batch) {
			if err != nil {
				t.Fatalf("flow %d of a batch: %v", i, err)
			}
		}
		batch = batch[:0]
	}
}

// creation is the request that makes a flow of a client to 10.96.0.10:53 by way of
// 10.244.1.2:53.
func creation(client netip.AddrPort) netlink.Request {
	const (
		messageNew  = subsystemConntrack
		attrStatus  = 3
		attrTimeout = 7
		confirmed   = 1 << 3
	)
	body := header(false)
	frontend, real := netip.MustParseAddrPort("10.96.0.10:53"), netip.MustParseAddrPort("10.244.1.2:53")
	for _, side := range []struct {
		kind     uint16
		from, to netip.AddrPort
	}{{attrTupleOriginal, client, frontend}, {attrTupleReply, real, client}} {
		tuple := body.Nest(side.kind)
		addresses := body.Nest(attrTupleIP)
		body.Bytes(attrIPv4Source, side.from.Addr().AsSlice())
		body.Bytes(attrIPv4Destination, side.to.Addr().AsSlice())
		body.End(addresses)
		ports := body.Nest(attrTupleProtocol)
		body.U8(attrProtocolNumber, uint8(ipvsutil.UDP))
		body.U16BE(attrSourcePort, side.from.Port())
		body.U16BE(attrDestinationPort, side.to.Port())
		body.End(ports)
		body.End(tuple)
	}
	body.Bytes(attrStatus, binary.BigEndian.AppendUint32(nil, confirmed))
	body.Bytes(attrTimeout, binary.BigEndian.AppendUint32(nil, 600))
	return netlink.Request{Type: messageNew, Flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL, Body: body}
}

// watchHeap looks at the heap until the function that it returns is called, which
// returns the most that there was.
func watchHeap() func() uint64 {
	var most atomic.Uint64
	stop, done := make(chan struct{}), make(chan struct{})
	look := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most.Store(max(most.Load(), m.HeapAlloc))
	}
	go func() {
		defer close(done)
		for {
			look()
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		look()
		return most.Load()
	}
}
