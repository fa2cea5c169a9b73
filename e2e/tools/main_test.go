//go:build kernel

package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"kube-ipvs-proxy/e2e/testbed"
)

// N is the node that all tests are about; the others have no proxy.
const N = testbed.Node1

var (
	lab     *testbed.Lab
	program string // the product
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(kubectlOf); dir != "" {
		if err := kubectl(dir, os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "kubectl:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tools:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if lab, err = testbed.New(); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	lab.SettleLimit = testbed.StartLimit // an agent starts in it
	if program, err = lab.Product(); err != nil {
		return 1, err
	}
	if err := lab.Manifests.ApplyText("services", services); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// nodeArgs are the arguments that run and the commands have in common.
func nodeArgs() []string {
	return []string{"--manifests", lab.Manifests.Dir(), "--hostname-override", N, "--cluster-cidr", testbed.ClusterCIDR}
}

// answer is what a command came to.
type answer struct {
	out, errors string
	code        int
}

// command runs a command of the product on the node.
func command(t *testing.T, name string, args ...string) answer {
	t.Helper()
	all := append([]string{name}, args...)
	if name != "cleanup" {
		all = append(all, nodeArgs()...)
	}
	return start(t, program, all...)
}

func start(t *testing.T, name string, args ...string) answer {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), name, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := lab.Host(N).Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return answer{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// tool runs a program on the node; a failure ends the test.
func tool(t *testing.T, line string) string {
	t.Helper()
	f := strings.Fields(line)
	out, err := lab.Host(N).Exec(context.Background(), f[0], f[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// settle brings the plan into the kernel. Each test begins with it, and need not end with it.
func settle(t *testing.T) {
	t.Helper()
	if a := command(t, "run", "--once"); a.code != 0 {
		t.Fatalf("run --once ended with %d\n%s%s", a.code, a.out, a.errors)
	}
}
