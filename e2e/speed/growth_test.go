//go:build kernel

package speed

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	ipsetkernel "kube-ipvs-proxy/ipsetutil/kernel"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/fake"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/reconcile"
)

// TestCaseG1SetsGrowOnTheKernel (kubernetes/kubernetes#129389): sets that begin small,
// and that a rule uses, are made bigger again and again, while somebody lists them all
// the time, which hinders swapping. No list lacks what was there before.
func TestCaseG1SetsGrowOnTheKernel(t *testing.T) {
	sets, eyes := inNewNamespace(t)
	set := ipsetutil.ClusterIP.For(false)
	desired := ledger.New(0, 0)
	r := reconcile.New(reconcile.Doors{
		IPVS: fake.NewIPVS(), Sets: sets, Addresses: fake.NewAddresses(), Rules: noRules{},
	}, desired, reconcile.Config{SetSize: 64, SyncPeriod: -1, RefreshPeriod: -1})
	settle := func(touched ledger.Touched) {
		for deadline := time.Now().Add(time.Minute); ; touched = (ledger.Touched{}) {
			report := r.Round(t.Context(), touched)
			if report.Pending == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(report.Err())
			}
			time.Sleep(report.RetryIn)
		}
	}
	settle(claim(desired, 0))
	ctx, stop := context.WithCancel(t.Context())
	missing := make(chan error, 1)
	go func() { missing <- lookOn(ctx, eyes, set.Name, frontend(0)) }()
	const services = 200
	for i := 1; i < services; i++ {
		settle(claim(desired, i))
	}
	stop()
	if err := <-missing; err != nil {
		t.Error(err)
	}
	h, err := sets.Header(t.Context(), set.Name)
	if err != nil || h.Set.MaxElem != 256 || h.Entries != services || h.References != 1 {
		t.Errorf("the set is %+v, want room for 256, %d entries and one reference; error %v", h, services, err)
	}
	members, err := sets.Members(t.Context(), set.Name)
	if _, last := members[frontend(services-1)]; err != nil || !last {
		t.Errorf("the last entry is not there, error %v", err)
	}
	if headers, err := sets.Headers(t.Context()); err != nil || len(headers) != len(ipsetutil.All()) {
		t.Errorf("%d sets, error %v", len(headers), err)
	}
}

type noRules struct{}

func (noRules) Ensure(context.Context) (bool, error) { return false, nil }

func frontend(i int) ipsetutil.Entry {
	return ipsetutil.Entry{Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Protocol: uint8(ipvsutil.TCP), Port: 80}
}

// claim records one more Service.
func claim(desired *ledger.Ledger, i int) ledger.Touched {
	s := &plan.Service{
		Name:       plan.ServiceName{Namespace: "default", Name: fmt.Sprint(i)},
		ClusterIPs: []netip.Addr{frontend(i).Addr},
		Ports:      []plan.Port{{Protocol: ipvsutil.TCP, Port: 80}},
	}
	claims, _ := plan.For(s, nil, plan.Node{Name: "n"}, plan.Config{})
	return desired.Replace(ledger.Owner{Name: s.Name}, claims)
}

