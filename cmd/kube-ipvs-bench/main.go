// Command kube-ipvs-bench measures how fast Service proxies program the kernel: this
// project's, kube-proxy's modes, and the plain tools. It serves generated Services to
// each in turn, in a network namespace of its own, and looks at the kernel.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// errFailed: a subject failed, which the report has told.
var errFailed = errors.New("not every subject could be measured")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case interrupted:
		fmt.Fprintln(os.Stderr, "kube-ipvs-bench: interrupted; nothing of it is left")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "kube-ipvs-bench:", err)
		os.Exit(1)
	}
}
