package judge

import (
	"context"
	"slices"

	"kube-ipvs-proxy/e2e/cluster"
	"kube-ipvs-proxy/e2e/testbed"
)

// kubeProxy is the real kube-proxy in a mode.
func kubeProxy(mode, kubeconfig, program string) *kind {
	return &kind{
		name: "kube-proxy", program: program, kubeconfig: kubeconfig,
		args: func(node, kubeconfig string, more []string) []string {
			return kubeProxyArgs(mode, node, kubeconfig, more)
		},
	}
}

// kubeProxyArgs are kube-proxy's arguments on a node: those that every node has, then
// those of a test.
func kubeProxyArgs(mode, node, kubeconfig string, more []string) []string {
	args := []string{
		"--kubeconfig", kubeconfig,
		"--master", "https://" + relayAddr,
		"--hostname-override", node,
		"--proxy-mode", mode,
		"--conntrack-max-per-core", "0", // a network namespace can't set it
		"-v", "2",
	}
	// It refuses an empty value: not to name it says the same.
	if i := slices.Index(more, "--cluster-cidr"); i < 0 {
		args = append(args, "--cluster-cidr", testbed.ClusterCIDR)
	} else if i+1 < len(more) && more[i+1] == "" {
		more = slices.Delete(slices.Clone(more), i, i+2)
	}
	switch mode {
	case "iptables":
		args = append(args, "--iptables-min-sync-period", "0s") // else changes a second apart
	case "nftables":
		// Its default is one address of the node; a list of flags adds up.
		if !slices.Contains(more, "--nodeport-addresses") {
			args = append(args, "--nodeport-addresses", "all")
		}
	}
	return append(args, more...)
}

// CopyPeer copies a program of e2e/peers to where it is read fast, and returns its path: the
// file system of where it was built may be slow.
func (j *Lab) CopyPeer(ctx context.Context, name string) (string, error) {
	paths, err := cluster.Peers(ctx, name)
	if err != nil {
		return "", err
	}
	return testbed.CopyProgram(paths[0], j.dir)
}
