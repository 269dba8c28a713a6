package main

import (
	"context"
	"reflect"
	"sort"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// kinds are the types that the scheduler or one of its plugins watches.
var kinds = []runtime.Object{
	&corev1.Namespace{}, &corev1.Node{}, &corev1.Pod{}, &corev1.Service{},
	&corev1.ReplicationController{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{},
	&appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &policyv1.PodDisruptionBudget{},
	&storagev1.StorageClass{}, &storagev1.CSINode{}, &storagev1.CSIDriver{},
	&storagev1.CSIStorageCapacity{}, &storagev1.VolumeAttachment{},
	&resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{}, &resourcev1.DeviceClass{},
	deviceTaintRule,
}

// newInformers returns a factory of informers that never watch, and the informers by type.
func newInformers(client kubernetes.Interface) (informers.SharedInformerFactory, map[reflect.Type]*informer) {
	factory := informers.NewSharedInformerFactory(client, 0)
	made := make(map[reflect.Type]*informer, len(kinds))
	for _, kind := range kinds {
		index := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		each := &informer{Indexer: byName{cache.NewIndexer(cache.MetaNamespaceKeyFunc, index)}}
		made[reflect.TypeOf(kind)] = each
		factory.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return each
		})
	}
	return factory, made
}

// byName lists objects by namespace and name, where an informer lists them in the order of a map.
type byName struct {
	cache.Indexer
}

func (b byName) List() []any {
	keys := b.ListKeys()
	sort.Strings(keys)
	objects := make([]any, 0, len(keys))
	for _, key := range keys {
		if object, known, err := b.GetByKey(key); known && err == nil {
			objects = append(objects, object)
		}
	}
	return objects
}

// informer passes each change to its handlers in the same call. It is always synced.
type informer struct {
	cache.Indexer
	handlers []cache.ResourceEventHandler
}

var _ cache.SharedIndexInformer = &informer{}

// put adds or replaces an object and calls all handlers before it returns.
func (i *informer) put(object any) error {
	before, known, err := i.Indexer.Get(object)
	if err != nil {
		return err
	}
	if known {
		if err := i.Indexer.Update(object); err != nil {
			return err
		}
		for _, handler := range i.handlers {
			handler.OnUpdate(before, object)
		}
		return nil
	}
	if err := i.Indexer.Add(object); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		handler.OnAdd(object, false)
	}
	return nil
}

// remove deletes an object and tells everyone before it returns.
func (i *informer) remove(object any) error {
	if err := i.Indexer.Delete(object); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		handler.OnDelete(object)
	}
	return nil
}

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, object := range i.List() {
		handler.OnAdd(object, true)
	}
	i.handlers = append(i.handlers, handler)
	return done{}, nil
}

func (i *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (i *informer) GetStore() cache.Store                                           { return i.Indexer }
func (i *informer) GetIndexer() cache.Indexer                                       { return i.Indexer }
func (i *informer) GetController() cache.Controller                                 { return nil }
func (i *informer) Run(<-chan struct{})                                             {}
func (i *informer) RunWithContext(context.Context)                                  {}
func (i *informer) HasSynced() bool                                                 { return true }
func (i *informer) HasSyncedChecker() cache.DoneChecker                             { return done{} }
func (i *informer) LastSyncResourceVersion() string                                 { return "" }
func (i *informer) SetWatchErrorHandler(cache.WatchErrorHandler) error              { return nil }
func (i *informer) SetTransform(cache.TransformFunc) error                          { return nil }
func (i *informer) IsStopped() bool                                                 { return false }
func (i *informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// done is the registration of a handler that has seen everything.
type done struct{}

var ended = func() chan struct{} {
	channel := make(chan struct{})
	close(channel)
	return channel
}()

func (done) HasSynced() bool                     { return true }
func (done) HasSyncedChecker() cache.DoneChecker { return done{} }
func (done) Name() string                        { return "filled by hand" }
func (done) Done() <-chan struct{}               { return ended }
