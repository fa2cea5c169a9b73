// Command serve runs a throw-away API server until its standard input ends or it is
// interrupted. It prints the server's port on 127.0.0.1 when it is ready.
//
//	serve [--kubeconfig FILE] [--guest-kubeconfig FILE]
//
// FILE becomes a kubeconfig that may do everything: the first for clients on this host,
// the second for those in a QEMU machine that was started by e2e/vm with --api PORT.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"kube-ipvs-proxy/e2e/cluster"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	host := fs.String("kubeconfig", "", "file to write for clients on this host")
	guest := fs.String("guest-kubeconfig", "", "file to write for clients in a QEMU machine")
	if err := fs.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	programs, err := cluster.FindPrograms(ctx)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for file, server := range map[string]string{*host: c.Server(), *guest: cluster.GuestServer} {
		if file == "" {
			continue
		}
		text, err := c.Kubeconfig(cluster.Admin, server)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
	fmt.Println(c.Port())
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an end by an error is an end
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}
