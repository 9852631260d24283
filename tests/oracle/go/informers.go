package main

import (
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// still is an informer over objects that never change: whoever adds a handler is told of all of them before the call
// returns. No goroutine, no watch, so that a framework for each of thousands of clusters costs next to nothing.
type still struct {
	cache.SharedIndexInformer
}

// GetIndexer lists objects by their keys: kube-scheduler takes the first that suffices of some kinds, in Go's random order.
func (s still) GetIndexer() cache.Indexer { return ordered{s.SharedIndexInformer.GetIndexer()} }
func (s still) GetStore() cache.Store     { return s.GetIndexer() }

type ordered struct{ cache.Indexer }

func (o ordered) List() []interface{} {
	keys := o.ListKeys()
	sort.Strings(keys)
	var found []interface{}
	for _, key := range keys {
		if object, exists, err := o.GetByKey(key); err == nil && exists {
			found = append(found, object)
		}
	}
	return found
}

func (s still) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, object := range s.GetStore().List() {
		handler.OnAdd(object, true)
	}
	return synced{}, nil
}

func (s still) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(handler)
}

func (s still) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(handler)
}

func (s still) HasSynced() bool { return true }

type synced struct{}

func (synced) HasSynced() bool { return true }

// stillFactory is a factory whose informers of the kinds of `objects` hold those objects; other kinds are empty.
func stillFactory(client kubernetes.Interface, kinds []runtime.Object, objects []runtime.Object) (informers.SharedInformerFactory, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	byKind := map[string]cache.SharedIndexInformer{}
	for _, kind := range kinds {
		byKind[kindOf(kind)] = factory.InformerFor(kind, newStill(kind))
	}
	for _, object := range objects {
		if err := byKind[kindOf(object)].GetIndexer().Add(object); err != nil {
			return nil, err
		}
	}
	return factory, nil
}

func newStill(kind runtime.Object) func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
	return func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		return still{cache.NewSharedIndexInformer(&cache.ListWatch{}, kind, 0, byNamespace)}
	}
}
