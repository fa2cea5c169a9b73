package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

const (
	markBase = 1 << 15
	markBits = 14
)

// TestRandomSequences: after each change of a random sequence the ledger is what
// the claims say, however they came.
func TestRandomSequences(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 50 {
		bytes := make([]byte, 3000)
		for j := range bytes {
			bytes[j] = byte(random.Uint32())
		}
		if err := checkSequence(&dice{bytes}); err != nil {
			t.Fatalf("seed %d, sequence %d: %v", seed, i, err)
		}
	}
}

// FuzzSequence holds the same on sequences that the fuzzer draws.
func FuzzSequence(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("the older has it, the younger takes over"))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if err := checkSequence(&dice{bytes}); err != nil {
			t.Fatal(err)
		}
	})
}

// checkSequence makes changes until the dice are used up, then removes all.
func checkSequence(d *dice) error {
	l, m := New(markBase, markBits), model{}
	for step := 0; len(d.bytes) > 0; step++ {
		before := l.snapshot()
		var touched Touched
		owner := randomOwner(d)
		if d.n(4) == 0 {
			m.remove(owner.Name)
			touched = l.Remove(owner.Name)
		} else {
			claims := randomClaims(d)
			m.replace(owner, claims)
			touched = l.Replace(owner, claims)
		}
		if err := checkStep(l, m, before, touched); err != nil {
			return fmt.Errorf("step %d, %v: %w", step, owner, err)
		}
	}
	if err := checkRebuild(l, m); err != nil {
		return err
	}
	for _, o := range m.owners() {
		l.Remove(o.Name)
	}
	return l.checkEmpty()
}

func checkStep(l *Ledger, m model, before snapshot, touched Touched) error {
	if diff := cmp.Diff(m.text(), l.text()); diff != "" {
		return fmt.Errorf("desired differs from the claims (-claims +ledger):\n%s", diff)
	}
	if diff := cmp.Diff(l.walked(), l.Counts()); diff != "" {
		return fmt.Errorf("the counts differ from what there is (-there +counted):\n%s", diff)
	}
	if diff := cmp.Diff(m.conflicts(), l.conflictText()); diff != "" {
		return fmt.Errorf("conflicts (-claims +ledger):\n%s", diff)
	}
	if want := before.difference(l.snapshot()); !sameTouched(want, touched) {
		return fmt.Errorf("touched %+v, but what changed is %+v", touched, want)
	}
	all := l.All()
	if want := (snapshot{}).difference(l.snapshot()); !sameTouched(want, all) {
		return fmt.Errorf("all keys are %+v, the ledger says %+v", want, all)
	}
	return l.checkViews(m)
}

func sameTouched(a, b Touched) bool {
	return maps.Equal(a.Servers, b.Servers) && maps.Equal(a.Members, b.Members) &&
		maps.Equal(a.Bound, b.Bound) && maps.Equal(a.Captured, b.Captured) && a.Len() == b.Len()
}

// checkViews: the views of one key agree with those of all, no two short circuits
// have one mark, and every entry's mark leads to a server of the frontend's owner.
func (l *Ledger) checkViews(m model) error {
	for k, s := range l.Servers() {
		if one, ok := l.Server(k); !ok || !one.equal(s) || one.Key != k {
			return fmt.Errorf("server %v: %v, %v", k, one, ok)
		}
	}
	for member, mark := range l.Members() {
		if one, ok := l.Member(member); !ok || one != mark {
			return fmt.Errorf("member %v: mark %#x, %v", member, one, ok)
		}
		if mark == 0 {
			continue
		}
		byMark, ok := l.Server(ipvsutil.MarkKey(mark, member.Entry.Addr.Is6()))
		if !ok {
			return fmt.Errorf("%v has mark %#x, which has no server", member, mark)
		}
		led := slices.ContainsFunc(byMark.Frontends, func(k ipvsutil.Key) bool {
			owned, _ := l.Server(k)
			return k.Addr.Addr() == member.Entry.Addr && k.Addr.Port() == member.Entry.Port && owned.Owner == byMark.Owner
		})
		if !led {
			return fmt.Errorf("%v leads to the short circuit of %v, not one of its frontends' owner", member, byMark.Owner)
		}
	}
	var names []plan.ServiceName
	for o, c := range m {
		if !isNothing(c) && o.Name != (plan.ServiceName{}) {
			names = append(names, o.Name)
		}
	}
	slices.SortFunc(names, compareNames)
	if got := l.Names(); !slices.Equal(got, names) {
		return fmt.Errorf("names %v, want %v", got, names)
	}
	return nil
}

// checkRebuild: the same claims in another order give the same ledger.
func checkRebuild(l *Ledger, m model) error {
	rebuilt := New(markBase, markBits)
	for o, c := range m { // in random order
		rebuilt.Replace(o, c)
	}
	if diff := cmp.Diff(rebuilt.text(), l.text()); diff != "" {
		return fmt.Errorf("a ledger built from nothing is another (-rebuilt +ledger):\n%s", diff)
	}
	return nil
}

// checkEmpty: nothing is left, not even in the corners.
func (l *Ledger) checkEmpty() error {
	left := map[string]int{
		"dump": len(l.Dump()), "keys": l.All().Len(), "names": len(l.Names()), "conflicts": len(l.Conflicts()),
		"claims": len(l.claims), "contests": len(l.contests), "contested": len(l.contested),
		"servers": len(l.servers), "members": len(l.members), "bound": len(l.bound), "captured": len(l.captured),
		"health": len(l.health), "marks given": len(l.marks.given), "marks lacking": len(l.marks.lacking),
		"marks used": len(l.marks.families[0].used) + len(l.marks.families[1].used),
	}
	for what, n := range left {
		if n != 0 {
			return fmt.Errorf("all claims are removed, but %d %s are left", n, what)
		}
	}
	return nil
}
