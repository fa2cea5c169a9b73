//go:build peers

package deploy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeadmProxy is kube-proxy's DaemonSet as kubeadm makes it, as far as it counts here.
func kubeadmProxy() *appsv1.DaemonSet {
	labels := map[string]string{"k8s-app": "kube-proxy"}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy", Labels: labels},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					HostNetwork:  true,
					NodeSelector: map[string]string{"kubernetes.io/os": "linux"},
					Containers: []corev1.Container{{
						Name: "kube-proxy", Image: "registry.k8s.io/kube-proxy:v1.37.2",
						Command:      []string{"/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf"},
						VolumeMounts: []corev1.VolumeMount{{Name: "kube-proxy", MountPath: "/var/lib/kube-proxy"}},
					}},
					Volumes: []corev1.Volume{{Name: "kube-proxy", VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-proxy"}},
					}}},
				},
			},
		},
	}
}

// TestMovingKubeProxyAside follows the README's steps at the API server: whatever label
// a node has, exactly one proxy is meant for it, and at the end kube-proxy's DaemonSet
// is what it was.
func TestMovingKubeProxyAside(t *testing.T) {
	s := startServer(t)
	sets := s.Client().AppsV1().DaemonSets("kube-system")
	if _, err := sets.Create(t.Context(), kubeadmProxy(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	spec := func(name string) corev1.PodSpec {
		t.Helper()
		ds, err := sets.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return ds.Spec.Template.Spec
	}
	before := spec("kube-proxy")
	overlay := folder(t, "overlays", "replace-kube-proxy")
	s.must(t, "-n", "kube-system", "patch", "daemonset", "kube-proxy", "--patch-file", overlay+"/aside.yaml")
	s.must(t, "apply", "--server-side", "-k", overlay)
	s.must(t, "apply", "--server-side", "-k", folder(t, "overlays", "restore-kube-proxy-ipvs"))

	fresh := map[string]string{"kubernetes.io/os": "linux"}
	kept := map[string]string{"kubernetes.io/os": "linux", "kube-ipvs-proxy/serves": "kube-proxy"}
	for _, c := range []struct {
		name       string
		labels     map[string]string
		kube, ours bool
	}{
		{"a node without the label", fresh, false, true},
		{"a node that kube-proxy keeps", kept, true, false},
		{"Windows", map[string]string{"kubernetes.io/os": "windows"}, false, false},
	} {
		if got := fits(t, spec("kube-proxy"), c.labels); got != c.kube {
			t.Errorf("%s: kube-proxy %v", c.name, got)
		}
		if got := fits(t, spec("kube-ipvs-proxy"), c.labels); got != c.ours {
			t.Errorf("%s: kube-ipvs-proxy %v", c.name, got)
		}
		if got := fits(t, spec("kube-ipvs-proxy-cleanup"), c.labels); got != c.kube {
			t.Errorf("%s: cleanup %v", c.name, got)
		}
	}
	config := spec("kube-ipvs-proxy").Volumes[0].ConfigMap
	if config == nil || config.Name != "kube-proxy" {
		t.Errorf("configuration from %v", config)
	}
	if args := spec("kube-ipvs-proxy-cleanup").InitContainers[0].Args; !cmp.Equal(args, []string{"cleanup", "--for=kube-proxy-ipvs"}) {
		t.Errorf("cleanup's arguments: %q", args)
	}

	s.must(t, "-n", "kube-system", "patch", "daemonset", "kube-proxy", "--patch-file", overlay+"/back.yaml")
	if diff := cmp.Diff(before, spec("kube-proxy")); diff != "" {
		t.Errorf("kube-proxy after it came back (-before +after):\n%s", diff)
	}
}

// fits tells whether a Pod may run on a node with these labels, as far as the
// DaemonSets here have words for it.
func fits(t *testing.T, pod corev1.PodSpec, labels map[string]string) bool {
	t.Helper()
	for key, want := range pod.NodeSelector {
		if labels[key] != want {
			return false
		}
	}
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil {
		return true
	}
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 || terms[0].MatchExpressions[0].Operator != corev1.NodeSelectorOpNotIn {
		t.Fatalf("affinity %v: not understood", terms)
	}
	e := terms[0].MatchExpressions[0]
	return len(e.Values) != 1 || labels[e.Key] != e.Values[0]
}
