package config

import (
	"bytes"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Text writes the configuration as a file that Read understands: both documents,
// every field with its value.
func (r Raw) Text() ([]byte, error) {
	first, err := yaml.Marshal(r.KubeProxyConfiguration)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", KubeProxyKind, err)
	}
	second, err := yaml.Marshal(ownDocument{
		TypeMeta:               metav1.TypeMeta{APIVersion: OwnAPIVersion, Kind: OwnKind},
		IPVSProxyConfiguration: &r.IPVSProxyConfiguration,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", OwnKind, err)
	}
	return bytes.Join([][]byte{first, second}, []byte("---\n")), nil
}
