package main

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize builds a folder as "kubectl kustomize" does; the result is YAML.
func kustomize(dir string) (string, error) {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return "", fmt.Errorf("kustomize %s: %w", dir, err)
	}
	text, err := objects.AsYaml()
	return string(text), err
}
