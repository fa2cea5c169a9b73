package deploy

import (
	"fmt"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// What the command image leaves in bin/image.
const (
	RootDir     = "root"
	ProfileFile = "seccomp.json"
)

// Dir is the folder deploy, from a folder two levels below the module's.
const Dir = "../../deploy"

// ReadDaemonSet reads the DaemonSet of the base.
func ReadDaemonSet() (*appsv1.DaemonSet, error) { return read("base") }

// ReadCleanup reads the DaemonSet that cleans nodes for kube-proxy.
func ReadCleanup() (*appsv1.DaemonSet, error) { return read("overlays", "restore-kube-proxy") }

// read reads the DaemonSet of a kustomization, in which the image has no tag and
// nothing has a namespace yet.
func read(folder ...string) (*appsv1.DaemonSet, error) {
	file := filepath.Join(append(append([]string{Dir}, folder...), "daemonset.yaml")...)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	ds := &appsv1.DaemonSet{}
	if err := yaml.UnmarshalStrict(text, ds); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return ds, nil
}
