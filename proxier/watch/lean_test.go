package watch

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// protobufOf are the serializers for protobuf, lean and as the client library has them.
func protobufOf(t *testing.T) (ours, plain runtime.SerializerInfo) {
	t.Helper()
	all, err := serializers()
	if err != nil {
		t.Fatal(err)
	}
	l, ok := all.(lean)
	if !ok {
		t.Fatalf("the serializers are %T", all)
	}
	ours, _ = runtime.SerializerInfoForMediaType(l.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	plain, _ = runtime.SerializerInfoForMediaType(l.NegotiatedSerializer.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	return ours, plain
}

// leanSamples are what a watch sends, encoded.
func leanSamples(t *testing.T, s runtime.Serializer) map[string][]byte {
	t.Helper()
	port, name := int32(80), "http"
	meta := metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1("{}")}},
	}
	out := map[string][]byte{}
	for name, object := range map[string]runtime.Object{
		"Service": &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		}},
		"EndpointSlice": &discoveryv1.EndpointSlice{
			ObjectMeta: meta, AddressType: "IPv4", Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.1"}}},
		},
		"Node":     &corev1.Node{ObjectMeta: meta},
		"Status":   &metav1.Status{Message: "gone", Code: 410},
		"bookmark": &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}},
	} {
		var text bytes.Buffer
		if err := s.Encode(object, &text); err != nil {
			t.Fatal(err)
		}
		out[name] = text.Bytes()
	}
	return out
}

// same decodes both ways, and wants the same object, or two errors.
func sameDecoded(t *testing.T, what string, ours, plain runtime.Decoder, data []byte, into func() runtime.Object) runtime.Object {
	t.Helper()
	got, kind, err := ours.Decode(data, nil, into())
	want, wantKind, wantErr := plain.Decode(data, nil, into())
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%s: error %v, want %v", what, err, wantErr)
	}
	if err != nil {
		return nil
	}
	if diff := cmp.Diff(want, got); diff != "" || kind == nil || wantKind == nil || *kind != *wantKind {
		t.Fatalf("%s: kind %v, want %v\n%s", what, kind, wantKind, diff)
	}
	return got
}

func nothing() runtime.Object { return nil }

// Objects are decoded as by the client library, also damaged ones.
func TestLeanObjects(t *testing.T) {
	ours, plain := protobufOf(t)
	for name, data := range leanSamples(t, plain.Serializer) {
		object := sameDecoded(t, name, ours.Serializer, plain.Serializer, data, nothing)
		clear(data) // the next event comes into its place
		if s, ok := object.(*corev1.Service); ok && s.Name != "" && s.Spec.ClusterIP != "10.96.0.1" {
			t.Errorf("%s holds bytes of the message: %v", name, s)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for name, data := range leanSamples(t, plain.Serializer) {
		for range 2000 {
			damaged := bytes.Clone(data)[:1+random.IntN(len(data))]
			if random.IntN(2) == 0 {
				damaged = bytes.Clone(data)
			}
			damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
			sameDecoded(t, name+" damaged", ours.Serializer, plain.Serializer, damaged, nothing)
		}
	}
}

// Events are taken apart as by the client library, and their object's bytes are no copy.
func TestLeanEvents(t *testing.T) {
	ours, plain := protobufOf(t)
	event := func() runtime.Object { return &metav1.WatchEvent{} }
	for name, object := range leanSamples(t, plain.Serializer) {
		var text bytes.Buffer
		sent := &metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: object}}
		if err := plain.StreamSerializer.Encode(sent, &text); err != nil {
			t.Fatal(err)
		}
		data := text.Bytes()
		got := sameDecoded(t, name, ours.StreamSerializer, plain.StreamSerializer, data, event).(*metav1.WatchEvent)
		if len(got.Object.Raw) == 0 || &got.Object.Raw[0] != &data[len(data)-len(object)] {
			t.Errorf("%s: the bytes were copied", name)
		}
		for i := range data {
			sameDecoded(t, name+" cut", ours.StreamSerializer, plain.StreamSerializer, data[:i], event)
		}
	}
}
