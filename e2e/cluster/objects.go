package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
)

// Objects writes Services, EndpointSlices and Nodes into an API.
type Objects struct{ client kubernetes.Interface }

// NewObjects writes by a client that may do so.
func NewObjects(client kubernetes.Interface) Objects { return Objects{client} }

// atOnce is how many requests Apply and Delete have under way.
const atOnce = 16

// Apply makes the API's Services, EndpointSlices and Nodes what objects say, status
// included. What it can't change it deletes and makes anew. Objects are applied in
// no order; all are tried, and the error names each that failed.
func (w Objects) Apply(ctx context.Context, objects ...runtime.Object) error {
	return each(objects, func(o runtime.Object) error { return w.with(o, func(d door) error { return d.apply(ctx) }) })
}

// Delete deletes objects of the same kinds by name; a missing one is no error.
func (w Objects) Delete(ctx context.Context, objects ...runtime.Object) error {
	return each(objects, func(o runtime.Object) error { return w.with(o, func(d door) error { return d.delete(ctx) }) })
}

func each(objects []runtime.Object, do func(runtime.Object) error) error {
	errs := make([]error, len(objects))
	turns := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, o := range objects {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			errs[i] = do(o)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// door is one object and the client of its kind.
type door interface {
	apply(context.Context) error
	delete(context.Context) error
}

// with finds the door of an object; errors name the object.
func (w Objects) with(o runtime.Object, do func(door) error) error {
	var d door
	var what string
	switch o := o.(type) {
	case *corev1.Service:
		what = "Service " + o.Namespace + "/" + o.Name
		d = resource[*corev1.Service]{o, w.client.CoreV1().Services(o.Namespace), (*corev1.Service).DeepCopy}
	case *discoveryv1.EndpointSlice:
		what = "EndpointSlice " + o.Namespace + "/" + o.Name
		d = resource[*discoveryv1.EndpointSlice]{o, sliceDoor{w.client.DiscoveryV1().EndpointSlices(o.Namespace)}, (*discoveryv1.EndpointSlice).DeepCopy}
	case *corev1.Node:
		what = "Node " + o.Name
		d = resource[*corev1.Node]{o, w.client.CoreV1().Nodes(), (*corev1.Node).DeepCopy}
	default:
		return fmt.Errorf("apply: neither Service nor EndpointSlice nor Node: %T", o)
	}
	if err := do(d); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// resource is an object of type T with what its typed client can do.
type resource[T metav1.Object] struct {
	object T
	client typed[T]
	copy   func(T) T
}

// typed is the part of a typed client that is used.
type typed[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	UpdateStatus(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

func (r resource[T]) apply(ctx context.Context) error {
	done, err := r.client.Create(ctx, r.object, metav1.CreateOptions{})
	// A Service that is there already has its ClusterIP: the API calls that invalid.
	if apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) {
		done, err = r.update(ctx, err)
	}
	if err != nil {
		return err
	}
	// Create and Update of the object leave the status as it was or empty.
	o := r.copy(r.object)
	o.SetResourceVersion(done.GetResourceVersion())
	_, err = r.client.UpdateStatus(ctx, o, metav1.UpdateOptions{})
	return err
}

// update changes the object in place, and where the API does not allow that, as for
// another ClusterIP, deletes and creates it. If there is none, it could not be created
// for the reason refused.
func (r resource[T]) update(ctx context.Context, refused error) (T, error) {
	old, err := r.client.Get(ctx, r.object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		err = refused
	}
	if err != nil {
		return old, err
	}
	o := r.copy(r.object)
	o.SetResourceVersion(old.GetResourceVersion())
	done, err := r.client.Update(ctx, o, metav1.UpdateOptions{})
	if !apierrors.IsInvalid(err) {
		return done, err
	}
	if err := r.delete(ctx); err != nil {
		return done, err
	}
	return r.client.Create(ctx, r.object, metav1.CreateOptions{})
}

func (r resource[T]) delete(ctx context.Context) error {
	err := r.client.Delete(ctx, r.object.GetName(), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
