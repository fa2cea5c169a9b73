//go:build peers

package deploy

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"kube-ipvs-proxy/e2e/cluster"
)

// object is a manifest, as YAML has it.
type object = map[string]any

// objects parses manifests by kind and name.
func objects(t *testing.T, text string) map[string]object {
	t.Helper()
	found := map[string]object{}
	for _, doc := range strings.Split("\n"+text, "\n---") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		if len(o) == 0 {
			continue
		}
		name := fmt.Sprintf("%v %v", o["kind"], o["metadata"].(object)["name"])
		if found[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		if data, ok := o["data"].(object); ok {
			for key, text := range data {
				data[key] = documents(t, text.(string))
			}
		}
		found[name] = o
	}
	return found
}

// documents is the meaning of a file of a ConfigMap.
func documents(t *testing.T, text string) []any {
	t.Helper()
	var docs []any
	for _, doc := range strings.Split(text, "\n---\n") {
		var v any
		if err := yaml.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		docs = append(docs, v)
	}
	return docs
}

func renderObjects(t *testing.T, args ...string) map[string]object {
	t.Helper()
	text, err := render(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, text)
}

// TestChartIsTheKustomization: Helm and kustomize make the same objects.
func TestChartIsTheKustomization(t *testing.T) {
	const server = "apiServer=https://api-server.invalid:6443"
	for _, c := range []struct {
		name, dir string
		values    []string
	}{
		{"base", folder(t, "base"), []string{server}},
		{"base with PodMonitor", withPodMonitor(t), []string{server, "podMonitor=true"}},
		{"in the place of kube-proxy", folder(t, "overlays", "replace-kube-proxy"), []string{"replaceKubeProxy=true"}},
	} {
		want := renderObjects(t, "kustomize", c.dir)
		got := renderObjects(t, append([]string{"helm", folder(t, "helm"), "kube-system"}, c.values...)...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-kustomize +helm):\n%s", c.name, diff)
		}
		if len(want) < 5 {
			t.Errorf("%s: %d objects", c.name, len(want))
		}
	}
}

// TestChartsValues: what an operator sets arrives, and what cannot be is refused.
func TestChartsValues(t *testing.T) {
	chart := folder(t, "helm")
	for _, values := range [][]string{nil, {"replaceKubeProxy=true", "apiServer=https://x:1"}, {"replaceKubeProxy=true", "config.own.drainTimeout=1m"}} {
		if out, err := render(t, append([]string{"helm", chart, "kube-system"}, values...)...); err == nil {
			t.Errorf("values %q are taken:\n%s", values, out)
		}
	}
	got := renderObjects(t, "helm", chart, "elsewhere", "apiServer=https://x:1", "image.repository=r/k", "image.tag=v1",
		"config.kubeProxy.ipvs.scheduler=lc", "config.own.externalAddressMode=bind", "extraArgs[0]=-v=4")
	files := got["ConfigMap kube-ipvs-proxy"]["data"].(object)["config.conf"].([]any)
	if s := files[0].(object)["ipvs"].(object)["scheduler"]; s != "lc" {
		t.Errorf("scheduler %v", s)
	}
	if m := files[1].(object)["externalAddressMode"]; m != "bind" {
		t.Errorf("externalAddressMode %v", m)
	}
	pod := got["DaemonSet kube-ipvs-proxy"]["spec"].(object)["template"].(object)["spec"].(object)
	for _, kind := range []string{"initContainers", "containers"} {
		c := pod[kind].([]any)[0].(object)
		args := c["args"].([]any)
		if c["image"] != "r/k:v1" || args[len(args)-1] != "-v=4" {
			t.Errorf("%s: image %v, arguments %v", kind, c["image"], args)
		}
	}
	subject := got["ClusterRoleBinding kube-ipvs-proxy"]["subjects"].([]any)[0].(object)
	if subject["namespace"] != "elsewhere" {
		t.Errorf("the role is given to %v", subject)
	}
}

// TestBundlesAreOfTheRenderedPod: what the container test reads is what kustomize
// makes of it, but for namespace and tag; and kubectl makes the same as the library.
func TestBundlesAreOfTheRenderedPod(t *testing.T) {
	kubectl, err := cluster.Peers(t.Context(), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	text, err := output(exec.Command(kubectl[0], "kustomize", folder(t, "base")))
	if err != nil {
		t.Fatal(err)
	}
	rendered := objects(t, text)
	if diff := cmp.Diff(renderObjects(t, "kustomize", folder(t, "base")), rendered); diff != "" {
		t.Errorf("kubectl (-library +kubectl):\n%s", diff)
	}
	ds, err := ReadDaemonSet()
	if err != nil {
		t.Fatal(err)
	}
	ds.Namespace = "kube-system"
	pod := &ds.Spec.Template.Spec
	for _, image := range []*string{&pod.InitContainers[0].Image, &pod.Containers[0].Image} {
		*image += ":latest"
	}
	own, err := yaml.Marshal(rendered["DaemonSet kube-ipvs-proxy"])
	if err != nil {
		t.Fatal(err)
	}
	got := &appsv1.DaemonSet{}
	if err := yaml.UnmarshalStrict(own, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ds, got); diff != "" {
		t.Errorf("DaemonSet (-file +kustomize):\n%s", diff)
	}
}
