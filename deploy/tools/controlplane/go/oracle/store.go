package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// epoch is when a cluster begins; the clock of the queue starts there, too.
var epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// store is the API server: the objects of one cluster, and the informers that tell of them.
type store struct {
	informers map[reflect.Type]*informer
	calls     *calls
}

// decode reads an object.
func decode(raw json.RawMessage) (runtime.Object, error) {
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	if _, err := meta.Accessor(object); err != nil {
		return nil, fmt.Errorf("object %v: %w", kind, err)
	}
	return object, nil
}

// put writes an object with a new version; kinds without a watch are skipped.
func (s *store) put(object runtime.Object) error {
	watched, known := s.informers[reflect.TypeOf(object)]
	if !known {
		return nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	s.calls.lock.Lock()
	accessor.SetResourceVersion(s.calls.nextVersion())
	s.calls.lock.Unlock()
	return watched.put(object)
}

func (s *store) pods() *informer {
	return s.informers[reflect.TypeOf(&corev1.Pod{})]
}

func (s *store) nodes() *informer {
	return s.informers[reflect.TypeOf(&corev1.Node{})]
}

// pod returns a copy of a pod that may be changed and put; nil when there is none.
func (s *store) pod(namespace, name string) *corev1.Pod {
	found, known, err := s.pods().GetByKey(namespace + "/" + name)
	if err != nil || !known {
		return nil
	}
	return found.(*corev1.Pod).DeepCopy()
}

// terminating returns the pods that are being deleted, in name order.
func (s *store) terminating() []*corev1.Pod {
	var found []*corev1.Pod
	for _, each := range s.pods().List() {
		if pod := each.(*corev1.Pod); pod.DeletionTimestamp != nil {
			found = append(found, pod)
		}
	}
	sort.Slice(found, func(i, j int) bool { return key(found[i]) < key(found[j]) })
	return found
}

// apply carries out calls. Those on behalf of the pod that was just decided come first; the rest
// was made concurrently and is put into a fixed order.
func (s *store) apply(made []clienttesting.Action, decided string) error {
	sort.SliceStable(made, func(i, j int) bool { return rank(made[i], decided) < rank(made[j], decided) })
	for _, action := range made {
		if err := s.applyOne(action); err != nil {
			return err
		}
	}
	return nil
}

// rank orders calls: the decided pod, then withdrawn nominations and victims by name.
func rank(action clienttesting.Action, decided string) string {
	name := ""
	switch call := action.(type) {
	case clienttesting.PatchActionImpl:
		name = call.Namespace + "/" + call.Name
	case clienttesting.DeleteActionImpl:
		name = call.Namespace + "/" + call.Name
	}
	if name == decided {
		return ""
	}
	return name
}

func (s *store) applyOne(action clienttesting.Action) error {
	switch call := action.(type) {
	case clienttesting.PatchActionImpl:
		if call.Resource.Resource == "pods" {
			return s.patchPod(call)
		}
	case clienttesting.DeleteActionImpl:
		if call.Resource.Resource == "pods" {
			return s.deletePod(call)
		}
	case clienttesting.UpdateActionImpl:
		return s.update(call.Object)
	case clienttesting.CreateActionImpl:
		if binding, ok := call.Object.(*corev1.Binding); ok {
			return s.bind(binding)
		}
	}
	return fmt.Errorf("unexpected call: %s %s", action.GetVerb(), action.GetResource().Resource)
}

func (s *store) patchPod(call clienttesting.PatchActionImpl) error {
	pod := s.pod(call.Namespace, call.Name)
	if pod == nil {
		return nil
	}
	before, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	after, err := strategicpatch.StrategicMergePatch(before, call.Patch, &corev1.Pod{})
	if err != nil {
		return err
	}
	patched := &corev1.Pod{}
	if err := json.Unmarshal(after, patched); err != nil {
		return err
	}
	return s.put(patched)
}

func (s *store) deletePod(call clienttesting.DeleteActionImpl) error {
	pod := s.pod(call.Namespace, call.Name)
	if pod == nil || pod.DeletionTimestamp != nil {
		return nil
	}
	pod.DeletionTimestamp = &metav1.Time{Time: epoch}
	return s.put(pod)
}

func (s *store) bind(binding *corev1.Binding) error {
	pod := s.pod(binding.Namespace, binding.Name)
	if pod == nil {
		return nil
	}
	pod.Spec.NodeName = binding.Target.Name
	pod.Status.Phase = corev1.PodRunning
	pod.Status.NominatedNodeName = ""
	return s.put(pod)
}

// update takes over an object that the scheduler wrote. A volume that was given to a claim is bound
// to it, as the controller would do, whichever of the two is written last.
func (s *store) update(object runtime.Object) error {
	if err := s.put(object.DeepCopyObject()); err != nil {
		return err
	}
	switch written := object.(type) {
	case *corev1.PersistentVolume:
		return s.bindVolume(written)
	case *corev1.PersistentVolumeClaim:
		for _, each := range s.informers[reflect.TypeOf(&corev1.PersistentVolume{})].List() {
			volume := each.(*corev1.PersistentVolume)
			claim := volume.Spec.ClaimRef
			if claim != nil && claim.Namespace == written.Namespace && claim.Name == written.Name {
				return s.bindVolume(volume)
			}
		}
	}
	return nil
}

func (s *store) bindVolume(volume *corev1.PersistentVolume) error {
	if volume.Spec.ClaimRef == nil {
		return nil
	}
	claims := s.informers[reflect.TypeOf(&corev1.PersistentVolumeClaim{})]
	found, known, err := claims.GetByKey(volume.Spec.ClaimRef.Namespace + "/" + volume.Spec.ClaimRef.Name)
	if err != nil || !known {
		return err
	}
	volume = volume.DeepCopy()
	volume.Status.Phase = corev1.VolumeBound
	if err := s.put(volume); err != nil {
		return err
	}
	claim := found.(*corev1.PersistentVolumeClaim).DeepCopy()
	claim.Spec.VolumeName = volume.Name
	claim.Status.Phase = corev1.ClaimBound
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	return s.put(claim)
}

func key(object metav1.Object) string {
	return object.GetNamespace() + "/" + object.GetName()
}
