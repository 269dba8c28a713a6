package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"
)

const (
	claimResource = "resourceclaims"
	// mostConsumers is how many pods a claim may be reserved for.
	mostConsumers = 256
)

var (
	claimKind  = resourcev1.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind()
	claimGroup = resourcev1.Resource(claimResource)
)

// claims is the API server for resource claims, with the drivers of their devices. Calls take
// effect at once: the plugin continues with what it has written.
type claims struct {
	store *store
}

func (c claims) informer() *informer {
	return c.store.informers[reflect.TypeOf(&resourcev1.ResourceClaim{})]
}

// get returns a copy of a claim.
func (c claims) get(namespace, name string) (*resourcev1.ResourceClaim, error) {
	found, known, err := c.informer().GetByKey(namespace + "/" + name)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, apierrors.NewNotFound(claimGroup, name)
	}
	return found.(*resourcev1.ResourceClaim).DeepCopy(), nil
}

// answer carries out a call and returns what the API server would.
func (c claims) answer(action clienttesting.Action) (runtime.Object, error) {
	switch call := action.(type) {
	case clienttesting.GetActionImpl:
		return c.get(call.Namespace, call.Name)
	case clienttesting.CreateActionImpl:
		return c.create(call)
	case clienttesting.UpdateActionImpl:
		return c.update(call)
	case clienttesting.PatchActionImpl:
		return c.patch(call)
	case clienttesting.DeleteActionImpl:
		return &resourcev1.ResourceClaim{}, c.delete(call.Namespace, call.Name)
	}
	return nil, fmt.Errorf("unexpected %s of a claim", action.GetVerb())
}

// create adds a claim. Its name has nothing random, so that both sides can know it.
func (c claims) create(call clienttesting.CreateActionImpl) (runtime.Object, error) {
	claim := call.Object.(*resourcev1.ResourceClaim).DeepCopy()
	if claim.Name == "" {
		claim.Name = strings.TrimSuffix(claim.GenerateName, "-")
	}
	if _, err := c.get(claim.Namespace, claim.Name); err == nil {
		return nil, apierrors.NewAlreadyExists(claimGroup, claim.Name)
	}
	claim.UID = types.UID("uid-" + claim.Name)
	claim.Status = resourcev1.ResourceClaimStatus{}
	return c.put(claim)
}

// update changes a claim, or its status alone.
func (c claims) update(call clienttesting.UpdateActionImpl) (runtime.Object, error) {
	wanted := call.Object.(*resourcev1.ResourceClaim).DeepCopy()
	known, err := c.get(wanted.Namespace, wanted.Name)
	if err != nil {
		return nil, err
	}
	if wanted.ResourceVersion != known.ResourceVersion {
		return nil, apierrors.NewConflict(claimGroup, wanted.Name, fmt.Errorf("the claim has changed"))
	}
	if call.Subresource == "status" {
		return c.updateStatus(known, wanted.Status)
	}
	wanted.Status = known.Status
	wanted.DeletionTimestamp = known.DeletionTimestamp
	if wanted.DeletionTimestamp != nil && len(wanted.Finalizers) == 0 {
		return wanted, c.informer().remove(known)
	}
	return c.put(wanted)
}

func (c claims) patch(call clienttesting.PatchActionImpl) (runtime.Object, error) {
	known, err := c.get(call.Namespace, call.Name)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(known)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, call.Patch, &resourcev1.ResourceClaim{})
	if err != nil {
		return nil, err
	}
	patched := &resourcev1.ResourceClaim{}
	if err := json.Unmarshal(after, patched); err != nil {
		return nil, err
	}
	if call.Subresource != "status" || patched.UID != known.UID {
		return nil, apierrors.NewConflict(claimGroup, call.Name, fmt.Errorf("another claim"))
	}
	return c.updateStatus(known, patched.Status)
}

func (c claims) delete(namespace, name string) error {
	known, err := c.get(namespace, name)
	if err != nil {
		return err
	}
	if len(known.Finalizers) == 0 {
		return c.informer().remove(known)
	}
	known.DeletionTimestamp = &metav1.Time{Time: epoch}
	_, err = c.put(known)
	return err
}

