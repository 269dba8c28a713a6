package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// promptBinder writes volumes and claims as the real one does, and then does not wait for the
// controller: calls are applied only after the attempt.
type promptBinder struct {
	volumebinding.SchedulerVolumeBinder
	calls *calls
}

func (b *promptBinder) BindPodVolumes(ctx context.Context, pod *corev1.Pod, volumes *volumebinding.PodVolumes) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := len(volumes.StaticBindings) + len(volumes.DynamicProvisions)
	b.calls.lock.Lock()
	b.calls.written = func(runtime.Object) {
		if left--; left == 0 {
			cancel()
		}
	}
	b.calls.lock.Unlock()
	err := b.SchedulerVolumeBinder.BindPodVolumes(ctx, pod, volumes)
	b.calls.lock.Lock()
	defer b.calls.lock.Unlock()
	b.calls.written = nil
	if left == 0 {
		return nil
	}
	return err
}
