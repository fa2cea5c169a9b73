package watch

import (
	"bytes"
	"encoding/binary"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// At a start thousands of objects come one by one, each in three envelopes: an event of the
// watch, the event's object, and the object's kind with its bytes. The client library copies
// the bytes out of each, and makes objects by reflection. Here they are decoded where they
// are. Whatever is not exactly as expected is left to the client library.

// lean are the serializers with those for protobuf replaced.
type lean struct {
	runtime.NegotiatedSerializer
	types []runtime.SerializerInfo
}

func newLean(all runtime.NegotiatedSerializer) lean {
	l := lean{NegotiatedSerializer: all}
	for _, info := range all.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeProtobuf && info.StreamSerializer != nil {
			stream := *info.StreamSerializer
			stream.Serializer = leanEvents{stream.Serializer}
			info.Serializer, info.StreamSerializer = leanObjects{info.Serializer}, &stream
		}
		l.types = append(l.types, info)
	}
	return l
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (l lean) SupportedMediaTypes() []runtime.SerializerInfo { return l.types }

// leanEvents decodes the events of a watch.
type leanEvents struct{ runtime.Serializer }

// Decode leaves the bytes of the event's object where they are: they are decoded before the
// next event is read into their place.
func (l leanEvents) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if ok {
		var extension []byte
		kind, rest, _ := cutField(data, 1)
		extension, rest, ok = cutField(rest, 2)
		raw, more, whole := cutField(extension, 1)
		if ok && whole && len(rest)+len(more) == 0 {
			event.Type, event.Object.Raw = string(kind), raw
			return event, &schema.GroupVersionKind{Version: "v1", Kind: "WatchEvent"}, nil
		}
	}
	return l.Serializer.Decode(data, defaults, into)
}

// leanObjects decodes the kinds that are watched.
type leanObjects struct{ runtime.Serializer }

// protobufMagic begins each object in protobuf.
var protobufMagic = []byte("k8s\x00")

// Decode implements runtime.Decoder.
func (l leanObjects) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil && bytes.HasPrefix(data, protobufMagic) {
		object, kind, raw := opened(data[len(protobufMagic):])
		if object != nil && object.Unmarshal(raw) == nil {
			object.GetObjectKind().SetGroupVersionKind(kind)
			return object, &kind, nil
		}
	}
	return l.Serializer.Decode(data, defaults, into)
}

// watched is an object with bytes.
type watched interface {
	runtime.Object
	Unmarshal(b []byte) error
}

// opened takes the envelope off, and makes an empty object of its kind; nil for another one,
// or where the bytes are encoded in some way.
func opened(envelope []byte) (object watched, kind schema.GroupVersionKind, raw []byte) {
	meta, rest, _ := cutField(envelope, 1)
	raw, rest, ok := cutField(rest, 2)
	encoding, rest, _ := cutField(rest, 3)
	contentType, rest, _ := cutField(rest, 4)
	if !ok || len(encoding)+len(contentType)+len(rest) > 0 {
		return nil, kind, nil
	}
	version, meta, _ := cutField(meta, 1)
	name, meta, _ := cutField(meta, 2)
	switch {
	case len(meta) > 0:
	case string(version) == "v1" && string(name) == "Service":
		return &corev1.Service{}, corev1.SchemeGroupVersion.WithKind("Service"), raw
	case string(version) == "discovery.k8s.io/v1" && string(name) == "EndpointSlice":
		return &discoveryv1.EndpointSlice{}, discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), raw
	}
	return nil, kind, nil
}

// cutField takes the field of a number off the front of a message, if it is there and holds
// bytes; else rest is all.
func cutField(message []byte, number int) (field, rest []byte, ok bool) {
	const lengthDelimited = 2
	if len(message) == 0 || int(message[0]) != number<<3|lengthDelimited {
		return nil, message, false
	}
	size, n := binary.Uvarint(message[1:])
	if n <= 0 || size > uint64(len(message)-1-n) {
		return nil, message, false
	}
	from := 1 + n
	return message[from : from+int(size)], message[from+int(size):], true
}
