package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// yamlLine finds the place in an error text of the YAML reader.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// toJSON returns a document as JSON. After an error it also returns the line of
// body, from 1, where reading stopped.
func toJSON(body []byte) (raw []byte, line int, err error) {
	// A parser of hostile text must not take the proxy down with it.
	defer func() {
		if p := recover(); p != nil {
			raw, line, err = nil, 1, fmt.Errorf("the YAML reader gave up: %v", p)
		}
	}()
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) {
		return trimmed, 0, nil
	}
	if raw, ok := blockJSON(body); ok {
		return raw, 0, nil
	}
	raw, err = yaml.YAMLToJSONStrict(body)
	if err != nil {
		line, err = plainYAML(err)
		return nil, line, err
	}
	return raw, 0, nil
}

// plainYAML takes the line out of an error text of the YAML reader.
func plainYAML(err error) (int, error) {
	s := strings.TrimPrefix(err.Error(), "yaml: ")
	s = strings.TrimSpace(strings.TrimPrefix(s, "unmarshal errors:\n"))
	s, _, _ = strings.Cut(s, "\n")
	line := 1
	if m := yamlLine.FindStringSubmatchIndex(s); m != nil {
		if n, convErr := strconv.Atoi(s[m[2]:m[3]]); convErr == nil {
			line = n
		}
		s = s[:m[0]] + s[m[1]:]
	}
	return line, errors.New("is not YAML: " + clip(s))
}

// plainJSON rids an error text of the reader's name.
func plainJSON(err error) error {
	return errors.New(clip(strings.TrimPrefix(err.Error(), "json: ")))
}
