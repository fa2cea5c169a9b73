package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/strvals"
)

// release is the name under which charts are rendered.
const release = "kube-ipvs-proxy"

// helm renders a chart as "helm template" does, its values changed as by --set; the
// result is YAML.
func helm(dir, namespace string, settings []string) (string, error) {
	chart, err := loader.LoadDir(dir)
	if err != nil {
		return "", fmt.Errorf("chart %s: %w", dir, err)
	}
	values := map[string]any{}
	for _, s := range settings {
		if err := strvals.ParseInto(s, values); err != nil {
			return "", fmt.Errorf("value %q: %w", s, err)
		}
	}
	top, err := util.ToRenderValues(chart, values,
		common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return "", fmt.Errorf("values of chart %s: %w", dir, err)
	}
	files, err := engine.Engine{}.Render(chart, top)
	if err != nil {
		return "", fmt.Errorf("chart %s: %w", dir, err)
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".yaml" || strings.TrimSpace(files[name]) == "" {
			continue // notes for humans, helpers, and what the values turned off
		}
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", name, files[name])
	}
	return text.String(), nil
}
