package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Read decodes a configuration file: a KubeProxyConfiguration, an
// IPVSProxyConfiguration, or both as documents of one file, in any order. What is
// absent has its default. Fields that are unknown or there twice are no error, as in
// kube-proxy: they become notes with path and line. Everything else that is wrong
// with a document is.
func Read(text []byte) (Raw, error) {
	r := Defaults()
	r.KubeProxyConfiguration = kubeproxy.KubeProxyConfiguration{}
	seen := map[string]bool{}
	var errs []error
	for _, d := range documents(text) {
		if err := r.decode(d, seen); err != nil {
			errs = append(errs, fmt.Errorf("document at line %d: %w", d.line, err))
		}
	}
	if len(seen) == 0 && errs == nil {
		return Raw{}, fmt.Errorf("has no %s and no %s", KubeProxyKind, OwnKind)
	}
	setDefaults(&r.KubeProxyConfiguration)
	return r, errors.Join(errs...)
}

// document is one YAML document; line is that of its first byte in the file.
type document struct {
	text []byte
	line int
}

// documents splits a file at lines that begin with "---", and leaves out documents
// that hold nothing.
func documents(text []byte) []document {
	var list []document
	current := document{line: 1}
	end := func() {
		if holdsSomething(current.text) {
			list = append(list, current)
		}
	}
	line := 0
	for part := range bytes.Lines(text) {
		line++
		if isSeparator(part) {
			end()
			current = document{line: line + 1}
			continue
		}
		current.text = append(current.text, part...)
	}
	end()
	return list
}

func isSeparator(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	rest = bytes.TrimSpace(rest)
	return ok && (len(rest) == 0 || rest[0] == '#')
}

// holdsSomething tells a document from comments and empty lines.
func holdsSomething(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return true
		}
	}
	return false
}

// decode reads one document into the part of r that its kind names.
func (r *Raw) decode(d document, seen map[string]bool) error {
	data, err := yaml.YAMLToJSON(d.text)
	if err != nil {
		return err
	}
	var meta metav1.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(data, &meta); err != nil {
		return err
	}
	var target any
	switch meta {
	case metav1.TypeMeta{APIVersion: kubeproxy.SchemeGroupVersion.String(), Kind: KubeProxyKind}:
		target = &r.KubeProxyConfiguration
	case metav1.TypeMeta{APIVersion: OwnAPIVersion, Kind: OwnKind}:
		target = &ownDocument{IPVSProxyConfiguration: &r.IPVSProxyConfiguration}
	default:
		return fmt.Errorf("apiVersion %q, kind %q: want %s, %s or %s, %s", meta.APIVersion, meta.Kind,
			kubeproxy.SchemeGroupVersion, KubeProxyKind, OwnAPIVersion, OwnKind)
	}
	if seen[meta.Kind] {
		return fmt.Errorf("a second %s", meta.Kind)
	}
	seen[meta.Kind] = true
	loose, err := json.UnmarshalStrict(data, target)
	if err != nil {
		return fmt.Errorf("%s: %s", meta.Kind, strings.TrimPrefix(err.Error(), "json: "))
	}
	r.noteLoose(d, loose)
	return nil
}

// noteLoose notes what only strict decoding refuses: fields that are unknown, and
// keys that are there twice, of which JSON shows no more.
func (r *Raw) noteLoose(d document, loose []error) {
	lines, twice, err := places(d)
	if err != nil { // another YAML parser than that of the decoder disagrees about the text
		if _, err := yaml.YAMLToJSONStrict(d.text); err != nil {
			r.note(true, "%v", err)
		}
	}
	for _, text := range twice {
		r.note(true, "%s", text)
	}
	for _, err := range loose {
		text := err.Error()
		if path := quoted(text); lines[path] > 0 {
			text += fmt.Sprintf(" (line %d)", lines[path])
		}
		if !slices.Contains(twice, text) {
			r.note(true, "%s; it is left out", text)
		}
	}
}

// quoted returns what stands between the first two quotation marks.
func quoted(text string) string {
	_, rest, _ := strings.Cut(text, `"`)
	path, _, _ := strings.Cut(rest, `"`)
	return path
}
