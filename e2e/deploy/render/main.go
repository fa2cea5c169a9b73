// Command render prints what operators' tools make of the files in deploy/: the
// objects of a kustomization or of a Helm chart, or the steps of a Dockerfile.
//
//	go run -C e2e/deploy/render . kustomize DIR
//	go run -C e2e/deploy/render . helm CHART NAMESPACE [KEY=VALUE...]
//	go run -C e2e/deploy/render . dockerfile FILE
//
// It is a module of its own so that these tools stay out of the product's.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	out, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
	fmt.Print(out)
}

func run(args []string) (string, error) {
	switch {
	case len(args) == 2 && args[0] == "kustomize":
		return kustomize(args[1])
	case len(args) >= 3 && args[0] == "helm":
		return helm(args[1], args[2], args[3:])
	case len(args) == 2 && args[0] == "dockerfile":
		return dockerfile(args[1])
	}
	return "", errors.New("usage: render kustomize DIR | helm CHART NAMESPACE [KEY=VALUE...] | dockerfile FILE")
}
