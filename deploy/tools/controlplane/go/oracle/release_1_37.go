//go:build !v1.36

package main

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// deviceTaintRule is of the version that the release watches.
var deviceTaintRule = &resourcev1.DeviceTaintRule{}

// queued returns a pod in the scheduling queue.
func queued(made *scheduler.Scheduler, pod *corev1.Pod) (*framework.QueuedPodInfo, bool) {
	return made.SchedulingQueue.GetPod(pod.Name, pod.Namespace, pod.Spec.SchedulingGroup)
}

func (p *observedPreemption) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo, possible []*preemption.DomainVictim, budgets []*policyv1.PodDisruptionBudget) ([]*corev1.Pod, int, *fwk.Status) {
	// Which budgets a pod is charged to depends on their order, and the lister's is random.
	slices.SortFunc(budgets, func(a, b *policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Status.DisruptionsAllowed, b.Status.DisruptionsAllowed), cmp.Compare(key(a), key(b)))
	})
	victims, violations, status := p.Interface.SelectVictimsOnNode(ctx, state, pod, info, possible, budgets)
	p.candidate(info, victims, violations, status)
	return victims, violations, status
}