// lookOn lists a set until the context ends; an entry that is missing is an error.
func lookOn(ctx context.Context, sets *ipsetkernel.Conn, name string, entry ipsetutil.Entry) error {
	for ctx.Err() == nil {
		members, err := sets.Members(ctx, name)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if _, there := members[entry]; !there {
			return fmt.Errorf("among %d entries %v is missing", len(members), entry)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// inNewNamespace opens two doors to a network namespace of its own, in which a rule uses
// the set of ClusterIPs. What ipset is asked to do comes after that.
func inNewNamespace(t *testing.T, commands ...string) (sets, eyes *ipsetkernel.Conn) {
	t.Helper()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its namespace
		failed <- func() (err error) {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			if sets, err = ipsetkernel.Open(t.Context()); err != nil {
				return err
			}
			if eyes, err = ipsetkernel.Open(t.Context()); err != nil {
				return err
			}
			small := ipsetutil.ClusterIP.For(false)
			small.MaxElem = 64
			if err := sets.Create(t.Context(), small); err != nil {
				return err
			}
			out, err := exec.Command("iptables", "-w", "-A", "INPUT", "-m", "set", "--match-set", small.Name, "dst,dst", "-j", "ACCEPT").CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			restore := exec.Command("ipset", "restore")
			restore.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
			if out, err := restore.CombinedOutput(); err != nil {
				return fmt.Errorf("ipset: %w: %s", err, out)
			}
			return nil
		}()
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = sets.Close(), eyes.Close() })
	return sets, eyes
}

// TestSetsOfOthersAreMendedOnTheKernel: sets with our names that somebody made with a
// timeout, counters, other ports, another type or family become ours; the rule that uses
// one of them keeps using it.
func TestSetsOfOthersAreMendedOnTheKernel(t *testing.T) {
	sets, _ := inNewNamespace(t,
		"add KUBE-CLUSTER-IP 10.96.0.0,tcp:80",
		"create T hash:ip,port timeout 600 counters", "add T 10.96.0.0,tcp:80", "swap T KUBE-CLUSTER-IP", "destroy T",
		"create KUBE-NODE-PORT-TCP bitmap:port range 30000-30100", "add KUBE-NODE-PORT-TCP 30080",
		"create KUBE-LOOP-BACK hash:ip", "add KUBE-LOOP-BACK 10.244.0.1",
		"create KUBE-6-CLUSTER-IP hash:ip,port", "create KIPVS-SHORT-CIRCUIT hash:ip,port forceadd",
	)
	before, err := sets.Headers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	desired := ledger.New(0, 0)
	r := reconcile.New(reconcile.Doors{
		IPVS: fake.NewIPVS(), Sets: sets, Addresses: fake.NewAddresses(), Rules: noRules{},
	}, desired, reconcile.Config{SyncPeriod: -1, RefreshPeriod: -1})
	if report := r.Round(t.Context(), claim(desired, 0)); report.Pending != 0 {
		t.Fatal(report.Err())
	}
	after, err := sets.Headers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range ipsetutil.All() {
		if h := before[set.Name]; h.Set.Name != "" && h.Serves(set) {
			t.Errorf("%+v was right before", h)
		}
		if h := after[set.Name]; h.Set != set || h.Strange {
			t.Errorf("%s is %+v", set.Name, h)
		}
	}
	if h := after["KUBE-CLUSTER-IP"]; h.References != 1 || h.Entries != 1 {
		t.Errorf("the set in use is %+v, want one reference and one entry", h)
	}
	if after["KUBE-NODE-PORT-TCP"].Entries+after["KUBE-LOOP-BACK"].Entries != 0 {
		t.Errorf("what nobody wants is left: %+v", after)
	}
}

// TestCaseG1ManyFrontendsOnTheKernel (kubernetes/kubernetes#129389): a Service with many
// ports at 70 external addresses is more than its sets can hold as they are made. The
// last of its frontends is in them all the same. With FULL set they are made with
// kube-proxy's size and the Service has 70,000 frontends, which takes minutes in an
// emulator: e2e/run -env FULL=1 -run ManyFrontends ./e2e/speed.
func TestCaseG1ManyFrontendsOnTheKernel(t *testing.T) {
	const addresses = 70
	ports, size := 50, uint32(2048)
	if os.Getenv("FULL") != "" {
		ports, size = 1000, ipsetutil.ExternalIP.For(false).MaxElem
	}
	sets, _ := inNewNamespace(t)
	s := &plan.Service{
		Name:       plan.ServiceName{Namespace: "default", Name: "many"},
		ClusterIPs: []netip.Addr{frontend(1).Addr},
	}
	for i := range ports {
		s.Ports = append(s.Ports, plan.Port{Name: fmt.Sprint(i + 1), Protocol: ipvsutil.TCP, Port: uint16(i + 1)})
	}
	for i := range addresses {
		s.ExternalIPs = append(s.ExternalIPs, netip.AddrFrom4([4]byte{198, 18, 0, byte(i + 1)}))
	}
	claims, _ := plan.For(s, nil, plan.Node{Name: "n"}, plan.Config{})
	desired := ledger.New(0, 0)
	touched := desired.Replace(ledger.Owner{Name: s.Name}, claims)
	r := reconcile.New(reconcile.Doors{
		IPVS: fake.NewIPVS(), Sets: sets, Addresses: fake.NewAddresses(), Rules: noRules{},
	}, desired, reconcile.Config{SetSize: size, SyncPeriod: -1, RefreshPeriod: -1})
	began := time.Now()
	report := r.Round(t.Context(), touched)
	if report.Pending != 0 {
		t.Fatal(report.Err())
	}
	t.Logf("%d entries of %d frontends in %v", 3*ports*addresses, ports*addresses, time.Since(began))
	last := ipsetutil.Entry{Addr: s.ExternalIPs[addresses-1], Protocol: uint8(ipvsutil.TCP), Port: uint16(ports)}
	for _, kind := range []ipsetutil.Kind{ipsetutil.ExternalIP, ipsetutil.Capture, ipsetutil.Refuse} {
		name := kind.Name(false)
		h, err := sets.Header(t.Context(), name)
		if err != nil || h.Set.MaxElem != 2*size || int(h.Entries) < ports*addresses {
			t.Errorf("%s is %+v, error %v", name, h, err)
		}
		members, err := sets.Members(t.Context(), name)
		if _, there := members[last]; err != nil || !there {
			t.Errorf("%s lacks %v, error %v", name, last, err)
		}
	}
	if len(report.Grown) != 3 {
		t.Errorf("grown: %+v", report.Grown)
	}
}
