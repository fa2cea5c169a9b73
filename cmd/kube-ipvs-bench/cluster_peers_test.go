//go:build peers

package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/report"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
	"kube-ipvs-proxy/e2e/cluster"
)

// TestInCluster measures the real kube-proxy with the real API server, in its nftables
// mode, which needs no more of this host's kernel than nf_tables; and finds the cluster
// as it was before.
func TestInCluster(t *testing.T) {
	proxy, err := cluster.Peers(t.Context(), "kube-proxy")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Begin(t)
	o := options{
		sizes: []world.Size{{Services: 20, Endpoints: 3}}, subjects: []string{report.NFTables}, rounds: 1, repeats: 2,
		stream: time.Second, connects: 10, wait: time.Minute, kubeProxy: proxy[0], kubeconfig: c.KubeconfigFile(t), output: "table",
	}
	var progress strings.Builder
	if _, err := o.run(t.Context(), &progress); err == nil || !strings.Contains(err.Error(), "no Node") {
		t.Errorf("without a Node: %v", err)
	}
	node := world.NodeObject("some-node")
	node.UID, node.ResourceVersion = "", ""
	if err := c.Objects().Apply(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	r, err := o.run(t.Context(), &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	for _, key := range []string{report.StartRight, report.ReplaceKernel, report.AddPacket, report.RemoveKernel, report.StreamKernel, report.RSS} {
		if len(r.Runs[0].Values[key]) == 0 {
			t.Errorf("no figures of %s in %v", key, r.Runs[0].Values)
		}
	}
	services, err := c.Client().CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range services.Items {
		if s.Namespace != corev1.NamespaceDefault {
			t.Errorf("%s/%s is left", s.Namespace, s.Name)
		}
	}
	slices, err := c.Client().DiscoveryV1().EndpointSlices("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range slices.Items {
		if s.Namespace != corev1.NamespaceDefault {
			t.Errorf("slice %s/%s is left", s.Namespace, s.Name)
		}
	}
}
