package watch

import (
	"fmt"
	"strings"
	"testing"

	"kube-ipvs-proxy/proxier/plan"
)

// readText reads one file without a folder, as the reader does.
func readText(name, content string) *file {
	r := newReader("")
	u := &update{files: make(map[string]*file)}
	l, ok := r.open(name, []byte(content), stamp{size: int64(len(content))}, u)
	if !ok {
		return nil
	}
	run(l.jobs(r.seed))
	r.finish(l, u)
	return u.files[name]
}

// keys shows which objects a file holds.
func (f *file) keys() string {
	var out []string
	for _, o := range f.objects {
		out = append(out, o.key.String())
	}
	return strings.Join(out, ", ")
}

func TestDecode(t *testing.T) {
	service := serviceYAML("web", "10.96.0.10")
	tests := []struct {
		name, file, content, keys string
		problems                  []string
	}{
		{name: "nothing", content: "# nothing\n---\n---\n \n...\n"},
		{name: "several documents", content: "%YAML 1.1\n--- # first\n" + service + "...\n---\n" + nodeYAML("node-1", "a"),
			keys: "Service default/web, Node node-1"},
		{name: "carriage returns and a byte order mark", content: "\xef\xbb\xbf" + strings.ReplaceAll(service+"---\n"+nodeYAML("node-1", "a"), "\n", "\r\n"),
			keys: "Service default/web, Node node-1"},
		{name: "content behind the marker", content: "--- {apiVersion: v1, kind: Node, metadata: {name: node-1}}\n--- 5\n", keys: "Node node-1",
			problems: []string{"f.yaml, document 2, line 2: is not a Kubernetes object"}},
		{name: "marker within a text", content: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: |\n    ---\n    kind: Service\n",
			problems: []string{"document 1, line 1: ConfigMap default/x: kind ConfigMap is not read here"}},
		{name: "List", content: "apiVersion: v1\nkind: List\nitems:\n- " + indent(service) + "- " + indent(nodeYAML("node-1", "a")) +
			"- kind: Foo\n  apiVersion: v1\n- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node, metadata: {name: n2}}]}\n",
			keys: "Service default/web, Node node-1, Node n2", problems: []string{"kind Foo is not read here"}},
		{name: "typed list", file: "f.json", content: `{"apiVersion":"v1","kind":"ServiceList","items":[{"metadata":{"name":"a","namespace":"x"},"spec":{"clusterIP":"10.96.0.1"}}]}`,
			keys: "Service x/a"},
		{name: "endless lists", content: strings.Repeat("{apiVersion: v1, kind: List, items: [", 6) + strings.Repeat("]}", 6),
			problems: []string{"more than 4 lists"}},
		{name: "JSON values in a row", file: "f.json", content: "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\n\"metadata\":{\"name\":\"a\"}}\n\n{\"kind\":\"Foo\",\n\"apiVersion\":\"v1\"} {\"x\":\n ,}",
			keys: "Node a", problems: []string{"document 2, line 4: Foo: kind Foo is not read here", "document 3, line 6: is not JSON: invalid character ','"}},
		{name: "JSON cut off", file: "f.json", content: `{"apiVersion":"v1","kind":"Node","metadata":{"na`, problems: []string{"is not JSON: unexpected EOF"}},
		{name: "JSON in a YAML file", content: "{\"apiVersion\":\"v1\",\n\t\"kind\":\"Node\",\"metadata\":{\"name\":\"a\"}}", keys: "Node a"},
		{name: "YAML in a JSON file", file: "f.json", content: service, keys: "Service default/web"},
		{name: "broken YAML in the middle", content: service + "---\n\nkind: Service\nspec: [a, b\nports: 5\n---\n" + nodeYAML("node-1", "a"),
			keys: "Service default/web, Node node-1", problems: []string{"f.yaml, document 2, line 13: is not YAML"}},
		{name: "a key twice", content: "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  name: b\n",
			problems: []string{`line 5: is not YAML: key "name" already set`}},
		{name: "a key twice in JSON", file: "f.json", content: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{},"spec":{"clusterIP":"10.96.0.1"}}`,
			problems: []string{`Service default/a: duplicate field "spec"`}},
		{name: "wrong type", content: service + "    nodePort: many\n",
			problems: []string{"f.yaml, document 1, line 1: Service default/web: cannot unmarshal string into Go struct field ServicePort.spec.ports.nodePort of type int32"}},
		{name: "port beyond int32", content: service + "    nodePort: 3000000000\n", problems: []string{"Service default/web: cannot unmarshal number"}},
		{name: "unknown fields", content: service + "  clusterIp: 10.96.0.11\n  sooner: {a: 1}\n", keys: "Service default/web",
			problems: []string{`f.yaml: Service default/web: unknown field "spec.clusterIp": ignored`, `unknown field "spec.sooner"`}},
		{name: "fields in other case are other fields", content: "Kind: Service\napiVersion: v1\n", problems: []string{"has no kind"}},
		{name: "old version", content: "apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\nmetadata: {name: a}\n",
			problems: []string{`EndpointSlice default/a: kind EndpointSlice of apiVersion "discovery.k8s.io/v1beta1" is not read here`}},
		{name: "not an object", content: "- a\n- b\n---\nhello\n", problems: []string{"document 1, line 1: is not a Kubernetes object", "document 2, line 4: is not a Kubernetes object"}},
		{name: "bad names", content: serviceYAML(strings.Repeat("a", 64), "10.96.0.1") + "---\n" + serviceYAML("A/b", "10.96.0.1") + "---\n" +
			serviceYAML(`"a\nb"`, "10.96.0.1") + "---\n" + strings.Replace(service, "name: web", "name: web\n  namespace: a.b", 1) + "---\n" +
			strings.Replace(service, "name: web", "x: web", 1) + "---\n" + service,
			keys: "Service default/web",
			problems: []string{"the name is not a DNS name", "Service default/A/b: the name is not", `Service default/a\nb: the name`,
				"Service a.b/web: the namespace is not", "Service: the name is not"}},
		{name: "aliases that multiply", content: "a: &a [x,x,x,x,x,x,x,x,x]\n" + bombs(), problems: []string{"is not YAML"}},
		{name: "a slice without a label", content: strings.Replace(sliceYAML("web-1", "web"), "service-name", "other", 1),
			keys: "EndpointSlice default/web-1", problems: []string{"EndpointSlice default/web-1: has no label kubernetes.io/service-name"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			name := test.file
			if name == "" {
				name = "f.yaml"
			}
			f := readText(name, test.content)
			if got := f.keys(); got != test.keys {
				t.Errorf("objects %q, want %q", got, test.keys)
			}
			wantProblems(t, f.problems, test.problems)
		})
	}
}

// indent makes a document an item of a sequence.
func indent(s string) string {
	return strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n  ") + "\n"
}

// bombs are lines that each hold the line before nine times.
func bombs() string {
	var s strings.Builder
	for c := 'a'; c < 'i'; c++ {
		fmt.Fprintf(&s, "%c: &%c [%s]\n", c+1, c+1, strings.Repeat(fmt.Sprintf("*%c,", c), 9))
	}
	return s.String()
}

// TestDefaults: what the API server fills in is filled in here: the namespace, and
// the name and protocol of a slice's port.
func TestDefaults(t *testing.T) {
	f := readText("f.yaml", strings.Replace(sliceYAML("web-1", "web", "10.244.1.10"), "- name: http\n  port", "- port", 1))
	want := ready("10.244.1.10:8080")
	want.PortName = ""
	compareValues(t, []plan.Endpoint{want}, f.objects[0].endpoints)
	compareValues(t, plan.ServiceName{Namespace: "default", Name: "web"}, f.objects[0].owner)
}

// TestSplitLines: the place of a document is that of its first line.
func TestSplitLines(t *testing.T) {
	got := splitYAML([]byte("# a\n\na: 1\n---\nb: 1\n...\n# c\n---\n\n---  \nd: 1"))
	want := []string{"1 1 # a\n\na: 1\n", "2 5 b: 1\n", "3 11 d: 1"}
	if len(got) != len(want) {
		t.Fatalf("%d documents, want %d", len(got), len(want))
	}
	for i, g := range got {
		if s := fmt.Sprintf("%d %d %s", g.number, g.line, g.body); s != want[i] {
			t.Errorf("document %q, want %q", s, want[i])
		}
	}
}

// TestHostileObjects: a thousand broken objects among good ones are each told by
// name, and the good ones are all there.
func TestHostileObjects(t *testing.T) {
	var s strings.Builder
	for i := range 1000 {
		s.WriteString(strings.Replace(serviceYAML(fmt.Sprint("bad", i), "10.96.0.300"), "port: 80", "port: 70000", 1) + "---\n")
		s.WriteString(serviceYAML(fmt.Sprint("good", i), "10.96.0.1") + "---\n")
	}
	f := readText("f.yaml", s.String())
	if len(f.objects) != 2000 || len(f.problems) != 2000 {
		t.Fatalf("%d objects and %d problems, want 2000 and 2000", len(f.objects), len(f.problems))
	}
	for i, p := range f.problems {
		if want := fmt.Sprintf("Service default/bad%d", i/2); p.Object != want {
			t.Errorf("problem %d is of %s, want %s", i, p.Object, want)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add("f.yaml", serviceYAML("web", "10.96.0.10")+"---\n"+sliceYAML("web-1", "web", "10.244.1.10")+"---\n"+nodeYAML("n", "a"))
	f.Add("f.json", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"clusterIP":"::1"}}]} {`)
	f.Add("f.yaml", "a: &a [*a]\n--- !!binary x\n? a\n: b\n")
	f.Fuzz(func(t *testing.T, name, content string) {
		read := readText(name, content)
		x := newIndex("n")
		x.replace(map[string]*file{name: read})
		for _, s := range x.entries {
			if s.service != nil {
				for _, a := range append(s.service.ClusterIPs, s.service.ExternalIPs...) {
					if !a.IsValid() || a.Is4In6() {
						t.Errorf("address %v", a)
					}
				}
			}
		}
		x.replace(map[string]*file{name: nil})
		if len(x.entries)+len(x.holders)+len(x.held)+len(x.problems)+len(x.shadows) != 0 || x.node != nil {
			t.Errorf("something is left of a file that is gone: %+v", x)
		}
	})
}
