package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
)

// kernelSchedulers is a kernel with these schedulers.
type kernelSchedulers []string

func (k kernelSchedulers) HasScheduler(_ context.Context, name string) (bool, error) {
	if name == "broken" {
		return false, errors.New("netlink is broken")
	}
	return slices.Contains(k, name), nil
}

func TestCheckScheduler(t *testing.T) {
	kernel := kernelSchedulers{"rr", "mh", "own"}
	for _, name := range []string{"rr", "own"} {
		if err := CheckScheduler(t.Context(), kernel, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := CheckScheduler(t.Context(), kernel, "wrong")
	if !errors.Is(err, ipvsutil.ErrUnknownScheduler) || !strings.Contains(err.Error(), "rr, mh") {
		t.Errorf("error %q does not list what there is", err)
	}
	if err := CheckScheduler(t.Context(), kernel, "broken"); err == nil || errors.Is(err, ipvsutil.ErrUnknownScheduler) {
		t.Errorf("a failed probe gives %v", err)
	}
}
