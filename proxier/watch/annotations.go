package watch

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// The annotations of a Service that are read. A wrong one is reported and has no
// effect; the Service is served as without it.
const (
	annotationScheduler = "kube-ipvs-proxy/scheduler"       // such as "lc"
	annotationFlags     = "kube-ipvs-proxy/scheduler-flags" // such as "mh-port,mh-fallback"
	annotationWeights   = "kube-ipvs-proxy/weights"         // such as "10.244.1.2=3,10.244.2.7=0"
	annotationDrain     = "kube-ipvs-proxy/drain-timeout"   // such as "90s"; "0s" at once, "-1s" never
	annotationNodeLocal = "kube-ipvs-proxy/node-local"      // "skip": not served by this proxy
)

// schedulerFlags by name; the part before the dash is the scheduler that knows it.
var schedulerFlags = map[string]ipvsutil.Flags{
	"sh-fallback": ipvsutil.FlagSched1, "sh-port": ipvsutil.FlagSched2,
	"mh-fallback": ipvsutil.FlagSched1, "mh-port": ipvsutil.FlagSched2,
}

// annotate reads the annotations into out.
func annotate(annotations map[string]string, out *plan.Service, r *reports) {
	read := func(name string, parse func(value string) error) {
		value, ok := annotations[name]
		if !ok {
			return
		}
		if err := parse(strings.TrimSpace(value)); err != nil {
			r.add("annotation "+name, "%v: it has no effect", err)
		}
	}
	read(annotationScheduler, func(value string) error {
		if !slices.Contains(ipvsutil.Schedulers[:], value) {
			return fmt.Errorf("%s is none of the schedulers %s", clip(value), strings.Join(ipvsutil.Schedulers[:], " "))
		}
		out.Scheduler = value
		return nil
	})
	read(annotationFlags, func(value string) (err error) {
		out.SchedulerFlags, err = parseFlags(value)
		return err
	})
	read(annotationWeights, func(value string) (err error) {
		out.Weights, err = parseWeights(value)
		return err
	})
	read(annotationDrain, func(value string) error {
		d, err := time.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("%s is no duration such as 90s", clip(value))
		}
		out.DrainTimeout = &d
		return nil
	})
	read(annotationNodeLocal, func(value string) error {
		if value != "skip" {
			return fmt.Errorf("%s is unknown: only skip means something", clip(value))
		}
		out.NodeLocal = true
		return nil
	})
}

// parseFlags reads flags of one scheduler with commas between them.
func parseFlags(value string) (map[string]ipvsutil.Flags, error) {
	flags := map[string]ipvsutil.Flags{}
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		bit, ok := schedulerFlags[name]
		if !ok {
			return nil, fmt.Errorf("%s is none of mh-port, mh-fallback, sh-port, sh-fallback", clip(name))
		}
		scheduler, _, _ := strings.Cut(name, "-")
		flags[scheduler] |= bit
	}
	return flags, nil
}

// parseWeights reads address=weight with commas between them.
func parseWeights(value string) (map[netip.Addr]uint32, error) {
	weights := map[netip.Addr]uint32{}
	for part := range strings.SplitSeq(value, ",") {
		text, number, _ := strings.Cut(strings.TrimSpace(part), "=")
		addr, err := parseAddr(text)
		if err != nil {
			return nil, err
		}
		weight, err := strconv.ParseUint(number, 10, 32)
		if err != nil || weight > ipvsutil.MaxWeight {
			return nil, fmt.Errorf("weight %s of %s is not 0 to %d", clip(number), addr, ipvsutil.MaxWeight)
		}
		weights[addr] = uint32(weight)
	}
	return weights, nil
}
