package report

import (
	"fmt"
	"io"
	"strings"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// promise is one line of the list of promises.
type promise struct {
	what string
	size world.Size
	key  string
	// than is whose figure, divided by factor, is the most that ours may be. Empty:
	// most is, in the metric's own unit.
	than   string
	factor float64
	most   float64
}

var (
	small  = world.Size{Services: 100, Endpoints: 4}
	middle = world.Size{Services: 1000, Endpoints: 4}
	large  = world.Size{Services: 5000, Endpoints: 4}
	wide   = world.Size{Services: 1000, Endpoints: 50}
)

const (
	ruleSync = "rule sync (both lists to all programmed)"
	fromZero = "process start to all programmed"
	changed  = "one endpoint replaced, CPU"
)

// promises is the list.
func promises() []promise {
	return []promise{
		{what: ruleSync, size: large, key: ListsRight, than: IPVS, factor: 30},
		{what: ruleSync, size: large, key: ListsRight, than: IPTables, factor: 30},
		{what: ruleSync, size: large, key: ListsRight, than: NFTables, factor: 10},
		{what: ruleSync, size: large, key: ListsRight, than: Floor, factor: 3},
		{what: ruleSync, size: wide, key: ListsRight, than: NFTables, factor: 6},
		{what: ruleSync, size: middle, key: ListsRight, than: NFTables, factor: 4},
		{what: fromZero, size: large, key: StartRight, than: NFTables, factor: 5},
		{what: fromZero, size: middle, key: StartRight, than: NFTables, factor: 2},
		{what: changed, size: large, key: ReplaceCPU, than: IPVS, factor: 500},
		{what: changed, size: large, key: ReplaceCPU, than: IPTables, factor: 250},
		{what: changed, size: large, key: ReplaceCPU, than: NFTables, factor: 50},
		{what: "one endpoint replaced, until a client is served by it", size: large, key: ReplacePacket, than: NFTables, factor: 20},
		{what: "at rest, CPU a minute", size: large, key: IdleCPU, most: 2},
		{what: "at rest, processes started", size: large, key: IdleRun, most: 0},
		{what: "memory", size: large, key: RSS, than: IPVS, factor: 2},
		{what: "memory", size: large, key: RSS, than: NFTables, factor: 2},
		{what: "memory", size: large, key: RSS, than: IPTables, factor: 2},
		{what: "a connection through the last Service", size: large, key: ConnectLast, than: NFTables, factor: 1},
	}
}

// growth is how much a change may cost at the large size, times the small one.
const growth = 1.3

// Promises writes what was promised and what was measured, as Markdown.
func (r *Report) Promises(w io.Writer) error {
	fmt.Fprint(w, "| promise | at | promised | measured | |\n|---|---|---|---|---|\n")
	for _, p := range promises() {
		fmt.Fprintln(w, r.judge(p))
	}
	a, okA := r.median(small, Ours, ReplaceCPU)
	b, okB := r.median(large, Ours, ReplaceCPU)
	line := "not measured | "
	if okA && okB {
		line = fmt.Sprintf("%s and %s ms: %.2f times | %s", digits(a*1e3), digits(b*1e3), b/a, verdict(b <= growth*a))
	}
	_, err := fmt.Fprintf(w, "| %s, does not grow | %v, %v | at most %.1f times | %s |\n", changed, small, large, growth, line)
	return err
}

// judge is the line of one promise.
func (r *Report) judge(p promise) string {
	var m Metric
	for _, one := range Metrics {
		if one.Key == p.key {
			m = one
		}
	}
	ours, ok := r.median(p.size, Ours, p.key)
	other, okOther := r.median(p.size, p.than, p.key)
	promised := strings.TrimSpace(fmt.Sprintf("at most %g %s", p.most, m.Unit))
	if p.than != "" {
		promised = fmt.Sprintf("1/%g of %s", p.factor, p.than)
		if p.factor == 1 {
			promised = "at most that of " + p.than
		}
	}
	measured, holds := "not measured", ""
	switch {
	case !ok || p.than != "" && !okOther:
	case p.than == "":
		measured, holds = strings.TrimSpace(digits(ours*m.Scale)+" "+m.Unit), verdict(ours*m.Scale <= p.most)
	default:
		measured = fmt.Sprintf("%s against %s %s: 1/%s", digits(ours*m.Scale), digits(other*m.Scale), m.Unit, digits(other/ours))
		holds = verdict(ours*p.factor <= other)
	}
	return fmt.Sprintf("| %s | %v | %s | %s | %s |", p.what, p.size, promised, measured, holds)
}

func verdict(holds bool) string {
	if holds {
		return "holds"
	}
	return "does not hold"
}