// updateStatus writes a status that the API server accepts. The drivers make the devices ready in
// the same moment.
//
// Source: kubernetes pkg/registry/resource/resourceclaim, pkg/apis/resource/validation.
func (c claims) updateStatus(known *resourcev1.ResourceClaim, status resourcev1.ResourceClaimStatus) (runtime.Object, error) {
	if problem := refusal(known, status); problem != nil {
		return nil, apierrors.NewInvalid(claimKind, known.Name, field.ErrorList{problem})
	}
	known.Status = status
	if status.Allocation == nil {
		known.Status.Devices = nil
	} else if len(status.ReservedFor) > 0 {
		makeReady(known)
	}
	return c.put(known)
}

// refusal returns why the API server refuses a status; nil if it accepts it.
func refusal(known *resourcev1.ResourceClaim, status resourcev1.ResourceClaimStatus) *field.Error {
	before, consumers := known.Status.Allocation, field.NewPath("status", "reservedFor")
	if before != nil && status.Allocation != nil && !reflect.DeepEqual(before.Devices.Results, status.Allocation.Devices.Results) {
		return field.Forbidden(field.NewPath("status", "allocation"), "field is immutable")
	}
	if status.Allocation == nil && len(status.ReservedFor) > 0 {
		return field.Forbidden(consumers, "may not be specified when `allocated` is not set")
	}
	if len(status.ReservedFor) > mostConsumers {
		return field.TooMany(consumers, len(status.ReservedFor), mostConsumers)
	}
	seen := map[types.UID]bool{}
	for _, consumer := range status.ReservedFor {
		if seen[consumer.UID] {
			return field.Duplicate(consumers, consumer.UID)
		}
		seen[consumer.UID] = true
	}
	return nil
}

// makeReady sets what the drivers of the devices are waited for.
func makeReady(claim *resourcev1.ResourceClaim) {
	for _, result := range claim.Status.Allocation.Devices.Results {
		if len(result.BindingConditions) == 0 {
			continue
		}
		var conditions []metav1.Condition
		for _, condition := range result.BindingConditions {
			conditions = append(conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue})
		}
		at := -1
		for index, device := range claim.Status.Devices {
			if device.Driver == result.Driver && device.Pool == result.Pool && device.Device == result.Device {
				at = index
			}
		}
		if at < 0 {
			claim.Status.Devices = append(claim.Status.Devices, resourcev1.AllocatedDeviceStatus{
				Driver: result.Driver, Pool: result.Pool, Device: result.Device,
			})
			at = len(claim.Status.Devices) - 1
		}
		claim.Status.Devices[at].Conditions = conditions
	}
}

// podGone takes back what a pod has used that is gone, as the controller of claims does.
func (c claims) podGone(uid types.UID) error {
	for _, each := range c.informer().List() {
		claim := each.(*resourcev1.ResourceClaim).DeepCopy()
		var left []resourcev1.ResourceClaimConsumerReference
		for _, consumer := range claim.Status.ReservedFor {
			if consumer.UID != uid {
				left = append(left, consumer)
			}
		}
		if len(left) == len(claim.Status.ReservedFor) {
			continue
		}
		claim.Status.ReservedFor = left
		if len(left) == 0 {
			claim.Status = resourcev1.ResourceClaimStatus{}
		}
		if _, err := c.put(claim); err != nil {
			return err
		}
	}
	return nil
}

func (c claims) put(claim *resourcev1.ResourceClaim) (runtime.Object, error) {
	if err := c.store.put(claim); err != nil {
		return nil, err
	}
	return claim.DeepCopy(), nil
}

// claimResult is what a claim has after an attempt.
type claimResult struct {
	Allocation *resourcev1.AllocationResult `json:"allocation,omitempty"`
	// ReservedFor has the uids of pods.
	ReservedFor []types.UID `json:"reservedFor,omitempty"`
	// Requests of a claim that the scheduler made for extended resources.
	Requests []resourcev1.DeviceRequest `json:"requests,omitempty"`
}

// all returns the state of every claim by namespace and name.
func (c claims) all() map[string]*claimResult {
	found := map[string]*claimResult{}
	for _, each := range c.informer().List() {
		claim := each.(*resourcev1.ResourceClaim)
		state := &claimResult{Allocation: claim.Status.Allocation}
		for _, consumer := range claim.Status.ReservedFor {
			state.ReservedFor = append(state.ReservedFor, consumer.UID)
		}
		if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "" {
			state.Requests = claim.Spec.Devices.Requests
		}
		found[key(claim)] = state
	}
	return found
}
