package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// The environment names the proxy of the lab by proxyVariable, as in e2e/judge; apiProxy is
// the product with an API server.
const (
	proxyVariable = "PROXY"
	apiProxy      = "api"
)

// A judge is another proxy than the product in the lab, or the product with an API
// server (see e2e/judge). The API server runs here, outside of the machine: inside it
// would need a minute to start, and time of the CPUs that the tests have.
type judge struct {
	proxy  string
	peers  bool     // the tests run kube-proxy and kubectl beside what PROXY names
	env    []string // KEY=VALUE for the tests
	api    string   // port of the API server on our loopback; empty: the tests start one
	server *exec.Cmd
	stdin  io.Closer // the server ends with it
}

// startJudge builds what is needed and starts the API server; nil when the environment
// names no PROXY and the tests need no peers. In namespaces of this host the tests start
// their own.
func startJudge(root string, o options, results string) (*judge, error) {
	proxy := os.Getenv(proxyVariable)
	if proxy == "" && !o.peers {
		return nil, nil
	}
	j := &judge{proxy: proxy, peers: o.peers}
	peers, err := j.build(root)
	if err != nil {
		return nil, err
	}
	j.env = []string{proxyVariable + "=" + proxy, "PEERS=" + peers}
	if o.machine == "host" {
		return j, nil
	}
	if err := j.serve(root, results); err != nil {
		return nil, err
	}
	return j, nil
}

// build gives the folder of the programs.
func (j *judge) build(root string) (string, error) {
	names := []string{"etcd", "kube-apiserver"}
	if j.peers || strings.HasPrefix(j.proxy, "kube-proxy") {
		names = append(names, "kube-proxy")
	}
	if j.peers {
		names = append(names, "kubectl")
	}
	cmd := exec.Command("go", append([]string{"run", "."}, names...)...)
	cmd.Dir = filepath.Join(root, "e2e", "peers")
	cmd.Stderr = os.Stderr
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("PROXY=%s: build its programs: %w", j.proxy, err)
	}
	path, _, _ := strings.Cut(out.String(), "\n")
	return filepath.Dir(path), nil
}

// serve starts the API server; its kubeconfig is among the results, where the machine
// sees it.
func (j *judge) serve(root, results string) error {
	const config = "kubeconfig"
	j.server = exec.Command("go", "run", "./e2e/cluster/serve", "--guest-kubeconfig", filepath.Join(results, config))
	j.server.Dir = root
	j.server.Stderr = os.Stderr
	j.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches us alone
	stdin, err := j.server.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := j.server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := j.server.Start(); err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	j.stdin = stdin
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return errors.Join(fmt.Errorf("API server did not start: %w", err), j.close())
	}
	j.api = strings.TrimSpace(line)
	j.env = append(j.env, "KUBECONFIG=/results/"+config)
	return nil
}

// options are those of e2e/vm.
func (j *judge) options() []string {
	if j.api == "" {
		return nil
	}
	return []string{"--api", j.api}
}

// close ends the API server, if it runs.
func (j *judge) close() error {
	if j.server == nil {
		return nil
	}
	if err := errors.Join(j.stdin.Close(), j.server.Wait()); err != nil {
		return fmt.Errorf("end of the API server: %w", err)
	}
	return nil
}
