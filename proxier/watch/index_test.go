package watch

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kube-ipvs-proxy/proxier/plan"
)

// shape shows everything that an index says of its Services and problems.
func (x *index) shape() map[plan.ServiceName]string {
	out := make(map[plan.ServiceName]string)
	for name := range x.entries {
		s, list := x.service(name)
		if s != nil {
			out[name] = fmt.Sprint(*s)
		}
		out[name] += fmt.Sprint(list)
	}
	return out
}

// TestIndexRandom: after any changes the index says what one made from nothing says,
// and exactly the Services that changed are dirty.
func TestIndexRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	pick := func(n int) int { return random.IntN(n) }
	content := func() string {
		var s strings.Builder
		for range pick(4) {
			switch pick(4) {
			case 0, 1:
				s.WriteString(serviceYAML(fmt.Sprint("s", pick(3)), fmt.Sprint("10.96.0.", 1+pick(2))))
			case 2:
				s.WriteString(sliceYAML(fmt.Sprint("e", pick(3)), fmt.Sprint("s", pick(3)), fmt.Sprint("10.244.1.", 1+pick(2)), "10.244.1.9"))
			case 3:
				s.WriteString(nodeYAML(fmt.Sprint("node-", pick(2)), fmt.Sprint("z", pick(2))))
			}
			s.WriteString("---\n")
		}
		return s.String()
	}
	x := newIndex("node-1")
	files := make(map[string]*file)
	for range 3000 {
		changed := make(map[string]*file)
		for range 1 + pick(2) {
			name := fmt.Sprint("f", pick(3), ".yaml")
			changed[name] = nil
			if pick(4) > 0 {
				changed[name] = readText(name, content())
			}
		}
		before, nodeBefore := x.shape(), fmt.Sprint(x.node != nil, x.node)
		x.replace(changed)
		maps.Copy(files, changed)

		fresh := newIndex("node-1")
		fresh.replace(files)
		compareValues(t, fresh.shape(), x.shape())
		compareValues(t, fresh.problemList(), x.problemList())
		if (x.node == nil) != (fresh.node == nil) || x.node != nil && !x.node.equal(*fresh.node) {
			t.Fatalf("node %v, want %v", x.node, fresh.node)
		}
		if len(x.holders) != len(fresh.holders) || len(x.held) != len(fresh.held) || len(x.shadows) != len(fresh.shadows) {
			t.Fatal("something is left of what is gone")
		}
		after := x.shape()
		for i := range 3 {
			name := plan.ServiceName{Namespace: "default", Name: fmt.Sprint("s", i)}
			if (before[name] != after[name]) && !x.dirty[name] {
				t.Fatalf("%s changed from %s to %s and is not dirty", name, before[name], after[name])
			}
		}
		if nodeAfter := fmt.Sprint(x.node != nil, x.node); nodeAfter != nodeBefore != x.all {
			t.Fatalf("Node from %s to %s, all %v", nodeBefore, nodeAfter, x.all)
		}
		clear(x.dirty)
		x.all = false
		if t.Failed() {
			t.Fatalf("after %v", slices.Sorted(maps.Keys(changed)))
		}
	}
}
