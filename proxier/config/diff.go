package config

import "github.com/spf13/pflag"

// Diff names what differs between two resolved configurations, by the path of the
// field: live is what a running process takes over, restart what it reads at its
// start only. What has no effect here is in neither.
func Diff(before, after Raw) (live, restart []string) {
	was, is := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	before.AddFlags(was)
	after.AddFlags(is)
	for _, o := range options {
		if o.path == "" || o.group == groupIdle || was.Lookup(o.name).Value.String() == is.Lookup(o.name).Value.String() {
			continue
		}
		if o.live {
			live = append(live, o.path)
		} else {
			restart = append(restart, o.path)
		}
	}
	if before.nftablesChoice() != after.nftablesChoice() {
		restart = append(restart, "nftables")
	}
	return live, restart
}

// nftablesChoice is what counts of section nftables, which has no flags; zero when
// the mode is another one.
func (r Raw) nftablesChoice() (choice struct {
	bit int32
	all bool
}) {
	if r.Mode == nftablesMode {
		choice.bit, choice.all = *r.NFTables.MasqueradeBit, r.NFTables.MasqueradeAll
	}
	return choice
}
