package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// judgeEnv is what the tests inside are told when the environment says that another
// proxy than the product is to be run (PROXY; see e2e/judge): which, and where its
// programs are. They are built first if need be.
func judgeEnv(root string) ([]string, error) {
	proxy := os.Getenv("PROXY")
	if proxy == "" {
		return nil, nil
	}
	cmd := exec.Command("go", "run", ".", "etcd", "kube-apiserver", "kube-proxy")
	cmd.Dir = filepath.Join(root, "e2e", "peers")
	cmd.Stderr = os.Stderr
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("PROXY=%s: build its programs: %w", proxy, err)
	}
	path, _, _ := strings.Cut(out.String(), "\n")
	return []string{"PROXY=" + proxy, "PEERS=" + filepath.Dir(path)}, nil
}
