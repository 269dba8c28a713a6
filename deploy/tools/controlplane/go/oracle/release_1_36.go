//go:build v1.36

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// deviceTaintRule is of the version that the release watches.
var deviceTaintRule = &resourcev1beta2.DeviceTaintRule{}

// queued returns a pod in the scheduling queue.
func queued(made *scheduler.Scheduler, pod *corev1.Pod) (*framework.QueuedPodInfo, bool) {
	return made.SchedulingQueue.GetPod(pod.Name, pod.Namespace)
}

func (p *observedPreemption) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo, budgets []*policyv1.PodDisruptionBudget) ([]*corev1.Pod, int, *fwk.Status) {
	victims, violations, status := p.Interface.SelectVictimsOnNode(ctx, state, pod, info, budgets)
	p.candidate(info, victims, violations, status)
	return victims, violations, status
}
