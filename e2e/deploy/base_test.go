package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kube-ipvs-proxy/proxier/config"
)

func daemonSet(t *testing.T) corev1.PodSpec {
	t.Helper()
	ds, err := ReadDaemonSet()
	if err != nil {
		t.Fatal(err)
	}
	return ds.Spec.Template.Spec
}

// TestMainContainerHasNoMoreThanItNeeds holds every word of its security settings.
func TestMainContainerHasNoMoreThanItNeeds(t *testing.T) {
	pod := daemonSet(t)
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 1 {
		t.Fatalf("%d containers, %d init containers", len(pod.Containers), len(pod.InitContainers))
	}
	want := &corev1.SecurityContext{
		Privileged: new(false), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsUser: new(int64(0)),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_ADMIN", "NET_RAW"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if diff := cmp.Diff(want, pod.Containers[0].SecurityContext); diff != "" {
		t.Errorf("main container (-want +got):\n%s", diff)
	}
	if pod.HostPID || pod.HostIPC || !pod.HostNetwork {
		t.Error("want the node's network and nothing else of it")
	}
	var writable []string
	for _, m := range pod.Containers[0].VolumeMounts {
		if !m.ReadOnly {
			writable = append(writable, m.MountPath)
		}
	}
	if diff := cmp.Diff([]string{"/run/kube-ipvs-proxy", "/run/xtables.lock", "/host/proc/sys/net"}, writable); diff != "" {
		t.Errorf("writable mounts (-want +got):\n%s", diff)
	}
}

func TestPodStaysOnEveryNode(t *testing.T) {
	pod := daemonSet(t)
	if pod.PriorityClassName != "system-node-critical" {
		t.Errorf("priority class %q", pod.PriorityClassName)
	}
	if diff := cmp.Diff([]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, pod.Tolerations); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
	c := pod.Containers[0]
	for name, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != "/livez" || probe.HTTPGet.Port.String() != "healthz" {
			t.Errorf("%s probe is %v, want /livez at port healthz", name, probe)
		}
	}
	if c.Resources.Limits.Cpu().Sign() != 0 || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		t.Errorf("resources %v, want memory requested and limited, CPU not limited", c.Resources)
	}
}

// TestConfigurationIsUnderstood reads the ConfigMap's file as the program does.
func TestConfigurationIsUnderstood(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(Dir, "base", "config.conf"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := config.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	raw.HostnameOverride = "node-1"
	options, err := raw.Validate()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range options.Notes {
		t.Logf("note: %v", n.Text)
		if n.Warning && !strings.Contains(n.Text, "clusterCIDR") { // which is for the operator to fill in
			t.Errorf("warning: %s", n.Text)
		}
	}
	if options.WrongMode != "" || options.API.Kubeconfig != mountOf(t, "config")+"/kubeconfig.conf" {
		t.Errorf("mode %q, kubeconfig %q", options.WrongMode, options.API.Kubeconfig)
	}
	// The DaemonSet and the Service name the ports.
	for port, address := range map[string]string{"metrics": options.MetricsAddress, "healthz": options.HealthAddress} {
		if _, have, _ := strings.Cut(address, ":"); have != portOf(t, port) {
			t.Errorf("%s is at %s, and the container's port is %s", port, address, portOf(t, port))
		}
	}
}

func mountOf(t *testing.T, volume string) string {
	for _, m := range daemonSet(t).Containers[0].VolumeMounts {
		if m.Name == volume {
			return m.MountPath
		}
	}
	t.Fatalf("no mount of %s", volume)
	return ""
}

func portOf(t *testing.T, name string) string {
	ports := daemonSet(t).Containers[0].Ports
	i := slices.IndexFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no port %s", name)
	}
	var service corev1.Service
	text, err := os.ReadFile(filepath.Join(Dir, "base", "service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &service); err != nil {
		t.Fatal(err)
	}
	number := intText(ports[i].ContainerPort)
	if name == "metrics" && (intText(service.Spec.Ports[0].Port) != number || service.Spec.Ports[0].TargetPort.String() != name) {
		t.Errorf("the Service has port %v", service.Spec.Ports[0])
	}
	return number
}
