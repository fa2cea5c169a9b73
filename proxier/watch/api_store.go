package watch

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// store takes what a reflector reads of one kind into the index. What it keeps are
// objects of this package: no metadata, and no annotations.
type store struct {
	api  *API
	kind kind
	feed *feed
	// objects are the present ones; guarded by the mutex of the API.
	objects map[objectKey]*object
	// listed: Replace was called; guarded by the mutex of the API.
	listed bool
}

// Add takes in an object that came.
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update takes in an object that changed.
func (s *store) Update(obj any) error {
	o, err := s.translate(obj)
	if err != nil {
		return err
	}
	s.api.change(func() { s.set(o.key, o, triggerTime(obj)) })
	return nil
}

// Delete takes in that an object is gone.
func (s *store) Delete(obj any) error {
	key, err := s.key(obj)
	if err != nil {
		return err
	}
	s.api.change(func() {
		s.set(key, nil, time.Time{})
		s.missNode()
	})
	return nil
}

// Replace takes in all objects that there are. It is how deletions are heard of that
// happened while there was no watch.
func (s *store) Replace(items []any, _ string) error {
	objects := make(map[objectKey]*object, len(items))
	for i, item := range items {
		o, ok := item.(*object)
		if !ok {
			var err error
			if o, err = s.translate(item); err != nil {
				return err
			}
		}
		items[i] = nil // a long list becomes garbage while it is read
		objects[o.key] = o
	}
	s.api.change(func() {
		before := s.objects
		if s.objects = objects; len(before) == 0 {
			s.api.index.expect(len(objects))
		}
		for key, old := range before {
			if objects[key] == nil {
				s.become(key, old, nil, time.Time{})
			}
		}
		for key, o := range objects {
			if old := before[key]; !s.become(key, old, o, time.Time{}) {
				objects[key] = old
			}
		}
		s.listed = true
		s.missNode()
	})
	s.feed.note(func(r *ResourceState) { r.Listed = true })
	return nil
}

// missNode reports a Node that is not there.
func (s *store) missNode() {
	if s.kind == kindNode && len(s.objects) == 0 {
		s.api.missNode()
	}
}

// Resync has nothing to do: nothing was forgotten.
func (s *store) Resync() error { return nil }

// Transformer lets a reflector that reads a stream of all objects keep small ones
// until it has them all.
func (s *store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.translate(obj) }
}

// key names an object of the API.
func (s *store) key(obj any) (objectKey, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return objectKey{}, fmt.Errorf("%s: %w", s.kind, err)
	}
	k := objectKey{kind: s.kind, namespace: m.GetNamespace(), name: m.GetName()}
	if s.kind == kindNode {
		k.name = nodeKey(k.name)
	}
	return k, nil
}

// translate makes an object of this package. Names that no API server has make one
// that means nothing and has a problem.
func (s *store) translate(obj any) (*object, error) {
	key, err := s.key(obj)
	if err != nil {
		return nil, err
	}
	o := &object{key: key}
	r := &reports{}
	if err := s.fill(o, obj, r); err != nil {
		return nil, err
	}
	if len(r.list) > 0 {
		r.of(clip(key.String())) // few have problems
	}
	o.problems = r.problems()
	return o, nil
}

// fill translates what is in an object.
func (s *store) fill(o *object, obj any, r *reports) error {
	if err := o.key.check(); err != nil {
		r.add("", "%v", err)
		return nil
	}
	switch t := obj.(type) {
	case *corev1.Service:
		o.uid = string(t.UID)
		o.service = service(t, r)
	case *discoveryv1.EndpointSlice:
		if owner, ok := sliceOwner(t, r); ok {
			o.owner, o.endpoints = owner, slices.Clip(endpoints(t, r))
		}
	case *corev1.Node:
		o.node = node(t, r)
	default:
		return fmt.Errorf("%s: is a %T", o.key, obj)
	}
	return nil
}

// set makes now, or nil for none, the object of the key.
func (s *store) set(key objectKey, now *object, trigger time.Time) {
	if !s.become(key, s.objects[key], now, trigger) {
		return
	}
	if now == nil {
		delete(s.objects, key)
	} else {
		s.objects[key] = now
	}
}

// become takes in that the object of the key, old until then, is now another one; each is
// nil for none. One that means the same as before changes nothing: then it is false.
func (s *store) become(key objectKey, old, now *object, trigger time.Time) bool {
	same := key.same(old, now)
	if old != nil && now != nil && same && old.uid == now.uid && slices.Equal(old.problems, now.problems) {
		return false
	}
	s.api.take(key, old, now)
	if same {
		return true
	}
	s.feed.note(func(r *ResourceState) { r.Changes++ })
	if now.owned() && s.api.synced && trigger.After(s.api.started) {
		s.api.triggers = append(s.api.triggers, Trigger{Service: now.owner, IPv6: ofIPv6(now), At: trigger})
	}
	return true
}

// ofIPv6 reports the family of a slice.
func ofIPv6(o *object) bool { return len(o.endpoints) > 0 && o.endpoints[0].Addr.Addr().Is6() }

// triggerTime is when the cause of an EndpointSlice's present state happened, zero
// when nobody says.
func triggerTime(obj any) time.Time {
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s.Annotations[corev1.EndpointsLastChangeTriggerTime])
	if err != nil {
		return time.Time{}
	}
	return t
}
