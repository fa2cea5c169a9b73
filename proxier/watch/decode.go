package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	kjson "sigs.k8s.io/json"
)

// document is what one document of a file holds.
type document struct {
	hash    uint64
	objects []*object
	// problems belong to the document, not to an object. Line counts from the
	// first line of the document, and zero means the document as a whole.
	problems []Problem
	// broken: objects may be missing, because something could not be read.
	broken bool
}

// header is what decides how a document is read.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// maxNesting is how many lists may lie within one another.
const maxNesting = 4

// decode reads one document. It never fails as a whole: what is wrong is in the
// document's problems.
func decode(t text) *document {
	d := new(document)
	if t.err != nil {
		d.fail("", 1, fmt.Errorf("is not JSON: %w", t.err))
		return d
	}
	raw, line, err := toJSON(t.body)
	if err != nil {
		d.fail("", line, err)
		return d
	}
	d.value(raw, header{}, 0)
	return d
}

// fail reports that something in the document could not be read.
func (d *document) fail(object string, line int, err error) {
	d.broken = true
	reason := err.Error() + "; the last good state of the file's objects stays"
	d.problems = append(d.problems, Problem{Object: object, Line: line, Reason: reason})
}

// value reads one JSON value: an object, or a list of them. implied is what the
// list around it says about kind and apiVersion.
func (d *document) value(raw []byte, implied header, depth int) {
	var h header
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &h); err != nil {
		d.fail(h.describe(), 0, fmt.Errorf("is not a Kubernetes object: %w", plainJSON(err)))
		return
	}
	if h.Kind == "" && h.APIVersion == "" {
		h.Kind, h.APIVersion = implied.Kind, implied.APIVersion
	}
	switch h.APIVersion + " " + h.Kind {
	case "v1 Service":
		readObject(d, raw, h, kindService, d.service)
	case "discovery.k8s.io/v1 EndpointSlice":
		readObject(d, raw, h, kindSlice, d.slice)
	case "v1 Node":
		readObject(d, raw, h, kindNode, d.node)
	case "v1 List":
		d.items(raw, header{}, depth)
	case "v1 ServiceList", "v1 NodeList", "discovery.k8s.io/v1 EndpointSliceList":
		d.items(raw, header{APIVersion: h.APIVersion, Kind: strings.TrimSuffix(h.Kind, "List")}, depth)
	default:
		d.foreign(h)
	}
}

// foreign reports a kind that is not read, or a value that has none.
func (d *document) foreign(h header) {
	switch h.Kind {
	case "":
		d.fail(h.describe(), 0, errors.New("has no kind"))
	case "Service", "EndpointSlice", "Node", "List", "ServiceList", "NodeList", "EndpointSliceList":
		d.problems = append(d.problems, Problem{Object: h.describe(),
			Reason: fmt.Sprintf("kind %s of apiVersion %q is not read here", h.Kind, clip(h.APIVersion))})
	default:
		d.problems = append(d.problems, Problem{Object: h.describe(), Reason: fmt.Sprintf("kind %s is not read here", clip(h.Kind))})
	}
}

// items reads each member of a list.
func (d *document) items(raw []byte, implied header, depth int) {
	if depth == maxNesting {
		d.fail("List", 0, fmt.Errorf("more than %d lists lie within one another", maxNesting))
		return
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		d.fail("List", 0, plainJSON(err))
		return
	}
	for _, item := range list.Items {
		d.value(item, implied, depth+1)
	}
}

// readObject decodes raw into a T, checks the object's name, and lets translate
// fill in the rest.
func readObject[T any](d *document, raw []byte, h header, k kind, translate func(*T, *object, *reports)) {
	name := h.describe()
	typed := new(T)
	strict, err := kjson.UnmarshalStrict(raw, typed)
	if err != nil {
		d.fail(name, 0, plainJSON(err))
		return
	}
	r := &reports{object: name}
	for _, s := range strict {
		if strings.HasPrefix(s.Error(), "duplicate field") {
			d.fail(name, 0, s)
			return
		}
		r.add("", "%s: ignored", clip(s.Error()))
	}
	o := &object{key: objectKey{kind: k, namespace: h.namespace(), name: h.Metadata.Name}}
	if k == kindNode {
		o.key.name = nodeKey(o.key.name)
	}
	if err := o.key.check(); err != nil {
		d.problems = append(d.problems, Problem{Object: name, Reason: err.Error()})
		return
	}
	translate(typed, o, r)
	o.problems = r.problems()
	d.objects = append(d.objects, o)
}

func (d *document) service(s *corev1.Service, o *object, r *reports) {
	s.Namespace = o.key.namespace
	o.service = service(s, r)
}

func (d *document) slice(s *discoveryv1.EndpointSlice, o *object, r *reports) {
	s.Namespace = o.key.namespace
	// The API server fills in these two. A port without a name is one that a
	// Service port without a name leads to.
	for i := range s.Ports {
		if p := &s.Ports[i]; p.Name == nil {
			p.Name = new(string)
		}
	}
	owner, ok := sliceOwner(s, r)
	if !ok {
		return
	}
	o.owner, o.endpoints = owner, endpoints(s, r)
}

func (d *document) node(n *corev1.Node, o *object, r *reports) { o.node = node(n, r) }

// namespace returns the namespace, "default" for none, "" for a Node.
func (h *header) namespace() string {
	switch {
	case h.Kind == "Node":
		return ""
	case h.Metadata.Namespace == "":
		return "default"
	}
	return h.Metadata.Namespace
}

// describe names the object in problems; empty when nothing is known of it.
func (h *header) describe() string {
	switch {
	case h.Metadata.Name == "":
		return clip(h.Kind)
	case h.Kind == "Node":
		return "Node " + clip(h.Metadata.Name)
	}
	return clip(h.Kind) + " " + clip(h.namespace()) + "/" + clip(h.Metadata.Name)
}

// check refuses names that the API server refuses. They become keys of maps, words
// of log lines and columns of lists.
func (k objectKey) check() error {
	most := maxLabel
	if k.kind != kindService {
		most = 253 // a DNS subdomain
	}
	if k.kind != kindNode && !validName(k.namespace, maxLabel, false) {
		return errors.New("the namespace is not a DNS label; the object is not used")
	}
	if !validName(k.name, most, k.kind != kindService) {
		return errors.New("the name is not a DNS name; the object is not used")
	}
	return nil
}

// validName checks length and characters of a DNS label, or with dots a subdomain.
func validName(s string, most int, dots bool) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		c := s[i]
		inner := c == '-' || c == '.' && dots
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || inner && i > 0 && i < len(s)-1) {
			return false
		}
	}
	return true
}
