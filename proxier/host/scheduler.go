package host

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kube-ipvs-proxy/ipvsutil"
)

// SchedulerProber asks the kernel for one IPVS scheduler; the kernel loads its
// module if it has one. The error says that it could not be told.
type SchedulerProber interface {
	HasScheduler(ctx context.Context, name string) (bool, error)
}

// Schedulers lists the schedulers that the running kernel has, out of those that
// Linux has known. Asking loads their modules: it is meant for telling an operator
// what there is, after CheckScheduler refused a name.
func Schedulers(ctx context.Context, prober SchedulerProber) ([]string, error) {
	var have []string
	for _, name := range ipvsutil.Schedulers {
		ok, err := prober.HasScheduler(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("probe scheduler %s: %w", name, err)
		}
		if ok {
			have = append(have, name)
		}
	}
	return have, nil
}

// CheckScheduler returns nil when the kernel has the scheduler, which may be one
// that this program has never heard of. When it has not, the error is
// ipvsutil.ErrUnknownScheduler and names those that it has.
func CheckScheduler(ctx context.Context, prober SchedulerProber, name string) error {
	ok, err := prober.HasScheduler(ctx, name)
	if err != nil {
		return fmt.Errorf("probe scheduler %q: %w", name, err)
	}
	if ok {
		return nil
	}
	have, err := Schedulers(ctx, prober)
	if err != nil {
		return fmt.Errorf("scheduler %q: %w", name, errors.Join(ipvsutil.ErrUnknownScheduler, err))
	}
	return fmt.Errorf("scheduler %q: %w; it has %s (or load module ip_vs_%s)",
		name, ipvsutil.ErrUnknownScheduler, strings.Join(have, ", "), name)
}
