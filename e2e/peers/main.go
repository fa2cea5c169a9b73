// Command peers builds the programs that kube-ipvs-proxy is compared with and
// tested against: kube-apiserver, kube-proxy and kubectl of one Kubernetes
// release, and etcd, each from its Go module, static. It prints their paths.
//
//	go run -C e2e/peers . [NAMES...]
//
// They are kept outside the checkout, in a folder named after this module's
// go.mod, go.sum and the way they are built; what is there is not built again.
// The first build of all takes minutes and some 2 GB of Go's build cache. It is
// a module of its own so that nothing of Kubernetes enters the product's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

const usage = `usage: go run -C e2e/peers . [NAMES...]

Builds what is not yet in the cache and prints one path a line, in the order of
the names; all of them when none is named. Names: %s
Variables: XDG_CACHE_HOME is the cache's place (root: /var/cache); GOFLAGS=-p=1
leaves CPUs to others.
example: $(go run -C e2e/peers . kube-proxy) --version
`

func main() {
	// The compiler dies with the thread that started it (Pdeathsig): it must be
	// one that lasts as long as the process.
	runtime.LockOSThread()
	dieWithGoRun()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("peers", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprintf(os.Stderr, usage, strings.Join(names(), " ")) }
	if err := fs.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(fs.Args())
	if err != nil {
		return err
	}
	b, err := newBuilder(ctx)
	if err != nil {
		return err
	}
	for _, p := range chosen {
		path, err := b.ensure(ctx, p)
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}
