package netfilter

import (
	"strings"
	"testing"
)

// packet is what our rules ask of a packet.
type packet struct {
	protocol, in, state string
	sets                []string // of which it is a member, by whatever fields
	byIPVS              bool
	marked              bool // for masquerading
	lookups             int  // in sets, so far
}

// walk counts the rules of the table that the packet is compared with on its way through
// a built-in chain, the jumps to our chains among them.
func (p *packet) walk(t *testing.T, table Table, from string) int {
	passed := 0
	for _, j := range table.jumpsFrom(from) {
		n, verdict := p.chain(t, table, j.To)
		passed += 1 + n
		if verdict != "" {
			break
		}
	}
	return passed
}

// chain returns the rules that were compared, and the verdict that ended the way.
func (p *packet) chain(t *testing.T, table Table, name string) (passed int, verdict string) {
	for _, c := range table.Chains {
		if c.Name != name {
			continue
		}
		for _, r := range c.Rules {
			passed++
			target, hit := p.matches(t, r)
			switch {
			case !hit:
			case target == "RETURN":
				return passed, ""
			case target == "ACCEPT" || target == "DROP" || target == "REJECT" || target == "MASQUERADE":
				return passed, target
			case target == "MARK":
				p.marked = true
			default:
				n, verdict := p.chain(t, table, target)
				if passed += n; verdict != "" {
					return passed, verdict
				}
			}
		}
	}
	return passed, ""
}

// matches reads a rule that Render wrote. What it does not know fails the test, so that a
// new kind of match is not counted as one that never matches.
func (p *packet) matches(t *testing.T, text string) (target string, hit bool) {
	words := strings.Fields(text)
	hit, not := true, false
	for i := 0; i < len(words); i++ {
		value := ""
		if i+1 < len(words) {
			value = words[i+1]
		}
		var yes bool
		switch words[i] {
		case "!":
			not = true
			continue
		case "-j":
			return value, hit
		case "-m":
			yes = value != "ipvs" || p.byIPVS
		case "--ipvs":
			continue
		case "-p":
			yes = value == p.protocol
		case "-i":
			yes = value == p.in
		case "-s", "-d": // loopback
			yes = false
		case "--ctstate":
			yes = strings.Contains(value, p.state)
		case "--match-set":
			if hit { // the kernel stops at the first match that fails
				p.lookups++
			}
			for _, s := range p.sets {
				yes = yes || s == value
			}
			i++ // the fields
		case "--mark":
			// Ours is the only mark here: that for masquerading, or none.
			yes = strings.HasPrefix(value, "0x0/") || value == "0x4000/0x4000" && p.marked
		case "--icmp-type", "--icmpv6-type", "--dport", "--src-type":
			yes = false
		case "--comment":
			for i++; !strings.HasSuffix(words[i], `"`); i++ {
			}
			continue
		default:
			t.Fatalf("%q: %s is new here", text, words[i])
		}
		hit = hit && yes != not
		not = false
		i++
	}
	return "", false
}

// TestRulesOfAConnection states how many rules a packet of a pod to a ClusterIP is
// compared with, and how many sets are asked, which is what costs. They are the same whatever the number of Services.
func TestRulesOfAConnection(t *testing.T) {
	bridge := flagSets()["bridge-ports"]
	for _, one := range []struct {
		name          string
		want, lookups int
		packet
		first, answer bool
	}{
		{"first packet", 29, 9, packet{state: "NEW"}, true, false},
		{"known connection", 17, 3, packet{state: "ESTABLISHED"}, false, false},
		{"its answers", 13, 1, packet{state: "ESTABLISHED"}, false, true},
	} {
		passed := 0
		rs := Render(bridge, false)
		tables := map[string]Table{}
		for _, table := range rs.Tables {
			tables[table.Name] = table
		}
		p := one.packet
		p.protocol, p.in = "tcp", "cni0"
		if !one.answer {
			p.sets = []string{"KUBE-CLUSTER-IP"}
		}
		hooks := []string{"mangle PREROUTING", "nat PREROUTING", "mangle INPUT", "filter INPUT", "IPVS", "mangle OUTPUT", "filter OUTPUT", "mangle POSTROUTING", "nat POSTROUTING"}
		if one.answer {
			hooks = []string{"mangle PREROUTING", "filter FORWARD", "mangle POSTROUTING"}
		}
		for _, hook := range hooks {
			table, chain, _ := strings.Cut(hook, " ")
			switch {
			case table == "IPVS":
				p.byIPVS, p.sets = true, nil
			case table != "nat" || one.first:
				passed += p.walk(t, tables[table], chain)
			}
		}
		if passed != one.want || p.lookups != one.lookups {
			t.Errorf("%s: compared with %d rules and %d sets, want %d and %d", one.name, passed, p.lookups, one.want, one.lookups)
		}
	}
}
