package host

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func addrs(text string) []netip.Addr {
	var list []netip.Addr
	for _, f := range strings.Fields(text) {
		list = append(list, netip.MustParseAddr(f))
	}
	return list
}

func TestNodePortAddresses(t *testing.T) {
	const host = "10.244.1.1 127.0.0.1 169.254.20.10 192.0.2.11 192.0.2.12 ::1 2001:db8::11 2001:db8::12 fe80::1"
	const wide4, wide6 = "10.244.1.1 169.254.20.10 192.0.2.11 192.0.2.12", "2001:db8::11 2001:db8::12"
	for _, c := range []struct {
		name      string
		selectors string
		nodeIPs   string
		want      string
	}{
		{"none: all but loopback and IPv6 link-local", "", "", wide4 + " " + wide6},
		{"all", "all", "", wide4 + " " + wide6},
		{"zero prefix of one family", "0.0.0.0/0 2001:db8::11/128", "", wide4 + " 2001:db8::11"},
		{"a zero prefix makes the rest irrelevant", "0.0.0.0/0 192.0.2.11/32 ::/0", "", wide4 + " " + wide6},
		{"CIDR, the other family without entries is all", "192.0.2.0/24", "", "192.0.2.11 192.0.2.12 " + wide6},
		{"CIDR with host bits", "192.0.2.11/24 2001:db8::11/128", "", "192.0.2.11 192.0.2.12 2001:db8::11"},
		{"CIDRs that overlap", "192.0.2.0/24 192.0.2.11/32 ::1/128", "", "192.0.2.11 192.0.2.12 ::1"},
		{"primary, both known", "primary", "192.0.2.11 2001:db8::12", "192.0.2.11 2001:db8::12"},
		{"primary, IPv6 unknown", "primary", "192.0.2.11", "192.0.2.11"},
		{"primary, IPv6 is loopback, so unknown", "primary", "192.0.2.11 ::1", "192.0.2.11"},
		{"primary, nothing known", "primary", "", ""},
		{"primary of another host", "primary", "192.0.2.99", ""},
		{"primary unknown beside a CIDR", "primary 10.244.0.0/16", "2001:db8::11", "10.244.1.1 2001:db8::11"},
		{"localhost only", "localhost", "192.0.2.11", "127.0.0.1 ::1"},
		{"localhost beside primary", "primary localhost", "192.0.2.11", "127.0.0.1 192.0.2.11 ::1"},
		{"localhost beside all", "all localhost", "", "127.0.0.1 " + wide4 + " " + "::1 " + wide6},
		{"loopback CIDR", "127.0.0.0/8 ::/0", "", "127.0.0.1 " + wide6},
		{"IPv6 link-local by CIDR", "fe80::/10 192.0.2.11/32", "", "192.0.2.11 fe80::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ParseNodePortSelectors(strings.Fields(c.selectors))
			if err != nil {
				t.Fatal(err)
			}
			want := addrs(c.want)
			slices.SortFunc(want, netip.Addr.Compare)
			if got := NodePortAddresses(addrs(host), addrs(c.nodeIPs), s); !slices.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestNodePortSelectorsZeroValueIsAll(t *testing.T) {
	got := NodePortAddresses(addrs("192.0.2.11 127.0.0.1 192.0.2.11"), nil, NodePortSelectors{})
	if want := addrs("192.0.2.11"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNodePortSelectorsUnlimited(t *testing.T) {
	for text, want := range map[string][2]bool{
		"":                       {true, true},
		"all localhost":          {true, true},
		"primary":                {false, false},
		"localhost":              {false, false},
		"10.0.0.0/8":             {false, true},
		"2001:db8::/32":          {true, false},
		"10.0.0.0/8 0.0.0.0/0":   {true, true},
		"10.0.0.0/8 ::1/128":     {false, false},
		"0.0.0.0/0 primary ::/0": {true, true},
	} {
		s, err := ParseNodePortSelectors(strings.Fields(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{s.Unlimited(false), s.Unlimited(true)}; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestParseNodePortSelectorsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"primry":                  `nodePortAddresses[0]: "primry" is neither`,
		"10.0.0.0/8 192.0.2.11":   `nodePortAddresses[1]: "192.0.2.11" is neither`,
		"10.0.0.0/33":             `nodePortAddresses[0]: "10.0.0.0/33" is neither`,
		"::ffff:10.0.0.0/104":     `nodePortAddresses[0]: "::ffff:10.0.0.0/104" is neither`,
		"all primary all":         `nodePortAddresses[2]: "all" is there twice`,
		"localhost localhost":     `nodePortAddresses[1]: "localhost" is there twice`,
		"PRIMARY":                 `nodePortAddresses[0]: "PRIMARY" is neither`,
		"fe80::%eth0/10":          `nodePortAddresses[0]: "fe80::%eth0/10" is neither`,
		"10.0.0.0/8 10.0.0.0/8 x": `nodePortAddresses[2]: "x" is neither`,
	} {
		if _, err := ParseNodePortSelectors(strings.Fields(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestNodePortSelectorsString(t *testing.T) {
	for text, want := range map[string]string{"": "all", "192.0.2.11/24 primary": "primary,192.0.2.0/24", "localhost": "localhost"} {
		s, err := ParseNodePortSelectors(strings.Fields(text))
		if got := fmt.Sprint(s); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
