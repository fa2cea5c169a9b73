package testbed

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Manifests is the folder that the proxies read. Every change of a file is one
// rename: no proxy can see half of it.
type Manifests struct {
	dir, staging string
	stamp        time.Time // of the last file written
}

// newManifests makes the folder below dir.
func newManifests(dir string) (*Manifests, error) {
	m := &Manifests{dir: filepath.Join(dir, "manifests"), staging: filepath.Join(dir, "staging")}
	for _, d := range []string{m.dir, m.staging} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Dir is the folder's path.
func (m *Manifests) Dir() string { return m.dir }

// Apply writes objects (Service, EndpointSlice, Node) as the file name.yaml. The
// objects that the file had before and has no longer are gone.
func (m *Manifests) Apply(name string, objects ...runtime.Object) error {
	var text bytes.Buffer
	for _, o := range objects {
		if err := setKind(o); err != nil {
			return fmt.Errorf("manifest %s: %w", name, err)
		}
		y, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("manifest %s: %w", name, err)
		}
		text.WriteString("---\n")
		text.Write(y)
	}
	return m.ApplyText(name, text.String())
}

// ApplyText writes the file name.yaml as it is.
func (m *Manifests) ApplyText(name, text string) error {
	staged := filepath.Join(m.staging, name)
	if err := os.WriteFile(staged, []byte(text), 0o644); err != nil {
		return err
	}
	// The revision knows a file by size and time of change. The clock of the
	// file system is too coarse for two changes at once.
	now := time.Now()
	if !now.After(m.stamp) {
		now = m.stamp.Add(time.Microsecond)
	}
	m.stamp = now
	if err := os.Chtimes(staged, now, now); err != nil {
		return err
	}
	return os.Rename(staged, m.path(name))
}

// Remove takes the file name.yaml away; a missing one is an error.
func (m *Manifests) Remove(name string) error { return os.Remove(m.path(name)) }

func (m *Manifests) path(name string) string { return filepath.Join(m.dir, name+".yaml") }

// setKind fills in what an object in YAML must say of itself.
func setKind(o runtime.Object) error {
	switch o := o.(type) {
	case *corev1.Service:
		o.APIVersion, o.Kind = "v1", "Service"
	case *corev1.Node:
		o.APIVersion, o.Kind = "v1", "Node"
	case *discoveryv1.EndpointSlice:
		o.APIVersion, o.Kind = "discovery.k8s.io/v1", "EndpointSlice"
	default:
		return fmt.Errorf("no object of the proxy: %T", o)
	}
	return nil
}
